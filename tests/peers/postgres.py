"""A real PostgreSQL from Debian's packages, on a free port with a data folder of its own, as a user who is not root.

`with Postgres() as server` starts it; `server.database()` makes an empty database and gives its address. Can be stopped
and started again, which is the one fault that is its own.
"""

import getpass
import itertools
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

import psycopg
import pytest

from tests import needs
from tests.peers.ports import free_port

_PACKAGES = Path("/usr/lib/postgresql")
PASSWORD = "secret"
# Nothing here must survive a power cut: the tests are about what the gateway does.
_OPTIONS = ("fsync=off", "synchronous_commit=off", "full_page_writes=off", "max_connections=200")


def binaries() -> Path | None:
    """The folder of the newest installed version's programs."""
    versions = sorted(_PACKAGES.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    return versions[-1].parent if versions else None


class Postgres:
    """One server; its superuser is `postgres`, with the password `secret`."""

    def __init__(self, host: str = "127.0.0.1", net: str = "127.0.0.0/8", data: Path | None = None) -> None:
        """Listens at `host` too, for clients of `net`; keeps its data in the folder `data`, or in one of its own."""
        folder = binaries()
        if folder is None:
            pytest.skip(needs.POSTGRES)
        self._binaries = folder
        self._folder = data or Path(tempfile.mkdtemp(prefix="wicket-postgres-"))
        self._host, self._net = host, net
        self._as = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] if os.geteuid() == 0 else []
        self._numbers = itertools.count()
        self._running = False
        self.port = free_port()

    def __enter__(self) -> "Postgres":
        if self._as:
            shutil.chown(self._folder, "postgres", "postgres")
        password = self._folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        options = [
            "--username=postgres",
            f"--pwfile={password}",
            "--auth=scram-sha-256",
            "--no-sync",
            "--encoding=UTF8",
        ]
        self._run("initdb", "-D", str(self._folder / "data"), *options)
        with (self._folder / "data" / "pg_hba.conf").open("a") as rules:
            rules.write(f"host all all {self._net} scram-sha-256\n")
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._running:
            self.stop("immediate")
        shutil.rmtree(self._folder)

    def start(self) -> None:
        settings = [
            f"-c {option}" for option in (*_OPTIONS, f"port={self.port}", f"unix_socket_directories={self._folder}")
        ]
        text = " ".join([*settings, f"-c listen_addresses=127.0.0.1,{self._host}"])
        self._run(
            "pg_ctl", "-D", str(self._folder / "data"), "-l", str(self._folder / "log"), "-w", "-o", text, "start"
        )
        self._running = True

    def stop(self, mode: str = "fast") -> None:
        self._running = False
        self._run("pg_ctl", "-D", str(self._folder / "data"), "-w", "-m", mode, "stop")

    def address(self, database: str = "postgres", *, user: str = "postgres", password: str = PASSWORD) -> str:
        return f"postgresql://{user}:{password}@{self._host}:{self.port}/{database}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        with psycopg.connect(self.address(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"wicket_{getpass.getuser()}_{next(self._numbers)}".replace("-", "_")
        self.execute(f'CREATE DATABASE "{name}"')
        return self.address(name)

    def _run(self, program: str, *arguments: str) -> None:
        command = [*self._as, str(self._binaries / program), *arguments]
        done = subprocess.run(
            command, cwd=self._folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"
