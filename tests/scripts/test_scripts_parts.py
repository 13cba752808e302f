"""The pure parts: stubs, unwrapping, fitting, and the words of a problem."""

from scripts_world import API

from wicket_mcp.model import Tool
from wicket_mcp.scripts import Api, Problem, stubs
from wicket_mcp.scripts.values import fit, unwrap


def test_an_api_finds_tools_by_identifier_real_name_and_key() -> None:
    api = Api.of([Tool("data-server", "slow.lookup", {}), Tool("tools", "x", {})], ["empty"])
    assert list(api.servers) == ["empty", "data_server", "tools_2"]
    wanted = api.servers["data_server"].tools["slow_lookup"]
    assert api.find("data_server", "slow_lookup") == wanted
    assert api.find("data-server", "slow.lookup") == wanted
    assert api.find_key("data-server.slow.lookup") == wanted
    assert api.find_key("slow_lookup") == wanted


def test_python_stubs_name_only_what_a_source_mentions() -> None:
    text = stubs.python(API, "await calculator.add(a=1, b=2)")
    assert "async def add(self, *, a: int, b: int) -> Any" in text
    assert "blob" not in text
    assert "mirror" not in text


def test_python_stubs_never_refuse_what_a_tool_would_take() -> None:
    schema = {
        "type": "object",
        "properties": {
            "class": {"type": "string"},
            "mode": {"enum": ["r", "w"]},
            "many": {"type": ["array", "null"], "items": {"type": "string"}},
        },
        "required": ["class"],
    }
    api = Api.of([Tool("files", "open", {"inputSchema": schema})])
    text = stubs.python(api, "files.open(mode='r')")
    assert "mode: Literal['r', 'w'] | str = ..., many: list[str] | None = ..., **more: Any" in text
    assert "arguments: dict[str, Any]" in stubs.python(api, "files.open({'class': 'x'})")


def test_typescript_interfaces_show_fields_and_answers() -> None:
    tool = Tool(
        "git",
        "log",
        {
            "description": "Show commits.\nMore.",
            "inputSchema": {
                "type": "object",
                "properties": {"n": {"type": "integer"}, "by-who": {"anyOf": [{"type": "string"}, {"type": "null"}]}},
                "required": ["n"],
            },
            "outputSchema": {"type": "array", "items": {"enum": ["a", 1]}},
        },
    )
    assert stubs.typescript("git", "log", tool) == (
        "/** Show commits. */\n"
        'declare function git.log(args: { n: number; "by-who"?: string | null }): Promise<("a" | 1)[]>;'
    )


def test_a_tools_answer_is_unwrapped_to_its_data() -> None:
    def text(*texts: str) -> list[dict[str, str]]:
        return [{"type": "text", "text": said} for said in texts]

    assert unwrap({"content": text("x"), "structuredContent": {"a": 1}}) == (True, {"a": 1})
    assert unwrap({"content": text(' {"a": [1]}')}) == (True, {"a": [1]})
    assert unwrap({"content": text("42")}) == (True, "42")
    assert unwrap({"content": text("{broken")}) == (True, "{broken")
    two = {"content": text("a", "b")}
    assert unwrap(two) == (True, two)
    assert unwrap({"content": text("no", "way"), "isError": True}) == (False, "no\nway")


def test_arguments_are_fitted_to_the_schema() -> None:
    schema = {
        "properties": {
            "list": {"type": "array", "items": {"type": "integer"}},
            "in": {"properties": {"n": {"type": "integer"}}},
        }
    }
    assert fit({"list": {}, "in": {"n": 2.0}, "other": {}}, schema) == {"list": [], "in": {"n": 2}, "other": {}}
    assert repr(fit({"list": [1.0, 2.5]}, schema)) == "{'list': [1, 2.5]}"


def test_a_problem_shows_its_line_and_a_caret() -> None:
    problem = Problem("runtime", "nope", 3, 5, "abc def", "Do it.")
    assert str(problem) == "nope\nline 3: abc def\n            ^\nHint: Do it."
