"""A file of a skill is what its entry says, or the difference is named."""

import hashlib
from base64 import b64encode
from typing import Any

import pytest

from wicket_mcp.catalog.skill_files import MAX_BYTES, MAX_FILES, find_difference, is_within_limits

URI = "skill://forms/SKILL.md"


def entry(text: str, **frontmatter: Any) -> dict[str, Any]:
    data = text.encode()
    file = {"uri": URI, "digest": f"sha256:{hashlib.sha256(data).hexdigest()}", "size": len(data)}
    return {"uri": URI, "frontmatter": frontmatter, "resources": [file]}


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("name: forms", {"name": "forms"}),
        ("since: 2026-01-02\non: yes", {"since": "2026-01-02", "on": "yes"}),
        ("count: 3\nshare: 0.5\nflag: true\nnothing:", {"count": 3, "share": 0.5, "flag": True, "nothing": None}),
        ("metadata:\n  tags: [a, b]", {"metadata": {"tags": ["a", "b"]}}),
    ],
)
def test_frontmatter_is_read_as_the_json_of_the_entry_has_it(written: str, meant: dict[str, Any]) -> None:
    text = f"---\n{written}\n---\nBody"
    assert find_difference(entry(text, **meant), {"uri": URI, "text": text}) == ""
    windows = text.replace("\n", "\r\n")
    blob = b64encode(windows.encode()).decode()
    assert find_difference(entry(windows, **meant), {"uri": URI, "blob": blob}) == ""
    assert find_difference(entry(text, **meant, more=1), {"uri": URI, "text": text}) == "frontmatter"


def test_what_differs_is_named() -> None:
    text = "---\nname: forms\n---\nBody"
    listed = entry(text, name="forms")
    assert find_difference(listed, {"uri": URI, "text": text + "!"}) == "size"
    assert find_difference(listed, {"uri": URI, "text": text.replace("Body", "Bomb")}) == "digest"
    assert find_difference(listed, {"uri": URI, "blob": "no base64!"}) == "content"
    for broken in ("no frontmatter", "---\nnever ended", "---\n[: {\n---\n"):
        assert find_difference(entry(broken, name="forms"), {"uri": URI, "text": broken}) == "frontmatter"


def test_a_skill_is_no_larger_than_the_protocol_lets_it_be() -> None:
    file = {"uri": URI, "size": 1}
    assert is_within_limits({"resources": [file] * MAX_FILES})
    assert not is_within_limits({"resources": [file] * (MAX_FILES + 1)})
    assert is_within_limits({"resources": [{**file, "size": MAX_BYTES}]})
    assert not is_within_limits({"resources": [{**file, "size": MAX_BYTES}, file]})
    assert is_within_limits({"resources": "dynamic"})
