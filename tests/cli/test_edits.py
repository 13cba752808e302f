"""Editing other people's files: whatever the text looks like, only what was meant changes."""

import re
import tomllib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from wicket_mcp.codec import encode, pretty
from wicket_mcp.config.edit import jsonc, tomltext
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
    changed = jsonc.exchanged(text, ("servers",), leaving, "wicket", NEW)
    kept = {name: entry for name, entry in entries.items() if name not in leaving}
    assert read(changed).tree == {**tree, "servers": {**kept, "wicket": NEW}}
    assert changed.count("a file's own words") == commented
    old, new = jsonc.located(text, ("servers",)), jsonc.located(changed, ("servers",))
    assert old is not None
    assert new is not None
    assert jsonc.spliced(changed, new, text[old.start : old.end]) == text, "undoing gives back every byte"


def test_comments_between_members_stay_and_no_comma_is_left_over() -> None:
    text = '{\n\t"servers": {\n\t\t// one\n\t\t"a": {},\n\t\t// two\n\t\t"b": {} // last\n\t}\n}\n'
    changed = jsonc.exchanged(text, ("servers",), ["b"], "wicket", {"command": "w"})
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
        text = tomltext.with_table(text, ("servers", name), values)
    assert tomllib.loads(text) == {"top": 1, "servers": tables}
    name = data.draw(st.sampled_from(sorted(tables)))
    less = tomltext.without_table(text, ("servers", name))
    rest = {other: values for other, values in tables.items() if other != name}
    assert tomllib.loads(less).get("servers", {}) == rest
    assert less.startswith("# the file\n\ntop = 1 # kept\n")
    switched = tomltext.with_key(text, ("servers", name), "enabled", False)
    assert tomllib.loads(switched)["servers"][name] == {**tables[name], "enabled": False}


@pytest.mark.parametrize(
    "text",
    [
        'servers.a.command = "x"\n',
        'servers = { a = { command = "x" } }\n',
        '[servers]\na = { command = "x" }\n',
    ],
)
def test_unusual_spellings_are_refused_not_damaged(text: str) -> None:
    with pytest.raises(tomltext.Uneditable) as caught:
        tomltext.without_table(text, ("servers", "a"))
    assert caught.value.line in (1, 2)


def test_a_header_inside_a_string_is_no_header() -> None:
    text = '[servers.a]\ncommand = """\n[servers.b]\n"""\n\n[servers.b]\ncommand = "y"\n'
    assert tomllib.loads(tomltext.without_table(text, ("servers", "b"))) == {
        "servers": {"a": {"command": "[servers.b]\n"}}
    }
    assert not re.search(
        "command", tomltext.without_table(tomltext.without_table(text, ("servers", "b")), ("servers", "a"))
    )
