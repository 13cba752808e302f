"""Where MCP clients keep their lists of servers, on Linux, macOS and Windows.

Reads the given environment and opens no file. `formats` reads the files; `edit.take_over` changes them.
"""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

Section: TypeAlias = tuple[str, ...]

_CLINE = Path("settings", "cline_mcp_settings.json")
_DESKTOP = Path("Claude", "claude_desktop_config.json")
_DESKTOP_PACKAGE = "Claude_pzs8sxrjxfjjc"
"""The Windows package name of Claude Desktop, which is installed as a package by default since 2026."""


@dataclass(frozen=True, slots=True)
class Folders:
    """The base folders for clients' paths."""

    home: Path
    config: Path
    """`~/.config`, `~/Library/Application Support` or `%APPDATA%`."""
    platform: str
    environ: Mapping[str, str]
    cwd: Path


@dataclass(frozen=True, slots=True)
class Client:
    """One program: its id on our command line, its name, and the shape of an entry that starts a command."""

    id: str
    title: str
    places: Callable[[Folders], tuple[tuple[Path, Section], ...]]
    """The user's own files, in order, and the section that lists the servers."""
    project: tuple[str, Section] | None = None
    """The file of a project, relative to its folder."""
    extra: tuple[tuple[str, Any], ...] = ()
    """What an entry needs in addition to `command` and `args`."""
    command_is_list: bool = False
    """Whether program and arguments are one list under `command`."""
    variables: Callable[[Sequence[str]], dict[str, Any]] | None = None
    """What an entry needs for variables of these names to reach it; None if the client passes on its environment."""


@dataclass(frozen=True, slots=True)
class ClientFile:
    """A file of a client, whether it exists or not."""

    client: Client
    path: Path
    section: Section


def folders(environ: Mapping[str, str] | None = None, platform: str = sys.platform, cwd: Path | None = None) -> Folders:
    environ = os.environ if environ is None else environ
    home_variable = environ.get("HOME" if platform != "win32" else "USERPROFILE", "") or environ.get("HOME", "")
    home = Path(home_variable) if Path(home_variable).is_absolute() else Path.home()
    if platform == "darwin":
        config = home / "Library" / "Application Support"
    elif platform == "win32":
        config = Path(environ.get("APPDATA") or home / "AppData" / "Roaming")
    else:
        xdg = environ.get("XDG_CONFIG_HOME", "")
        config = Path(xdg) if Path(xdg).is_absolute() else home / ".config"
    return Folders(home, config, platform, environ, cwd or Path.cwd())


def user_files(client: Client, where: Folders) -> tuple[ClientFile, ...]:
    return tuple(ClientFile(client, path, section) for path, section in client.places(where))


def project_file(client: Client, where: Folders) -> ClientFile | None:
    if client.project is None:
        return None
    name, section = client.project
    return ClientFile(client, where.cwd / name, section)


def _claude_desktop(where: Folders) -> tuple[tuple[Path, Section], ...]:
    files = [where.config / _DESKTOP]
    if where.platform == "win32":
        # A package has its own folder instead of %APPDATA%, and never sees the file there.
        local = Path(where.environ.get("LOCALAPPDATA") or where.home / "AppData" / "Local")
        files.append(local / "Packages" / _DESKTOP_PACKAGE / "LocalCache" / "Roaming" / _DESKTOP)
    return tuple((file, ("mcpServers",)) for file in files)


def _claude_code(where: Folders) -> tuple[tuple[Path, Section], ...]:
    # Servers added for one folder are in the same file, under that folder; on Windows some programs write it with
    # slashes and others with backslashes.
    file = Path(where.environ.get("CLAUDE_CONFIG_DIR") or where.home) / ".claude.json"
    folder = str(where.cwd)
    spellings = dict.fromkeys((folder.replace("\\", "/"), folder)) if where.platform == "win32" else (folder,)
    return (file, ("mcpServers",)), *((file, ("projects", spelt, "mcpServers")) for spelt in spellings)


def _vscode(folder: str) -> Callable[[Folders], tuple[tuple[Path, Section], ...]]:
    def places(where: Folders) -> tuple[tuple[Path, Section], ...]:
        user = where.config / folder / "User"
        profiles = sorted((user / "profiles").glob("*/mcp.json"))  # of the editor's profiles, each with its own servers
        files = [(user / "mcp.json", ("servers",)), (user / "settings.json", ("mcp", "servers"))]
        return *files, *((file, ("servers",)) for file in profiles)

    return places


def _cline(where: Folders) -> tuple[tuple[Path, Section], ...]:
    # Formerly stored by the editor; a newer Cline copies it from there when it starts.
    settings, data = where.environ.get("CLINE_MCP_SETTINGS_PATH"), where.environ.get("CLINE_DATA_DIR")
    own = Path(settings) if settings else Path(data or where.home / ".cline" / "data") / _CLINE
    once = where.config / "Code" / "User" / "globalStorage" / "saoudrizwan.claude-dev" / _CLINE
    return (own, ("mcpServers",)), (once, ("mcpServers",))


