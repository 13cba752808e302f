"""Replaces files atomically: a reader sees the old content or the new, never a part. And says whose a file is.

Used for every file that we rewrite, ours or another program's, and for the state folder, whose files decide who gets
in. Knows no format.
"""

import contextlib
import os
import stat
from pathlib import Path

from wicket_mcp.errors import ConfigError


def replace_file(path: Path, text: str, mode: int = 0o600) -> None:
    """Replace the file's content with `text`; a link is followed, an existing file keeps its mode.

    Raises ConfigError, and then the file is unchanged and its folder has no leftovers.
    """
    import tempfile  # noqa: PLC0415  (a start that writes no file should not wait for it)

    path = path.resolve()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileNotFoundError):
            mode = path.stat().st_mode & 0o777
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8"))
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).chmod(mode)
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as problem:
        raise ConfigError(
            f"cannot be written: {problem.strerror}.", file=str(path), hint="Check the folder's permissions."
        ) from None


def claim_folder(folder: Path) -> None:
    """Create a folder of ours, or see that nobody else can put files there. Raises ConfigError, OSError."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    check_owner(folder)
    status = folder.stat()
    if status.st_mode & stat.S_ISVTX and status.st_mode & stat.S_IWOTH:
        raise ConfigError("is a folder for the files of all users.", file=str(folder), hint=_ANOTHER)
    if status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and status.st_uid == os.getuid():
        folder.chmod(stat.S_IMODE(status.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))


def check_owner(path: Path) -> None:
    """Refuse what another user owns, who could have chosen what is in it; root can do that anyway, and owns the volumes
    of containers. Raises ConfigError, OSError.
    """
    owner = path.stat().st_uid
    if owner not in (os.getuid(), 0):
        raise ConfigError(f"belongs to another user (uid {owner}).", file=str(path), hint=_ANOTHER)


_ANOTHER = "Set 'state_dir' to a folder of your own, or change the owner of this one if you know what is in it."
