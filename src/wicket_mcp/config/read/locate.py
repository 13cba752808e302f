"""Where Wicket's files live: which configuration is used, and the platform's folders for config and state.

Reads the environment it is given and looks whether files exist; opens none.
"""

import os
import sys
from collections.abc import Mapping
from pathlib import Path

from wicket_mcp.errors import ConfigError

CONFIG_NAME = "wicket.toml"
CONFIG_VARIABLE = "WICKET_CONFIG"


def find_config(
    explicit: str | Path | None = None,
    environ: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Path:
    """The configuration to use: `--config`, `$WICKET_CONFIG`, the current folder's, the user's.

    Raises ConfigError when a named file does not exist or none is found anywhere.
    """
    environ = os.environ if environ is None else environ
    cwd = Path.cwd() if cwd is None else cwd
    if explicit:
        return _named(cwd, explicit, "--config")
    if environ.get(CONFIG_VARIABLE):
        return _named(cwd, environ[CONFIG_VARIABLE], f"${CONFIG_VARIABLE}")
    candidates = (cwd / CONFIG_NAME, cwd / ".mcp.json", config_folder(environ) / CONFIG_NAME)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    looked = ", ".join(str(candidate) for candidate in candidates)
    raise ConfigError(
        f"No configuration found (looked for {looked}).",
        hint="Create one with 'wicket init', or with 'wicket add time -- uvx mcp-server-time', "
        "or pass a file that you already have: --config ~/.cursor/mcp.json.",
    )


def _named(cwd: Path, given: str | Path, source: str) -> Path:
    path = cwd / Path(given).expanduser()
    if path.is_file():
        return path
    problem = "is a folder, not a file" if path.is_dir() else "does not exist"
    raise ConfigError(f"{problem} (named by {source}).", file=str(path), hint="Check the path.")


def config_folder(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """The platform's folder for Wicket's configuration."""
    environ = os.environ if environ is None else environ
    home = _home(environ)
    if platform == "darwin":
        return home / "Library" / "Application Support" / "wicket"
    if platform == "win32":
        return _folder(environ, "APPDATA", home / "AppData" / "Roaming") / "wicket"
    return _folder(environ, "XDG_CONFIG_HOME", home / ".config") / "wicket"


def state_folder(environ: Mapping[str, str] | None = None, platform: str = sys.platform) -> Path:
    """The platform's folder for what Wicket remembers between runs."""
    environ = os.environ if environ is None else environ
    home = _home(environ)
    if platform == "darwin":
        return home / "Library" / "Application Support" / "wicket"
    if platform == "win32":
        return _folder(environ, "LOCALAPPDATA", home / "AppData" / "Local") / "wicket"
    return _folder(environ, "XDG_STATE_HOME", home / ".local" / "state") / "wicket"


def _folder(environ: Mapping[str, str], variable: str, fallback: Path) -> Path:
    # The XDG rules say to ignore a relative path.
    given = environ.get(variable, "")
    return Path(given) if Path(given).is_absolute() else fallback


def _home(environ: Mapping[str, str]) -> Path:
    given = environ.get("HOME", "")
    return Path(given) if Path(given).is_absolute() else Path.home()
