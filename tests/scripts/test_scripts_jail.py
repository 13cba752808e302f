"""The walls, tried from inside: each action is made by a real process that has confined itself."""

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from scripts_world import API, family, run, structured
from tests import needs

from wicket_mcp.model import Json, JsonObject
from wicket_mcp.scripts import Scripts, mounts, process_limit, seccomp
from wicket_mcp.scripts.calls import CallKind
from wicket_mcp.scripts.jail import Strength, strength

pytestmark = pytest.mark.skipif(not strength().complete, reason=needs.JAIL)

SIGSYS = -31
SETUP = """
import os, sys, socket, ctypes, mmap, resource, shutil, threading
from wicket_mcp.scripts import jail, seccomp
libc = ctypes.CDLL(None, use_errno=True)
def raw(*numbers):
    if libc.syscall(*map(ctypes.c_long, numbers)) < 0:
        raise OSError(ctypes.get_errno(), "refused")
datagrams = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
"""
ACTIONS = {
    "read a file": "open('/etc/passwd')",
    "write a file": "open('/tmp/wicket-escape', 'w')",
    "list a folder": "os.listdir('/')",
    "connect": "socket.socket().connect(('127.0.0.1', 9))",
    "start a program": "os.execv('/bin/true', ['true'])",
    "fork": "os.fork()",
    "start a thread": "threading.Thread(target=print).start()",
    "signal its parent": "os.kill(os.getppid(), 0)",
    "be traced": "libc.ptrace(0, 0, 0, 0)",
    "make code": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)",
    "send to a name": "datagrams[0].sendto(b'x', '/tmp/wicket-nobody')",
    "send to a name unseen": "datagrams[0].sendmsg([b'x'], [], 0, '/tmp/wicket-nobody')",
}
X86 = {"clone": 56, "mprotect": 10, "unshare": 272, "clone3": 435, "io_uring_setup": 425, "keyctl": 250}
ARM = {"clone": 220, "mprotect": 226, "unshare": 97, "clone3": 435, "io_uring_setup": 425, "keyctl": 219}
HERE = ARM if os.uname().machine == "aarch64" else X86
FATAL_IN_A_TREE = {
    "connect": ACTIONS["connect"],
    "be traced": ACTIONS["be traced"],
    "make code": ACTIONS["make code"],
    "make code of nothing but memory": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
    "leave its group": "os.setsid()",
    "make a file in memory": "os.memfd_create('x')",
    "enter a namespace": f"raw({HERE['unshare']}, 0x10000000)",
    "start a process in a namespace": f"raw({HERE['clone']}, 0x10000011, 0, 0, 0, 0)",
    "open a ring": f"raw({HERE['io_uring_setup']}, 1, 0)",
    "read keys": f"raw({HERE['keyctl']}, 0, -1, 0)",
    "make sockets that send to any name": "socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)",
    "send to a name": "datagrams[0].sendto(b'x', '/tmp/wicket-nobody')",
    "send to a name unseen": "datagrams[0].sendmsg([b'x'], [], 0, '/tmp/wicket-nobody')",
}
REFUSED_IN_A_TREE = {
    "read a file": ACTIONS["read a file"],
    "write a file": ACTIONS["write a file"],
    "write to what it may read": "os.open('/dev/null', os.O_WRONLY)",
    "list a folder": ACTIONS["list a folder"],
    "signal its parent": ACTIONS["signal its parent"],
    "start another program": "os.execv(ls, ['ls'])",
    "loosen its limits": "resource.setrlimit(resource.RLIMIT_CORE, (0, 0))",
    "start a process unseen": f"raw({HERE['clone3']}, 0, 0)",
    "try a call of a later kernel": "raw(4000)",
}
POSSIBLE_IN_A_TREE = {
    "start the program": "assert os.spawnv(os.P_WAIT, program, [program]) == 0",
    "fork": "assert os.waitpid(os.fork() or os._exit(3), 0)[1] == 3 << 8",
    "start a thread": "t = threading.Thread(target=os.getpid); t.start(); t.join()",
    "read its libraries": "os.listdir('/usr/lib')",
    "read its limits": "resource.getrlimit(resource.RLIMIT_STACK)",
    "talk to itself": "a, b = socket.socketpair(); a.send(b'x'); assert b.recv(1) == b'x'",
    "talk to itself in packets": "socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)",
}
TREE = """
program, ls = (os.path.realpath(shutil.which(name)) for name in ("true", "ls"))
jail.confine_tree(memory=1 << 30, cpu=5, program=program, readable=("/lib", "/lib64", "/usr/lib", "/dev/null"))
"""


