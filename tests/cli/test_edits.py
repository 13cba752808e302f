"""Editing other people's files: whatever the text looks like, only what was meant changes."""

import re
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wicket_mcp.codec import encode, pretty
from wicket_mcp.config.edit import jsonc, toml
from wicket_mcp.config.read.syntax import read

NAMES = st.text('abz-é "\\/*', min_size=1, max_size=6)
ENTRIES = st.dictionaries(NAMES, st.dictionaries(st.sampled_from(["command", "url", "//"]), st.text(max_size=8)))
NEW = {"command": "/bin/wicket", "args": ["serve"]}


@settings(deadline=None, max_examples=60)
@given(ENTRIES, st.data(), st.sampled_from([encode, pretty]), st.booleans())
def test_exchanging_members_changes_exactly_those(
    entries: dict[str, Any], data: st.DataObject, write: Any, commented: bool
) -> None:
    leaving = data.draw(st.sets(st.sampled_from(sorted(entries)))) if entries else set[str]()
    tree = {"before": [1, {"x": "}"}], "servers": entries, "after": {"servers": {"kept": None}}}
    written = write(tree)
    text = written if isinstance(written, str) else written.decode()
    if commented:
        text = f"// a file's own words {{\n{text}\n/* and, its end */"
    changed = jsonc.set_member(text, ("servers",), "wicket", NEW, remove=leaving)
    kept = {name: entry for name, entry in entries.items() if name not in leaving}
    assert read(changed).tree == {**tree, "servers": {**kept, "wicket": NEW}}
    assert changed.count("a file's own words") == commented
    old, new = jsonc.locate(text, ("servers",)), jsonc.locate(changed, ("servers",))
    assert old is not None
    assert new is not None
    assert jsonc.replace_value(changed, new, text[old.start : old.end]) == text, "undoing gives back every byte"


def test_comments_between_members_stay_and_no_comma_is_left_over() -> None:
    text = '{\n\t"servers": {\n\t\t// one\n\t\t"a": {},\n\t\t// two\n\t\t"b": {} // last\n\t}\n}\n'
    changed = jsonc.set_member(text, ("servers",), "wicket", {"command": "w"}, remove=["b"])
    first, rest = (
        '\t\t"wicket": {\n\t\t\t"command": "w"\n\t\t},\n',
        '\t\t// one\n\t\t"a": {}\n\t\t// two\n\t\t // last\n',
    )
    assert changed == '{\n\t"servers": {\n' + first + rest + "\t}\n}\n"


KEYS = st.text("abz-_é. \"'#[]", min_size=1, max_size=6)
VALUES = st.one_of(
    st.text(max_size=8), st.booleans(), st.integers(-9, 9), st.lists(st.text(max_size=4), max_size=3),
    st.dictionaries(KEYS, st.text(max_size=60), max_size=3),
)  # fmt: skip


@settings(deadline=None, max_examples=60)
@given(st.dictionaries(KEYS, st.dictionaries(KEYS, VALUES, min_size=1), min_size=1, max_size=4), st.data())
def test_tables_come_and_go_without_touching_others(tables: dict[str, dict[str, Any]], data: st.DataObject) -> None:
    text = "# the file\n\ntop = 1 # kept\n"
    for name, values in tables.items():
        text = toml.add_table(text, ("servers", name), values)
    assert tomllib.loads(text) == {"top": 1, "servers": tables}
    name = data.draw(st.sampled_from(sorted(tables)))
    less = toml.remove_table(text, ("servers", name))
    rest = {other: values for other, values in tables.items() if other != name}
    assert tomllib.loads(less).get("servers", {}) == rest
    assert less.startswith("# the file\n\ntop = 1 # kept\n")
    switched = toml.set_key(text, ("servers", name), "enabled", False)
    assert tomllib.loads(switched)["servers"][name] == {**tables[name], "enabled": False}


SPELLINGS = [
    'servers.a.command = "x" # why\nservers.b.command = "y"\n\n[http]\nport = 1\n',
    'servers = { a = { command = "x" }, b = { command = "y" } } # why\n\n[http]\nport = 1\n',
    '[servers]\na = { command = "x" } # why\nb = { command = "y" }\n\n# the web\n[http]\nport = 1\n',
    '[servers]\na.command = "x" # why\nb.command = "y"\n\n[http]\nport = 1\n',
    '[servers]\n[servers.a]\ncommand = "x" # why\n[http]\nport = 1\n[servers.b]\ncommand = "y"\n',
]


@pytest.mark.parametrize("text", SPELLINGS)
def test_dotted_keys_and_inline_tables_are_edited_too(text: str) -> None:
    tree = tomllib.loads(text)
    a, b = tree["servers"]["a"], tree["servers"]["b"]
    switched = toml.set_key(text, ("servers", "a"), "enabled", False)
    assert tomllib.loads(switched) == {**tree, "servers": {"a": {**a, "enabled": False}, "b": b}}
    again = toml.set_key(switched, ("servers", "a"), "enabled", True)
    assert tomllib.loads(again)["servers"]["a"]["enabled"] is True
    assert "# why" in again
    added = toml.add_table(text, ("servers", "new"), NEW)
    assert tomllib.loads(added) == {**tree, "servers": {**tree["servers"], "new": NEW}}
    assert "# why" in added
    assert tomllib.loads(toml.remove_table(added, ("servers", "new"))) == tree
    removed = toml.remove_table(text, ("servers", "b"))
    assert tomllib.loads(removed) == {**tree, "servers": {"a": a}}
    assert "# why" in removed
    assert ("# the web" in removed) == ("# the web" in text)


def test_what_cannot_be_edited_is_refused_and_not_damaged() -> None:
    text = 'x = 1\nservers = ["a"]\n'
    with pytest.raises(toml.Uneditable) as caught:
        toml.add_table(text, ("servers", "a"), NEW)
    assert caught.value.line == 2


def test_a_header_inside_a_string_is_no_header() -> None:
    text = '[servers.a]\ncommand = """\n[servers.b]\n"""\n\n[servers.b]\ncommand = "y"\n'
    assert tomllib.loads(toml.remove_table(text, ("servers", "b"))) == {"servers": {"a": {"command": "[servers.b]\n"}}}
    assert not re.search("command", toml.remove_table(toml.remove_table(text, ("servers", "b")), ("servers", "a")))
