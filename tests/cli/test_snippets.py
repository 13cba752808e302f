"""How a client is told to start this very Wicket again, wherever it was installed from."""

from importlib.metadata import Distribution
from pathlib import Path

import pytest

from wicket_mcp.cli.snippets import source_of
from wicket_mcp.codec import encode
from wicket_mcp.model import JsonObject

GIT = "https://example.com/wicket.git"


@pytest.mark.parametrize(
    ("origin", "extra", "expected"),
    [
        (None, "", "wicket-mcp"),
        (None, "js", "wicket-mcp[js]"),
        ({"url": "file:///home/me/my%20code/wicket", "dir_info": {}}, "", "/home/me/my code/wicket"),
        ({"url": "file:///home/me/my%20code/wicket", "dir_info": {}}, "js", "/home/me/my code/wicket[js]"),
        ({"url": GIT, "vcs_info": {"vcs": "git", "commit_id": "c0"}}, "", f"git+{GIT}"),
        (
            {
                "url": GIT,
                "vcs_info": {"vcs": "git", "commit_id": "c0", "requested_revision": "v2"},
                "subdirectory": "py",
            },
            "js",
            f"wicket-mcp[js] @ git+{GIT}@v2#subdirectory=py",
        ),
        ({"url": "https://example.com/w.whl", "archive_info": {}}, "", "https://example.com/w.whl"),
    ],
)
def test_the_source_is_what_the_user_named(
    tmp_path: Path, origin: JsonObject | None, extra: str, expected: str
) -> None:
    folder = tmp_path / "wicket_mcp-1.dist-info"
    folder.mkdir()
    package = "pytest" if extra else "surely-not-installed-anywhere"
    requires = f"Requires-Dist: {package}>=1; extra == 'js'\nRequires-Dist: surely-not-there; extra == 'other'\n"
    every = "Requires-Dist: wicket-mcp[js]; extra == 'all'\n"
    (folder / "METADATA").write_text(f"Metadata-Version: 2.4\nName: wicket-mcp\nVersion: 1\n{requires}{every}")
    if origin is not None:
        (folder / "direct_url.json").write_bytes(encode(origin))
    assert source_of(Distribution.at(folder)) == expected
