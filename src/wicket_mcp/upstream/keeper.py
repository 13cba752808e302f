"""Kills processes that servers started and left behind, even if the gateway itself was killed.

A small shell reads the running process groups from a pipe whose other end only the gateway holds. When the gateway ends
for any reason, the pipe closes and the shell kills what is left: processes that servers started, and servers that do
not notice the end of their input. With control groups, processes that left their process group are killed too. Started
with the first server; `stdio.py` reports which groups start and end.
"""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from pathlib import Path

from wicket_mcp.upstream.control_group import ControlGroups

log = logging.getLogger(__name__)

_SCRIPT = """
trap '' HUP INT TERM
groups=
home=
while read -r sign group; do
  if [ "$sign" = home ]; then home=$group; continue; fi
  rest=
  for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done
  groups=$rest
  [ "$sign" = + ] && groups="$groups $group"
done
for one in $groups; do kill -s KILL -- "-$one"; done
[ -n "$home" ] && [ -d "$home" ] || exit 0
echo 1 > "$home/cgroup.kill"
for again in 1 2 3 4 5 6 7 8 9 10; do
  for one in "$home"/*/ "$home"; do [ -d "$one" ] && rmdir "$one"; done
  [ -d "$home" ] || exit 0
  sleep 0.2
done
"""


class Keeper:
    """Knows every process group that must not outlive us."""

    def __init__(self) -> None:
        self._groups: dict[int, Path | None] = {}
        """The running process groups, each with its control group."""
        self._control: ControlGroups | None = None
        self._shell: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Keeper {len(self._groups)} groups>"

    def add(self, group: int) -> None:
        if self._shell is None:
            self._control = ControlGroups.make()
        self._groups[group] = self._control.place(group) if self._control is not None else None
        self._tell(f"+ {group}\n")

    def kill(self, group: int) -> None:
        """Kill all processes of a server, including those that left its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        control = self._groups.get(group)
        if self._control is not None and control is not None:
            self._control.kill(control)

    def drop(self, group: int) -> None:
        """The group has ended: kill everything that it left behind."""
        if group in self._groups:
            self.kill(group)
            del self._groups[group]
            self._tell(f"- {group}\n")

    async def close(self) -> None:
        """Stop: no server is running any more."""
        if self._control is not None:
            await asyncio.to_thread(self._control.close)
            self._control = None
        shell, self._shell = self._shell, None
        if shell is not None and shell.stdin is not None:
            with contextlib.suppress(OSError):
                shell.stdin.close()
            await asyncio.to_thread(shell.wait)

    def _tell(self, line: str) -> None:
        if self._shell is None or self._shell.poll() is not None:
            self._start()
            line = "".join(f"+ {group}\n" for group in self._groups)
            if self._control is not None:
                line = f"home {self._control.home}\n{line}"
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # it has just ended: the next line starts another
                self._shell.stdin.write(line.encode())

    def _start(self) -> None:
        try:
            self._shell = subprocess.Popen(
                ("/bin/sh", "-c", _SCRIPT),
                bufsize=0,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={},
                start_new_session=True,
            )
        except OSError as problem:
            self._shell = None
            log.warning("servers may outlive a gateway that is killed: /bin/sh could not be started (%s)", problem)
            return
        if self._shell.stdin is not None:
            os.set_blocking(self._shell.stdin.fileno(), False)
