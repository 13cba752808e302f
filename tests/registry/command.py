"""The installed command: run to its end, or serving over HTTP for as long as a test needs it."""

import os
import re
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

WICKET = str(Path(sys.executable).with_name("wicket"))


def wicket(folder: Path, *arguments: str, code: int = 0, stdin: str = "", **variables: str) -> str:
    """What it printed, or complained where it should fail; `folder` has its wicket.toml."""
    done = subprocess.run(
        [WICKET, *arguments],
        check=False,
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        env={**_environ(folder), **variables},
        timeout=60,
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


def _environ(folder: Path) -> dict[str, str]:
    """The folder's configuration is named, which is the user's yes to it."""
    file = folder / "wicket.toml"
    return {**os.environ, "WICKET_CONFIG": str(file)} if file.exists() else dict(os.environ)


@contextmanager
def serving(folder: Path, at: str = "127.0.0.1:0", **variables: str) -> Generator[str]:
    """The origin of `wicket serve --http`, of the wicket.toml in `folder`."""
    command = [WICKET, "serve", "--http", at]
    environment = {**_environ(folder), **variables}
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr
        try:
            found = None
            while found is None:
                line = process.stderr.readline()
                assert line, "the gateway ended"
                found = re.search(r"at (http://\S+)/mcp", line)
            yield found[1]
        finally:
            process.terminate()
            process.communicate(timeout=20)
