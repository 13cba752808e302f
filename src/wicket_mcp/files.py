"""Replaces files atomically: a reader sees the old content or the new, never a part.

Used for every file that we rewrite, ours or another program's. Knows no format.
"""

import contextlib
import os
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