def attempt(code: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SETUP + textwrap.dedent(code)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("action", ACTIONS)
@pytest.mark.promise("T25", "A script's process dies when it touches files, network or other processes.")
def test_t25_a_confined_process_dies_when_it_tries_to(action: str) -> None:
    free = attempt(f"print('tried')\ntry:\n    {ACTIONS[action]}\nexcept OSError:\n    pass")
    assert (free.returncode, free.stdout[:5]) in ((0, "tried"), (0, "")), "the action itself is sound"
    tried = f"try:\n    {ACTIONS[action]}\nexcept BaseException:\n    pass\nos._exit(0)"
    confined = attempt(f"jail.confine(memory=1 << 28, cpu=5)\n{tried}")
    assert confined.returncode == SIGSYS


@pytest.mark.parametrize("action", FATAL_IN_A_TREE)
def test_a_process_that_may_start_one_program_dies_when_it_tries_to(action: str) -> None:
    ended = attempt(f"{TREE}\ntry:\n    {FATAL_IN_A_TREE[action]}\nexcept BaseException:\n    pass\nos._exit(0)")
    assert ended.returncode == SIGSYS


@pytest.mark.parametrize("action", REFUSED_IN_A_TREE)
def test_a_process_that_may_start_one_program_cannot(action: str) -> None:
    tried = f"try:\n    {REFUSED_IN_A_TREE[action]}\nexcept (OSError, ValueError):\n    os._exit(7)\nos._exit(0)"
    assert attempt(f"{TREE}\n{tried}").returncode == 7


@pytest.mark.parametrize("action", POSSIBLE_IN_A_TREE)
def test_a_process_that_may_start_one_program_still_can(action: str) -> None:
    ended = attempt(f"{TREE}\n{POSSIBLE_IN_A_TREE[action]}\nos._exit(0)")
    assert (ended.returncode, ended.stderr) == (0, "")


LOOKS = """
def seen(path):
    found = []
    for look in (os.stat, os.lstat, os.open, os.listdir, os.readlink, lambda p, *_: os.execv(p, ["x"])):
        try:
            look(path, os.O_RDONLY) if look is os.open else look(path)
        except OSError as problem:
            found.append(problem.errno)
        else:
            found.append(0)
    return found + [os.access(path, os.F_OK)]
"""


@pytest.mark.skipif(not mounts.available(), reason=needs.MOUNTS)
@pytest.mark.promise("T25", "A script's process cannot find out which paths exist.")
def test_t25_a_path_of_the_host_looks_like_one_that_is_not_there(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    own = [str(tmp_path / "secret"), str(tmp_path), sys.executable]
    paths = [*own, "/etc/passwd", "/etc/shadow", "/proc/self/status", "/root", "/home"]
    missing = str(tmp_path / "nothing")
    ended = attempt(
        f"{LOOKS}\npaths, missing = {paths!r}, {missing!r}\n{TREE}"
        """
different = [path for path in paths if seen(path) != seen(missing)]
os.write(1, repr(different).encode())
os._exit(0)
"""
    )
    assert (ended.stdout, ended.stderr) == ("[]", "")


@pytest.mark.skipif(os.geteuid() != 0 or not mounts.available(), reason=needs.OTHER_USERS)
def test_who_is_not_root_has_a_user_namespace_for_it_and_no_capabilities_there() -> None:
    ended = attempt("""
        os.setgid(61000)
        os.setuid(61000)
        hidden = jail.mounts.hide_host(("/usr/lib", "/lib", "/lib64", "/bin/true"))
        mounted = libc.mount(b"tmpfs", b"/usr/lib", b"tmpfs", 0, None)
        print(hidden, os.path.exists("/etc/passwd"), os.path.exists("/usr/lib"), os.getuid(), mounted)
    """)
    assert (ended.stdout.split(), ended.stderr) == (["True", "False", "True", "61000", "-1"], "")


def test_memory_that_was_written_cannot_become_code_in_a_tree() -> None:
    ended = attempt(f"""
        page = mmap.mmap(-1, 4096)
        address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        {TREE.strip().replace(chr(10), chr(10) + " " * 8)}
        raw({HERE["mprotect"]}, address, 4096, mmap.PROT_READ | mmap.PROT_EXEC)
        os._exit(0)
    """)
    assert ended.returncode in (SIGSYS, 1), "ended, or refused where the loader itself may try"


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


# Both machines' lists are looked at on either, by a kernel of a few lines.

NUMBERS = {
    "x86_64": {"socket": 41, "openat": 257, "clone": 56, "clone3": 435, "mmap": 9, "ptrace": 101, "execve": 59,
               "futex": 202, "prctl": 157, "kill": 62, "bpf": 321, "mprotect": 10, "statx": 332, "epoll_pwait": 281,
               "ioctl": 16, "fcntl": 72, "prlimit64": 302, "socketpair": 53, "tgkill": 234,
               "sendto": 44},
    "aarch64": {"socket": 198, "openat": 56, "clone": 220, "clone3": 435, "mmap": 222, "ptrace": 117, "execve": 221,
                "futex": 98, "prctl": 167, "kill": 129, "bpf": 280, "mprotect": 226, "statx": 291, "epoll_pwait": 22,
                "ioctl": 29, "fcntl": 25, "prlimit64": 261, "socketpair": 199, "tgkill": 131,
                "sendto": 206},
}  # fmt: skip
AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
ALLOW, KILL, EPERM, EACCES, EINVAL, ENOTTY, ENOSYS = (
    0x7FFF0000, 0x80000000, 0x50001, 0x5000D, 0x50016, 0x50019, 0x50026
)  # fmt: skip


def verdict(program: seccomp.Program, audit: int, number: int, *arguments: int) -> int:
    data = {0: number, 4: audit}
    for index, value in enumerate((*arguments, *([0] * 6))[:6]):
        data[16 + 8 * index], data[20 + 8 * index] = value & 0xFFFFFFFF, value >> 32
    at, loaded = 0, 0
    while True:
        code, true, false, operand = program[at]
        at += 1
        match code:
            case 0x20:
                loaded = data[operand]
            case 0x15:
                at += true if loaded == operand else false
            case 0x25:
                at += true if loaded > operand else false
            case 0x35:
                at += true if loaded >= operand else false
            case 0x45:
                at += true if loaded & operand else false
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"no such instruction: {code:#x}")


@pytest.mark.parametrize("machine", NUMBERS)
def test_the_list_for_a_tree_says_the_same_on_both_machines(machine: str) -> None:
    program = seccomp.tree(machine)

    def asked(name: str, *arguments: int) -> int:
        return verdict(program, AUDIT[machine], NUMBERS[machine][name], *arguments)

    assert [asked(name) for name in ("execve", "futex", "statx", "epoll_pwait")] == [ALLOW] * 4
    assert [asked(name) for name in ("socket", "ptrace", "bpf")] == [KILL] * 3
    assert [asked("openat", 0, 0, flags) for flags in (0o2000000, 1, 2, 0o100)] == [ALLOW, EACCES, EACCES, EACCES]
    assert [asked("clone", flags) for flags in (0x3D0F00, 0x1200011, 0x4111, 0x10000011)] == [ALLOW, ALLOW, ALLOW, KILL]
    code_from_a_file, code_from_memory, code_to_write = (5, 0x802), (5, 0x22), (7, 0x802)
    assert [asked("mmap", 0, 1, *how) for how in (code_from_a_file, code_from_memory, code_to_write, (3, 0x22))] == [
        ALLOW,
        KILL,
        KILL,
        ALLOW,
    ]
    assert asked("mprotect", 0, 1, 5) == (KILL if machine == "x86_64" else EPERM)
    assert [asked("prctl", 15), asked("prctl", 22), asked("kill", 1, 9), asked("clone3")] == [
        ALLOW,
        EINVAL,
        EPERM,
        ENOSYS,
    ]
    unblock, push_into_terminal, own_signals = 0x5421, 0x5412, 8
    assert [asked("ioctl", 0, unblock), asked("ioctl", 0, push_into_terminal)] == [ALLOW, ENOTTY]
    assert [asked("fcntl", 0, 1030), asked("fcntl", 0, own_signals)] == [ALLOW, EINVAL]
    assert [asked("prlimit64", 0, 7, 0), asked("prlimit64", 0, 7, 1 << 33), asked("prlimit64", 1)] == [
        ALLOW,
        EPERM,
        EPERM,
    ]
    stream, datagram, raw, packets, unblocked, closed_on_exec, inet = 1, 2, 3, 5, 0x800, 0x80000, 2
    joined = (stream, packets, stream | unblocked, packets | closed_on_exec, stream | unblocked | closed_on_exec)
    assert [asked("socketpair", 1, kind) for kind in joined] == [ALLOW] * 5
    assert [asked("socketpair", 1, kind) for kind in (datagram, raw, datagram | closed_on_exec)] == [KILL] * 3
    assert asked("socketpair", inet, stream) == KILL
    assert [asked("sendto", 3, 1, 1, 0, address) for address in (0, 1, 1 << 33)] == [ALLOW, KILL, KILL]
    assert [asked("tgkill", os.getpid(), 1), asked("tgkill", 1, 1)] == [ALLOW, EPERM]
    assert verdict(program, AUDIT[machine], 600) == ENOSYS, "of a later kernel: a C library goes on without"
    assert verdict(program, 0x40000003, NUMBERS[machine]["futex"]) == KILL, "the calls of another machine"


@pytest.mark.parametrize("machine", NUMBERS)
def test_the_list_for_an_interpreter_has_no_files_no_programs_and_no_code(machine: str) -> None:
    program = seccomp.interpreter(machine)
    somewhere = 1 << 33
    allowed = [
        name
        for name, number in NUMBERS[machine].items()
        if verdict(program, AUDIT[machine], number, 0, 1, 7, 0, somewhere) == ALLOW
    ]
    assert allowed == ["futex"]
    assert verdict(program, AUDIT[machine], NUMBERS[machine]["sendto"], 3, 1, 1) == ALLOW, "to the other end"


# A running script


def status_of(pid: int) -> dict[str, str]:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}


