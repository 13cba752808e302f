"""Opens an address in the user's browser: the configured command, `$BROWSER`, or the system's own. Never a shell."""

import os
import shlex
import shutil
import subprocess
import sys

_SYSTEM = {"darwin": "open", "linux": "xdg-open"}
_GRACE = 2.0  # seconds in which a command that cannot open anything says so


def open_browser(url: str, configured: str = "") -> bool:
    """Whether a browser was started with `url`: a web address, or a page that we wrote."""
    command = _command(configured)
    if not command or not url.startswith(("https://", "http://", "file:///")):
        return False
    words = [word.replace("%s", url) for word in command] if any("%s" in word for word in command) else [*command, url]
    try:
        process = subprocess.Popen(
            words,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError:
        return False
    try:
        return process.wait(_GRACE) == 0
    except subprocess.TimeoutExpired:
        return True  # it runs, as a browser does


def _command(configured: str) -> list[str]:
    chosen = configured or os.environ.get("BROWSER", "")
    if chosen:
        return shlex.split(chosen)
    if sys.platform == "linux" and not (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")):
        return []
    system = _SYSTEM.get(sys.platform, "")
    return [system] if system and shutil.which(system) else []
