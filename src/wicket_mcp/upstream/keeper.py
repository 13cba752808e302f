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
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wicket_mcp.upstream.control_group import ControlGroups, in_group, is_program

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
for again in 1 2 3 4 5 6 7 8 9 10; do
  echo 1 > "$home/cgroup.kill"
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
        self._thread: ThreadPoolExecutor | None = None
        """Kills and removes control groups, for which the kernel may take ten milliseconds."""
        self._shell: subprocess.Popen[bytes] | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Keeper {len(self._groups)} groups>"

    def enclose(
        self, command: Sequence[str], environment: Mapping[str, str], folder: str | None
    ) -> tuple[Path | None, Sequence[str]]:
        """The control group for a server that is about to start, if there is one, and the command that starts it
        there.
        """
        if self._closed or not is_program(command[0], environment, folder):
            return None, command
        if self._shell is None and self._control is None:
            self._control = ControlGroups.make()
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="wicket-groups") if self._control else None
        control = self._control.prepare() if self._control is not None else None
        if control is None:
            return None, command
        self._tell("")  # from now on the shell knows where servers start
        return control, in_group(control, command)

    def add(self, group: int, control: Path | None = None) -> None:
        self._groups[group] = control
        self._tell(f"+ {group}\n")

    def discard(self, control: Path | None) -> None:
        """The server for this control group could not be started."""
        if control is not None:
            self._kill(control)

    def kill(self, group: int) -> None:
        """Kill all processes of a server, including those that left its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
        if (control := self._groups.get(group)) is not None:
            self._kill(control)

    def _kill(self, control: Path) -> None:
        if self._control is not None and self._thread is not None:
            self._thread.submit(self._control.kill, control)

    def drop(self, group: int) -> None:
        """The group has ended: kill everything that it left behind."""
        if group in self._groups:
            self.kill(group)
            del self._groups[group]
            self._tell(f"- {group}\n")

    async def close(self) -> None:
        """Stop: no server is running any more. One whose end is noticed later starts nothing again."""
        self._closed = True
        control, thread, self._control, self._thread = self._control, self._thread, None, None
        shell, self._shell = self._shell, None
        try:
            if control is not None and thread is not None:
                await asyncio.get_running_loop().run_in_executor(thread, control.close)
                thread.shutdown()
        finally:
            if shell is not None and shell.stdin is not None:
                with contextlib.suppress(OSError):
                    shell.stdin.close()
        if shell is not None:
            await asyncio.to_thread(shell.wait)

    def _tell(self, line: str) -> None:
        if self._closed:
            return
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
