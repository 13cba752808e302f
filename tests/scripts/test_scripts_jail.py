"""The walls, tried from inside: each action is made by a real process that has confined itself."""

import subprocess
import sys
import textwrap

import pytest

from wicket.scripts.jail import Strength, strength

pytestmark = pytest.mark.skipif(not strength().complete, reason="this system has no complete jail")

SIGSYS = -31
SETUP = "import os, sys, socket, ctypes, mmap, threading\nfrom wicket.scripts import jail\n"
ACTIONS = {
    "read a file": "open('/etc/passwd')",
    "write a file": "open('/tmp/wicket-escape', 'w')",
    "list a folder": "os.listdir('/')",
    "connect": "socket.socket().connect(('127.0.0.1', 9))",
    "start a program": "os.execv('/bin/true', ['true'])",
    "fork": "os.fork()",
    "start a thread": "threading.Thread(target=print).start()",
    "signal its parent": "os.kill(os.getppid(), 0)",
    "be traced": "ctypes.CDLL(None).ptrace(0, 0, 0, 0)",
    "make code": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
}


def attempt(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SETUP + textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("action", ACTIONS)
def test_a_confined_process_dies_when_it_tries_to(action: str) -> None:
    free = attempt(f"print('tried')\ntry:\n    {ACTIONS[action]}\nexcept OSError:\n    pass")
    assert (free.returncode, free.stdout[:5]) in ((0, "tried"), (0, "")), "the action itself is sound"
    confined = attempt(
        f"jail.confine(memory=1 << 28, cpu=5)\ntry:\n    {ACTIONS[action]}\nexcept BaseException:\n    pass"
    )
    assert confined.returncode == SIGSYS


def test_memory_is_bounded() -> None:
    ended = attempt("""
        jail.confine(memory=64 << 20, cpu=5)
        try:
            bytearray(256 << 20)
        except MemoryError:
            os.write(1, b"refused")
        os._exit(0)
    """)
    assert ended.stdout == "refused"


def test_a_tree_can_run_what_it_was_given_and_nothing_else() -> None:
    ended = attempt("""
        import subprocess, shutil
        allowed, other = os.path.realpath(shutil.which("true")), os.path.realpath(shutil.which("ls"))
        jail.confine_tree(memory=1 << 30, cpu=5, readable=(allowed, "/lib", "/lib64", "/usr/lib", "/dev/null"))
        def start(program):
            try:
                return os.spawnv(os.P_WAIT, program, [program])
            except OSError:
                return "refused"
        def read(path):
            try:
                return open(path).read()
            except PermissionError:
                return "refused"
        os.write(1, repr([start(allowed), start(other), read("/etc/passwd")]).encode())
        os._exit(0)
    """)
    assert ended.stdout == "[0, 127, 'refused']"


DEGRADED = """
    import asyncio
    LANDLOCK_CREATE = 444
    jail.seal()
    jail.install_filter([(0x20, 0, 0, 0), (0x15, 0, 1, LANDLOCK_CREATE), (6, 0, 0, 0x50026), (6, 0, 0, 0x7FFF0000)])
    from wicket.scripts import Api, Scripts
    async def call(*args): return {}
    async def main():
        for how in ("auto", "strict"):
            scripts = Scripts(jail=how)
            outcome = await scripts.run("return 1", "lua", Api(), call)
            print(how, outcome.state, outcome.value, outcome.problem.kind if outcome.problem else "")
            print(scripts.status())
            await scripts.close()
    asyncio.run(main())
"""


def test_a_kernel_without_landlock_runs_degraded_and_strict_refuses() -> None:
    ended = attempt(DEGRADED)
    auto, auto_status, strict, strict_status = ended.stdout.splitlines()
    assert auto == "auto done 1 "
    assert "degraded: this system has no Landlock" in auto_status
    assert strict == "strict error None jail"
    assert strict_status.startswith("refused")
    assert "scripts run in a jail that is degraded" in ended.stderr


def test_strength_says_what_is_missing() -> None:
    assert str(Strength(7, True, True)).startswith("full")
    assert Strength(0, False, False).missing == ("Landlock", "seccomp", "pidfd")
    assert not Strength(3, True, True).complete
