"""What the project is called in every text: the distribution is `wicket-mcp`, because `wicket` on PyPI is not ours."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
INSTALLS = re.compile(
    r"(?:pip3? install|pipx install|pipx run|uv pip install|uv add|uv tool install|uvx(?: --from)?)"
    r"(?: -[\w-]+)* [\"']?wicket(?!-mcp)\b"
)


def texts() -> list[Path]:
    folders = [ROOT / name for name in ("docs", "src", "demo", "scripts", "tools", "bench", "requirements")]
    inside = [path for folder in folders for path in folder.rglob("*") if path.is_file()]
    written = {".md", ".py", ".toml", ".in", ".txt", ".html", ".yml", ".sh", ""}
    return [*ROOT.glob("*.md"), *ROOT.glob("*.toml"), *(path for path in inside if path.suffix in written)]


def test_the_pattern_knows_the_other_project_from_ours() -> None:
    for wrong in ("pip install wicket", "pip install -U 'wicket[js]'", "uvx wicket serve", "uvx --from wicket wicket"):
        assert INSTALLS.search(wrong), wrong
    for right in ("pip install wicket-mcp", "pip install 'wicket-mcp[js]'", "uvx --from wicket-mcp wicket serve"):
        assert not INSTALLS.search(right), right


def test_no_text_installs_somebody_else_s_package() -> None:
    pages = texts()
    assert ROOT / "README.md" in pages
    assert len(pages) > 200
    wrong = [
        f"{path.relative_to(ROOT)}: {found[0]}"
        for path in pages
        for found in INSTALLS.finditer(path.read_text("utf-8", "replace"))
    ]
    assert wrong == []


def test_the_readme_begins_with_the_line_that_installs_and_stays_short() -> None:
    lines = (ROOT / "README.md").read_text().splitlines()
    assert len(lines) <= 150
    commands = [line for line in lines[:8] if line.startswith(("pip", "uvx"))]
    assert commands[0].startswith("pipx install '.[all]'")
    assert commands[1].startswith("uvx --from . wicket ")
    assert "`wicket-mcp`" in "\n".join(lines[:12])