def _zed(where: Folders) -> tuple[tuple[Path, Section], ...]:
    if where.platform == "win32":
        folder = where.config / "Zed"
    elif where.platform == "darwin":
        folder = where.home / ".config" / "zed"
    else:
        folder = where.config / "zed"
    return ((folder / "settings.json", ("context_servers",)),)


def _codex(where: Folders) -> tuple[tuple[Path, Section], ...]:
    folder = Path(where.environ.get("CODEX_HOME") or where.home / ".codex")
    return ((folder / "config.toml", ("mcp_servers",)),)


def _codex_variables(names: Sequence[str]) -> dict[str, Any]:
    return {"env_vars": list(names)}  # it passes on a fixed list of its own, such as HOME and PATH


def _gemini_variables(names: Sequence[str]) -> dict[str, Any]:
    return {"env": {name: f"${name}" for name in names}}  # it withholds what looks like a secret by its name


def _gemini(where: Folders) -> tuple[tuple[Path, Section], ...]:
    home = Path(where.environ.get("GEMINI_CLI_HOME") or where.home)
    return ((home / ".gemini" / "settings.json", ("mcpServers",)),)


def _copilot(where: Folders) -> tuple[tuple[Path, Section], ...]:
    folder = Path(where.environ.get("XDG_CONFIG_HOME") or where.home) / ".copilot"
    return ((folder / "mcp-config.json", ("mcpServers",)),)


def _copilot_jetbrains(where: Folders) -> tuple[tuple[Path, Section], ...]:
    folder = where.home / ".config"
    if where.platform == "win32":
        folder = Path(where.environ.get("LOCALAPPDATA") or where.home / "AppData" / "Local")
    return ((folder / "github-copilot" / "intellij" / "mcp.json", ("servers",)),)


def _opencode(where: Folders) -> tuple[tuple[Path, Section], ...]:
    if settings := where.environ.get("OPENCODE_CONFIG"):
        return ((Path(settings), ("mcp",)),)
    folder = Path(where.environ.get("XDG_CONFIG_HOME") or where.home / ".config") / "opencode"
    return tuple((folder / name, ("mcp",)) for name in ("opencode.json", "opencode.jsonc"))


def _goose(where: Folders) -> tuple[tuple[Path, Section], ...]:
    folder = where.home / ".config" / "goose"
    if where.platform == "win32":
        folder = where.config / "Block" / "goose" / "config"
    return ((folder / "config.yaml", ("extensions",)),)


def _at(*parts: str) -> Callable[[Folders], tuple[tuple[Path, Section], ...]]:
    return lambda where: ((where.home.joinpath(*parts), ("mcpServers",)),)


CLIENTS: Mapping[str, Client] = {
    client.id: client
    for client in (
        Client("claude-desktop", "Claude Desktop", _claude_desktop),
        Client("claude-code", "Claude Code", _claude_code, (".mcp.json", ("mcpServers",)), (("type", "stdio"),)),
        Client("cursor", "Cursor", _at(".cursor", "mcp.json"), (".cursor/mcp.json", ("mcpServers",))),
        Client("vscode", "VS Code", _vscode("Code"), (".vscode/mcp.json", ("servers",)), (("type", "stdio"),)),
        Client("vscode-insiders", "VS Code Insiders", _vscode("Code - Insiders"), None, (("type", "stdio"),)),
        Client("vscodium", "VSCodium", _vscode("VSCodium"), None, (("type", "stdio"),)),
        Client("windsurf", "Windsurf", _at(".codeium", "windsurf", "mcp_config.json")),
        Client("zed", "Zed", _zed, (".zed/settings.json", ("context_servers",)), (("source", "custom"),)),
        Client("codex", "Codex", _codex, (".codex/config.toml", ("mcp_servers",)), variables=_codex_variables),
        Client(
            "gemini",
            "Gemini CLI",
            _gemini,
            (".gemini/settings.json", ("mcpServers",)),
            variables=_gemini_variables,
        ),
        Client("cline", "Cline", _cline, None, (("type", "stdio"),)),
        Client("copilot", "Copilot CLI", _copilot, None, (("type", "local"), ("tools", ["*"]))),
        Client("kiro", "Kiro", _at(".kiro", "settings", "mcp.json"), (".kiro/settings/mcp.json", ("mcpServers",))),
        Client("lm-studio", "LM Studio", _at(".lmstudio", "mcp.json")),
        Client("junie", "JetBrains Junie", _at(".junie", "mcp", "mcp.json"), (".junie/mcp/mcp.json", ("mcpServers",))),
        Client(
            "jetbrains", "JetBrains AI Assistant", _at(".ai", "mcp", "mcp.json"), (".ai/mcp/mcp.json", ("mcpServers",))
        ),
        Client("copilot-jetbrains", "Copilot for JetBrains", _copilot_jetbrains, None, (("type", "stdio"),)),
        Client(
            "opencode",
            "opencode",
            _opencode,
            ("opencode.json", ("mcp",)),
            (("type", "local"), ("enabled", True)),
            command_is_list=True,
        ),
        Client("goose", "Goose", _goose),
    )
}
