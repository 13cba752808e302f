"""A Python module that is started many times, and imported once: each start is a fork of a process that has it already.

    python -m tests.conformance.forked SOCKET MODULE ARGUMENTS…      waits at the socket; says so on stdout
    python tests/conformance/forked_start.py SOCKET MORE…            runs the module there, as `python -m MODULE` would

The module gets the environment, the standard streams and the further arguments of who starts it, and ends it with its
own exit code.
"""

import asyncio
import importlib
import json
import os
import runpy
import signal
import socket
import sys
import tempfile
import warnings
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

START = Path(__file__).with_name("forked_start.py")


@asynccontextmanager
async def forking(command: str) -> AsyncGenerator[str]:
    """A command that does what `command` (PYTHON -m MODULE ARGUMENTS…) does, sooner."""
    python, _, module, *arguments = command.split()
    with tempfile.TemporaryDirectory(prefix="wicket-fork-") as folder:
        path = f"{folder}/socket"
        process = await asyncio.create_subprocess_exec(
            *(python, "-m", __name__, path, module, *arguments), stdout=asyncio.subprocess.PIPE
        )
        try:
            assert process.stdout is not None
            assert await process.stdout.readline(), f"{module} cannot be imported"
            yield f"{python} -S -E {START} {path}"
        finally:
            process.kill()
            await process.wait()


def serve(path: str, module: str, arguments: Sequence[str]) -> None:
    importlib.import_module(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen()
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while True:
            asking, _ = listener.accept()
            with asking:
                if os.fork() == 0:
                    listener.close()
                    _run(asking, module, arguments)


def _run(asking: socket.socket, module: str, arguments: Sequence[str]) -> None:
    code = 1
    try:
        head, streams, _, _ = socket.recv_fds(asking, 4, 3)
        body = b""
        while len(body) < int.from_bytes(head, "big"):
            body += asking.recv(1 << 20)
        given = json.loads(body)
        for number, stream in enumerate(streams):
            os.dup2(stream, number)
            os.close(stream)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.environ.clear()
        os.environ.update(given["environment"])
        sys.argv = [module, *arguments, *given["arguments"]]
        warnings.simplefilter("ignore", RuntimeWarning)  # it has been imported already: that is the point
        runpy.run_module(module, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as end:
        if isinstance(end.code, str):
            sys.stderr.write(f"{end.code}\n")
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException as problem:
        sys.excepthook(type(problem), problem, problem.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        asking.sendall(bytes([code & 255]))
        os._exit(code)


if __name__ == "__main__":
    serve(sys.argv[1], sys.argv[2], sys.argv[3:])
