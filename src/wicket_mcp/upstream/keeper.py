"""Ends the servers of a gateway that was killed before it could end them itself.

A small shell reads the process groups that run from a pipe whose other end only the gateway holds. When the gateway is
gone, however it went, the pipe ends and the shell kills what is left: also what servers started, and servers that do
not notice the end of their input. Started with the first server; `stdio.py` says who comes and goes.
"""

import asyncio
import contextlib
import logging
import os
import subprocess

log = logging.getLogger(__name__)

_SCRIPT = """
trap '' HUP INT TERM
groups=
while read -r sign group; do
  rest=
  for one in $groups; do [ "$one" = "$group" ] || rest="$rest $one"; done
  groups=$rest
  [ "$sign" = + ] && groups="$groups $group"
done
for one in $groups; do kill -s KILL -- "-$one"; done
"""


class Keeper:
    """Knows every process group that must not outlive us."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._shell: subprocess.Popen[bytes] | None = None

    def __repr__(self) -> str:
        return f"<Keeper {len(self._groups)} groups>"

    def add(self, group: int) -> None:
        self._groups.add(group)
        self._tell(f"+ {group}\n")

    def drop(self, group: int) -> None:
        if group in self._groups:
            self._groups.discard(group)
            self._tell(f"- {group}\n")

    async def close(self) -> None:
        """Nothing runs any more."""
        shell, self._shell = self._shell, None
        if shell is not None and shell.stdin is not None:
            with contextlib.suppress(OSError):
                shell.stdin.close()
            await asyncio.to_thread(shell.wait)

    def _tell(self, line: str) -> None:
        if self._shell is None or self._shell.poll() is not None:
            self._start()
            line = "".join(f"+ {group}\n" for group in self._groups)
        if self._shell is not None and self._shell.stdin is not None:
            with contextlib.suppress(OSError):  # it has just ended: the next line finds another
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
