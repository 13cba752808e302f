"""Where Wicket's files are: which configuration is used, and the platform's folders for config and state.

Reads the environment and checks whether files exist; opens none.
"""

import os
from pathlib import Path

from wicket_mcp.errors import ConfigError

CONFIG_NAME = "wicket.toml"
CONFIG_VARIABLE = "WICKET_CONFIG"


def find_config(explicit: str | Path | None = None) -> Path:
    """The configuration to use: `--config`, `$WICKET_CONFIG`, the current folder's, the user's.

    Raises ConfigError if a named file does not exist, or none is found.
    """
    if explicit:
        return _explicit_path(explicit, "--config")
    if variable := os.environ.get(CONFIG_VARIABLE):
        return _explicit_path(variable, f"${CONFIG_VARIABLE}")
    cwd = Path.cwd()
    candidates = (cwd / CONFIG_NAME, cwd / ".mcp.json", config_folder() / CONFIG_NAME)
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    looked = ", ".join(str(candidate) for candidate in candidates)
    raise ConfigError(
        f"No configuration found (looked for {looked}).",
        hint="Create one with 'wicket init', or with 'wicket add time -- uvx mcp-server-time', "
        "or pass a file that you already have: --config ~/.cursor/mcp.json.",
    )


def is_found(path: Path, explicit: str | Path | None = None) -> bool:
    """Whether `find_config` found `path` in the current folder: it was not named, and is not the user's own."""
    named = explicit or os.environ.get(CONFIG_VARIABLE)
    return not named and path.parent != config_folder()


def _explicit_path(name: str | Path, source: str) -> Path:
    path = Path.cwd() / Path(name).expanduser()
    if path.is_file():
        return path
    problem = "is a folder, not a file" if path.is_dir() else "does not exist"
    raise ConfigError(f"{problem} (named by {source}).", file=str(path), hint="Check the path.")


def config_folder() -> Path:
    """The platform's folder for Wicket's configuration."""
    from platformdirs import user_config_path  # noqa: PLC0415  (not needed where the folder is named)

    return user_config_path("wicket", appauthor=False, roaming=True)


def state_folder() -> Path:
    """The platform's folder for Wicket's state."""
    from platformdirs import user_state_path  # noqa: PLC0415  (as above)

    return user_state_path("wicket", appauthor=False)