def is_alive(pid: int) -> bool:
    try:
        return status_of(pid)["State"][0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.promise("V13", "If Wicket runs as root, a script's processes have a separate user without rights.")
@pytest.mark.parametrize("language", ["python", "lua"])
async def test_v13_no_script_runs_as_root(scripts: Scripts, language: str) -> None:
    seen: list[dict[str, str]] = []

    async def look(kind: CallKind, name: str, arguments: JsonObject) -> Json:
        seen.extend(status_of(pid) for pid in family(scripts.zygote_pid))
        return structured({})

    source = "await calculator.fail()" if language == "python" else "return calculator.fail({})"
    await scripts.run(source, "python" if language == "python" else "lua", API, look)
    confined = [status for status in seen if status["Seccomp"] == "2"]
    assert confined
    own = {str(os.geteuid())}
    assert all((own >= set(status["Uid"].split())) == (os.geteuid() != 0) for status in confined)
    assert {int(status["CapEff"], 16) for status in confined} == {0}


@pytest.mark.skipif(os.geteuid() != 0 or not mounts.available(), reason=needs.OTHER_USERS)
async def test_a_python_script_has_a_file_system_without_the_hosts_files(scripts: Scripts) -> None:
    roots: list[Path] = []
    files: set[str] = set()

    async def look(kind: CallKind, name: str, arguments: JsonObject) -> Json:
        confined = [pid for pid in family(scripts.zygote_pid) if status_of(pid)["Seccomp"] == "2"]
        roots.extend(Path(f"/proc/{pid}/root") for pid in confined)
        files.update(str(file.relative_to(root)) for root in roots for file in root.rglob("*") if not file.is_dir())
        return structured({})

    await scripts.run("await calculator.fail()", "python", API, look)
    assert roots
    assert {file for file in files if ".so" not in file and not file.endswith("/monty")} == {"dev/null", "dev/urandom"}


BOMB = """
born, shut = 0, os.pipe()
try:
    while born < 600 and os.geteuid() != 0:
        born += 1
        if os.fork() == 0:
            os.close(shut[1])
            os.read(shut[0], 1)
            os._exit(0)
except BlockingIOError:
    pass
os.write(1, str(born).encode())
os._exit(0)
"""
ORDINARY = "import codecs; codecs.lookup('ascii'); os.setgid(61000); os.setuid(61000)"


@pytest.mark.skipif(os.geteuid() != 0 or not mounts.available(), reason=needs.OTHER_USERS)
@pytest.mark.parametrize("user", ["root", "an ordinary user"])
@pytest.mark.promise("V13", "A fork bomb is limited to 300 processes.")
def test_v13_a_fork_bomb_has_its_own_bound(user: str) -> None:
    """Root's script is a user of its own; anybody else's has its processes counted in its own namespace."""
    if user != "root" and not mounts.count_processes():
        pytest.skip(needs.NEW_KERNEL)
    ended = attempt(f"{'' if user == 'root' else ORDINARY}\n{TREE}\n{BOMB}")
    assert (ended.returncode, ended.stderr) == (0, "")
    assert 0 < int(ended.stdout) <= 301


@pytest.mark.skipif(os.geteuid() != 0, reason=needs.OTHER_USERS)
def test_v13_root_in_name_only_has_no_capabilities_and_gets_none_back() -> None:
    """Where it cannot become another user."""
    ended = attempt("""
        jail.mounts.drop_capabilities()
        jail.seal()
        os.execv("/bin/cat", ["cat", "/proc/self/status"])
    """)
    fields = dict(line.split(":\t", 1) for line in ended.stdout.splitlines())
    assert fields["Uid"].split()[0] == "0"
    assert {int(fields[name], 16) for name in ("CapEff", "CapPrm", "CapInh", "CapAmb")} == {0}


@pytest.mark.promise("V13", "A script's processes are in a control group with a limit, if there is one.")
async def test_v13_a_python_script_is_in_a_control_group_of_its_own(scripts: Scripts) -> None:
    groups: set[Path] = set()

    async def look(kind: CallKind, name: str, arguments: JsonObject) -> Json:
        confined = [pid for pid in family(scripts.zygote_pid) if status_of(pid)["Seccomp"] == "2"]
        groups.update(group for pid in confined for group in _limited_groups(pid))
        return structured({})

    await scripts.run("await calculator.fail()", "python", API, look)
    home = process_limit.ControlGroups.make()
    if home is None:
        pytest.skip(needs.CONTROL_GROUPS)
    home.close()
    assert groups
    assert {(group / "pids.max").read_text() for group in groups if group.exists()} <= {f"{process_limit.MOST}\n"}
    await scripts.close()
    assert [group for group in groups if group.exists()] == [], "they end with the scripts"


def _limited_groups(pid: int) -> list[Path]:
    """The control groups of a process that limit its processes."""
    paths = [line.split(":", 2)[2] for line in Path(f"/proc/{pid}/cgroup").read_text().splitlines()]
    roots = [Path("/sys/fs/cgroup"), *Path("/sys/fs/cgroup").glob("*")]
    groups = (root / path.lstrip("/") for root in roots for path in paths if "wicket-scripts-" in path)
    return [group for group in groups if (group / "pids.max").exists()]


IN_A_SERVICE = """
import os, pathlib, sys
own = pathlib.Path(sys.argv[1])
(own / "cgroup.procs").write_text("0")
sys.path.insert(0, sys.argv[2])
from wicket_mcp.scripts import process_limit
process_limit.ControlGroups.make()
handed_down = (own / "cgroup.subtree_control").read_text().split()
print((own / "cgroup.type").read_text().strip(), handed_down, list(own.glob("w*")))
"""


def test_v13_the_group_that_a_service_runs_in_stays_as_it_is() -> None:
    """In version 2, a group with processes that hands a controller down spoils every group below it."""
    mounts_of = (line.split(" ") for line in Path("/proc/self/mountinfo").read_text("utf-8").splitlines())
    root = next((Path(fields[4]) for fields in mounts_of if fields[fields.index("-") + 1] == "cgroup2"), None)
    if root is None or os.geteuid() != 0:
        pytest.skip(needs.CONTROL_GROUPS)
    own = root / f"wicket-test-{os.getpid()}"
    own.mkdir()
    source = Path(process_limit.__file__).parents[2]
    script = 'umount /sys/fs/cgroup/pids 2>/dev/null; exec "$0" "$@"'  # only the other version is left to it
    command = ["unshare", "--mount", "sh", "-c", script, sys.executable, "-c", IN_A_SERVICE, str(own), str(source)]
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    finally:
        own.rmdir()
    assert (ended.stdout, ended.stderr) == ("domain [] []\n", "")


async def test_a_python_script_runs_behind_the_walls(scripts: Scripts) -> None:
    seen: list[dict[str, str]] = []

    async def look(kind: CallKind, name: str, arguments: JsonObject) -> Json:
        seen.extend(status_of(pid) for pid in family(scripts.zygote_pid))
        return structured({})

    await scripts.run("await calculator.fail()", "python", API, look)
    workers = [status for status in seen if status["Name"] == "monty"]
    assert workers
    assert {(status["Seccomp"], status["NoNewPrivs"]) for status in workers} == {("2", "1")}


def test_the_gateway_cannot_be_looked_into_once_scripts_run() -> None:
    ended = attempt("""
        import asyncio, subprocess
        from wicket_mcp.scripts import Api, Scripts
        def dumpable():
            return libc.prctl(3, 0, 0, 0, 0)
        async def call(*args): return {}
        async def main():
            scripts = Scripts()
            before = dumpable()
            outcomes = [await scripts.run(s, l, Api(), call) for l, s in {"lua": "return 1", "python": "1"}.items()]
            others = subprocess.check_output([sys.executable, "-c",
                "import ctypes; print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))"], text=True).strip()
            print([outcome.value for outcome in outcomes], before, dumpable(), others)
            await scripts.close()
        asyncio.run(main())
    """)
    assert (ended.stdout, ended.stderr) == ("[1, 1] 1 0 1\n", "")


async def test_a_python_worker_that_does_something_forbidden_is_a_crash(scripts: Scripts) -> None:
    async def strike(kind: CallKind, name: str, arguments: JsonObject) -> Json:
        oldest = next(pid for pid in family(scripts.zygote_pid) if status_of(pid)["Name"] == "monty")
        os.kill(oldest, signal.SIGSYS)
        while is_alive(oldest):
            await asyncio.sleep(0)
        return structured({})

    outcome = await scripts.run("await calculator.fail()", "python", API, strike)
    assert outcome.problem is not None
    assert (outcome.state, outcome.problem.message) == (
        "crash",
        "The script's process did something forbidden and was ended.",
    )
    assert (await run(scripts, "python", "1")).value == 1


# Systems with less

LESS = """
    import asyncio
    jail.seal()
    seccomp.install([(0x20, 0, 0, 0), (0x15, 0, 1, {missing}), (6, 0, 0, 0x50026), (6, 0, 0, 0x7FFF0000)])
    from wicket_mcp.scripts import Api, Scripts
    from wicket_mcp.model import Tool
    api = Api.of([Tool("calculator", "add", {{}})])
    async def call(*args): return {{"content": [], "structuredContent": {{"sum": 2}}}}
    sources = {{
        "lua": "return calculator.add():await().sum",
        "javascript": "return (await calculator.add()).sum",
        "python": "(await calculator.add())['sum']",
    }}
    async def main():
        for how in ("auto", "strict"):
            scripts = Scripts(jail=how)
            for language, source in sources.items():
                outcome = await scripts.run(source, language, api, call)
                print(how, language, outcome.state, outcome.value, outcome.problem.kind if outcome.problem else "-")
            print(scripts.status())
            await scripts.close()
    asyncio.run(main())
"""
LANDLOCK_CREATE = 444
SECCOMP = 277 if os.uname().machine == "aarch64" else 317


@pytest.mark.parametrize(("wall", "call"), [("Landlock", LANDLOCK_CREATE), ("seccomp", SECCOMP)])
def test_a_kernel_without_a_wall_runs_degraded_and_strict_refuses(wall: str, call: int) -> None:
    ended = attempt(LESS.format(missing=call))
    *auto, auto_status = ended.stdout.splitlines()[:4]
    *strict, strict_status = ended.stdout.splitlines()[4:]
    languages = ("lua", "javascript", "python")
    assert auto == [f"auto {language} done 2 -" for language in languages]
    assert f"degraded: this system has no {wall}" in auto_status
    assert strict == [f"strict {language} error None jail" for language in languages]
    assert strict_status.startswith("refused")
    assert "scripts run in a jail that is degraded" in ended.stderr


@pytest.mark.parametrize("how", ["auto", "strict"])
def test_a_kernel_without_a_wall_is_named_when_serving_starts_and_in_the_status(how: str, tmp_path: Path) -> None:
    config = tmp_path / "wicket.toml"
    config.write_text(f'state_dir = "state"\n[scripts]\njail = "{how}"\n')
    start = """
        jail.seal()
        seccomp.install([(0x20, 0, 0, 0), (0x15, 0, 1, 444), (6, 0, 0, 0x50026), (6, 0, 0, 0x7FFF0000)])
        os.execv(sys.executable, [sys.executable, "-m", "wicket_mcp", *sys.argv[1:]])
    """
    command = [sys.executable, "-c", SETUP + textwrap.dedent(start)]
    pipe = subprocess.PIPE
    with subprocess.Popen([*command, "serve", "-c", config], stdin=pipe, stderr=pipe, text=True) as serving:
        assert serving.stderr
        assert serving.stdin
        told = next(line for line in serving.stderr if "jail" in line)
        serving.stdin.close()
    fate = {"auto": "scripts will run: ", "strict": "scripts are refused: "}[how]
    assert f"{fate}the jail is degraded: this system has no Landlock" in told
    status = subprocess.run([*command, "status", "-c", config], capture_output=True, text=True, check=True).stdout
    assert "sandbox: degraded: this system has no Landlock" in status
    assert ("refused" in status) == (how == "strict")


async def test_a_complete_jail_is_strict_enough() -> None:
    scripts = Scripts(jail="strict")
    outcomes = [
        await run(scripts, language, source)
        for language, source in {"lua": "return 1", "javascript": "return 1", "python": "1"}.items()
    ]
    await scripts.close()
    assert [outcome.value for outcome in outcomes] == [1, 1, 1]


def test_strength_says_what_is_missing() -> None:
    assert str(Strength(7, True, True)).startswith("full")
    assert Strength(0, False, False).missing == ("Landlock", "seccomp", "pidfd")
    assert not Strength(3, True, True).complete
    unseen = Strength(7, True, True, mounts=False)
    assert (unseen.complete, "can see which paths exist" in str(unseen)) == (True, True)
