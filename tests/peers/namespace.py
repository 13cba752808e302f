"""A network namespace, as another machine would be: one cable to this one, and one address that can be cut off.

`with Namespace() as machine`: a process that is started with `machine.prefix` in front has `machine.inside` as its
address; this machine has `outside` for it, and `severed`, to which nothing can be sent after `cut()`. Needs root.
"""

import itertools
import os
import random
import shutil
import subprocess
from types import TracebackType

import pytest

from tests import needs

_numbers = itertools.count()


class Namespace:
    """See the module's docstring."""

    def __init__(self) -> None:
        if os.geteuid() != 0 or shutil.which("ip") is None:
            pytest.skip(needs.NAMESPACES)
        self._name = f"wk{os.getpid()}-{next(_numbers)}"
        self._cable = f"wk{os.getpid() % 100000}{next(_numbers)}"
        net = f"10.{random.randint(64, 250)}.{random.randint(1, 250)}"
        self.net = f"{net}.0/24"
        self.outside, self.severed, self.inside = f"{net}.1", f"{net}.9", f"{net}.2"
        self.prefix = ("ip", "netns", "exec", self._name)

    def __enter__(self) -> "Namespace":
        _ip("netns", "add", self._name)
        _ip("link", "add", f"{self._cable}o", "type", "veth", "peer", "name", f"{self._cable}i", "netns", self._name)
        for address in (self.outside, self.severed):
            _ip("addr", "add", f"{address}/24", "dev", f"{self._cable}o")
        _ip("link", "set", f"{self._cable}o", "up")
        _ip("-n", self._name, "addr", "add", f"{self.inside}/24", "dev", f"{self._cable}i")
        for device in ("lo", f"{self._cable}i"):
            _ip("-n", self._name, "link", "set", device, "up")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        _ip("link", "del", f"{self._cable}o")
        _ip("netns", "del", self._name)

    def cut(self) -> None:
        """Nothing reaches `severed` any more, nor is anything of it answered; nobody is told."""
        _ip("-n", self._name, "route", "add", "blackhole", self.severed)

    def mend(self) -> None:
        _ip("-n", self._name, "route", "del", "blackhole", self.severed)


def _ip(*arguments: str) -> None:
    done = subprocess.run(("ip", *arguments), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"
