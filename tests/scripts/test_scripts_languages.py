"""The record of a language is all that the other parts know of it."""

from importlib import import_module
from pathlib import Path

from scripts_world import API, run

from wicket_mcp.model import Tool
from wicket_mcp.scripts import Scripts, stubs
from wicket_mcp.scripts.languages import LANGUAGES, NAMES, SUFFIXES

DOCS = Path(__file__).parents[2] / "docs"


def test_every_language_has_an_engine_names_of_its_own_and_a_place_in_the_documents() -> None:
    page = (DOCS / "scripts.md").read_text()
    for language in LANGUAGES.values():
        engine = import_module(language.engine)
        assert callable(engine.run if language.kind == "vm" else engine.main)
        assert language.title in page
        assert all(suffix.startswith(".") for suffix in language.suffixes)
    assert len(NAMES) == sum(1 + len(language.aliases) for language in LANGUAGES.values())
    assert len(SUFFIXES) == sum(len(language.suffixes) for language in LANGUAGES.values())


async def test_every_language_runs_under_all_its_names(scripts: Scripts) -> None:
    for name, language in NAMES.items():
        outcome = await run(scripts, name, "return 1", api=API)
        assert (outcome.language, outcome.value) == (language.name, 1)


async def test_a_language_that_is_not_there_is_answered_with_those_that_are(scripts: Scripts) -> None:
    outcome = await run(scripts, "Cobol", "x", api=API)
    assert outcome.problem is not None
    assert (outcome.language, outcome.problem.kind) == ("cobol", "language")
    assert outcome.problem.hint == "Use one of python, lua, javascript, typescript."


def test_interfaces_follow_references_and_hold_no_text_that_typescript_cannot_read() -> None:
    schema = {
        "$defs": {
            "Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}, "n": {"type": "integer"}}}
        },
        "type": "object",
        "properties": {"node": {"$ref": "#/$defs/Node"}, "word": {"const": "x" * 200}},
        "required": ["node"],
    }
    text = stubs.typescript("a", "b", Tool("a", "b", {"inputSchema": schema}))
    assert text == (
        f'declare function a.b(args: {{ node: {{ next?: any; n?: number }}; word?: "{"x" * 200}" }}): Promise<any>;'
    )
