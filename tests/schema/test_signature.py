"""Typed signatures and the three levels of detail."""

import random
from importlib import import_module
from statistics import mean, median
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wicket_mcp.model import JsonObject, Tool
from wicket_mcp.schema.signature import SIGNATURE_BUDGET, describe, signature, summarize
from wicket_mcp.schema.typetext import Style, Types


def tool(schema: Any, **fields: Any) -> Tool:
    return Tool("s", "t", {"name": "t", "inputSchema": schema, **fields})


def parameter(schema: Any, **beside: Any) -> str:
    """How one required parameter of this schema is shown."""
    shown = signature(tool({"type": "object", "properties": {"p": schema}, "required": ["p"], **beside}), 2000)
    return shown.removeprefix("s.t(p: ").removesuffix(") -> text")


NESTED: JsonObject = {
    "type": "object",
    "properties": {"b": {"type": "object", "properties": {"c": {"type": "integer"}}}},
}


class TestSignature:
    def test_required_parameters_come_first_in_the_order_of_the_schema(self) -> None:
        issue: JsonObject = {
            "type": "object",
            "properties": {
                "body": {"type": "string"},
                "owner": {"type": "string"},
                "labels": {"type": "array", "items": {"type": "string"}},
                "repo": {"type": "string"},
            },
            "required": ["repo", "owner"],
        }
        shown = signature(Tool("github", "create_issue", {"inputSchema": issue}))
        assert shown == "github.create_issue(owner: string, repo: string, body?: string, labels?: string[]) -> text"

    @pytest.mark.parametrize(
        ("schema", "expected"),
        [
            ({"type": "string"}, "string"),
            ({"type": "integer"}, "integer"),
            ({"type": "number"}, "number"),
            ({"type": "boolean"}, "boolean"),
            ({"type": "null"}, "null"),
            ({}, "any"),
            (True, "any"),
            (False, "never"),
            ({"type": "array"}, "any[]"),
            ({"type": "array", "items": {"type": "integer"}}, "integer[]"),
            ({"type": "array", "items": {"type": ["integer", "null"]}}, "(integer | null)[]"),
            ({"type": "array", "items": {"type": "array", "items": {"type": "string"}}}, "string[][]"),
            ({"type": "array", "prefixItems": [{"type": "string"}, {"type": "integer"}]}, "[string, integer]"),
            ({"prefixItems": [{"type": "string"}], "items": {"type": "integer"}}, "[string, ...integer[]]"),
            ({"type": "array", "items": [{"type": "string"}]}, "[string]"),
            ({"enum": ["open", "closed"]}, '"open" | "closed"'),
            ({"enum": [1, "a", None, True]}, '1 | "a" | null | true'),
            ({"enum": list(range(20))}, "0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 | …"),
            ({"const": "text"}, '"text"'),
            ({"const": 'say "hi"\n'}, r'"say \"hi\"\n"'),
            ({"const": "a\u202eb"}, r'"a\u202eb"'),
            ({"type": ["string", "null"]}, "string | null"),
            ({"type": ["null", "string"]}, "string | null"),
            ({"type": "string", "nullable": True}, "string | null"),
            ({"anyOf": [{"type": "null"}, {"type": "string"}, {"type": "integer"}]}, "string | integer | null"),
            ({"oneOf": [{"const": "a"}, {"const": "b"}]}, '"a" | "b"'),
            ({"anyOf": [{"type": "string", "minLength": 1}, {"type": "string"}]}, "string"),
            ({"type": "string", "anyOf": [{"minLength": 1}, {"pattern": "^x"}]}, "string"),
            ({"type": "object"}, "object"),
            ({"type": "object", "additionalProperties": False}, "{}"),
            ({"type": "object", "additionalProperties": True}, "object"),
            ({"additionalProperties": {"type": "integer"}}, "Record<string, integer>"),
            ({"patternProperties": {"^x": {"type": "integer"}}}, "Record<string, integer>"),
            (
                {"properties": {"a": {"type": "string"}}, "additionalProperties": {"type": "integer"}},
                "{a?: string, [key: string]: integer}",
            ),
            (
                {"properties": {"a": {"type": "string"}, "b c": {}}, "required": ["b c"]},
                '{"b c": any, a?: string}',
            ),
            ({"properties": {"a": NESTED}}, "{a?: {b?: {…}}}"),
            ({"allOf": [{"properties": {"a": {"type": "string"}}}, {"required": ["a"]}]}, "{a: string}"),
            ({"minimum": 1}, "number"),
            ({"pattern": "^a"}, "string"),
            ({"type": "file"}, "any"),
        ],
    )
    def test_a_schema_reads_as_a_type(self, schema: Any, expected: str) -> None:
        assert parameter(schema) == expected

    @pytest.mark.parametrize(
        ("reference", "expected"),
        [
            ("#/$defs/Id", "integer"),
            ("#/definitions/Name", "string"),
            ("#/properties/q/items", "boolean"),
            ("#/$defs/a~1b%20c", "null"),
            ("#/$defs/Twice", "integer"),
            ("#/$defs/Missing", "any"),
            ("#anchor", "any"),
            ("https://example.com/schema.json#/x", "any"),
            ("#/$defs/Tree", "{value?: integer, children?: …[]}"),
            ("#/$defs/Loop", "…"),
        ],
    )
    def test_references_within_the_schema_are_followed(self, reference: str, expected: str) -> None:
        schema = {
            "type": "object",
            "properties": {"p": {"$ref": reference}, "q": {"type": "array", "items": {"type": "boolean"}}},
            "required": ["p"],
            "definitions": {"Name": {"type": "string"}},
            "$defs": {
                "Id": {"type": "integer"},
                "Twice": {"$ref": "#/$defs/Id"},
                "a/b c": {"type": "null"},
                "Loop": {"$ref": "#/$defs/Loop"},
                "Tree": {
                    "properties": {
                        "value": {"type": "integer"},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                    }
                },
            },
        }
        assert signature(tool(schema), 2000) == f"s.t(p: {expected}, q?: boolean[]) -> text"

    @pytest.mark.parametrize(
        ("schema", "expected"),
        [
            ({"type": "integer", "default": 10}, "p?: integer = 10"),
            ({"type": "boolean", "default": False}, "p?: boolean = false"),
            ({"enum": ["a", "b"], "default": "b"}, 'p?: "a" | "b" = "b"'),
            ({"type": "array", "default": []}, "p?: any[] = []"),
            ({"type": "string", "default": "x" * 100}, "p?: string"),
            ({"type": "string", "default": None}, "p?: string"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}, "p?: string"),
            ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "p?: string | null"),
        ],
    )
    def test_short_defaults_are_shown(self, schema: Any, expected: str) -> None:
        assert signature(tool({"properties": {"p": schema}})) == f"s.t({expected}) -> text"

    def test_a_choice_of_whole_argument_sets_shows_all_their_parameters(self) -> None:
        schema = {
            "anyOf": [
                {"properties": {"kind": {"const": "a"}, "x": {"type": "string"}}, "required": ["kind", "x"]},
                {"properties": {"kind": {"const": "b"}, "y": {"type": "integer"}}, "required": ["kind"]},
            ]
        }
        assert signature(tool(schema)) == 's.t(kind: "a" | "b", x?: string, y?: integer) -> text'

    def test_names_that_are_no_identifiers_are_quoted(self) -> None:
        schema: JsonObject = {"properties": {"a-b": {}, "": {}, "x\u202ey": {}}}
        assert signature(tool(schema)) == r's.t("a-b"?: any, ""?: any, "x\u202ey"?: any) -> text'

    def test_the_output_type_follows_an_arrow(self) -> None:
        output = {"type": "object", "properties": {"id": {"type": "string"}}, "required": ["id"]}
        assert signature(tool({}, outputSchema=output)) == "s.t() -> {id: string}"

    def test_a_long_output_type_is_shown_by_its_names(self) -> None:
        output = {"type": "object", "properties": {f"field_{n}": {"type": "string"} for n in range(40)}}
        shown = signature(tool({}, outputSchema=output))
        assert shown.startswith("s.t() -> {field_0, field_1, ")
        assert shown.endswith(", …}")
        assert len(shown) < 90

    def test_a_tool_without_a_server_is_shown_by_its_name(self) -> None:
        assert signature(Tool("", "find_tools", {})) == "find_tools() -> text"

    def test_a_name_with_invisible_characters_is_shown_without_them(self) -> None:
        assert signature(Tool("s", "a\u202eb\n", {})) == "s.a_b_() -> text"


class TestBudget:
    SCHEMA: JsonObject = {  # noqa: RUF012
        "properties": {
            **{f"needed_{n}": {"enum": [f"value {m}" for m in range(9)]} for n in range(6)},
            **{f"optional_{n}": {"type": "integer", "default": n} for n in range(30)},
        },
        "required": [f"needed_{n}" for n in range(6)],
    }

    @pytest.mark.parametrize("budget", [2000, 600, 380, 250, 200])
    def test_a_signature_keeps_to_its_budget_and_its_required_parameters(self, budget: int) -> None:
        shown = signature(tool(self.SCHEMA), budget)
        assert len(shown) <= budget
        assert all(f"needed_{n}" in shown for n in range(6))

    def test_optional_parameters_lose_detail_before_required_ones_and_end_in_an_ellipsis(self) -> None:
        shown = signature(tool(self.SCHEMA), 700)
        assert 'needed_5: "value 0" | "value 1"' in shown
        assert "optional_0?: integer, " in shown
        assert shown.endswith(", …) -> text")

    def test_names_of_required_parameters_outlast_any_budget(self) -> None:
        shown = signature(tool(self.SCHEMA), 10)
        assert shown == "s.t(needed_0, needed_1, needed_2, needed_3, needed_4, needed_5, …) -> text"


class TestDescribe:
    ISSUE = tool(
        {
            "properties": {
                "title": {"type": "string", "description": "The title. Keep it short."},
                "labels": {"type": "array", "items": {"type": "string"}},
            },
            "required": ["title"],
        },
        description="# Issues\nCreate a **new** issue. Needs a token.\n",
        outputSchema={"type": "object", "properties": {"id": {"type": "integer"}}},
        annotations={"readOnlyHint": False},
        icons=[{"src": "data:"}],
    )

    def test_a_signature_line_ends_with_the_first_sentence(self) -> None:
        assert describe(self.ISSUE, "signature") == (
            "s.t(title: string, labels?: string[]) -> {id?: integer} - Create a new issue"
        )

    def test_a_brief_lists_the_parameters(self) -> None:
        assert describe(self.ISSUE, "brief").splitlines() == [
            "s.t(title: string, labels?: string[]) -> {id?: integer}",
            "Create a new issue",
            "- title: string - The title",
            "- labels?: string[]",
        ]

    def test_full_is_what_the_upstream_sent_under_the_canonical_name(self) -> None:
        sent = self.ISSUE.definition
        assert describe(self.ISSUE, "full") == {
            "name": "s.t",
            "description": sent["description"],
            "inputSchema": sent["inputSchema"],
            "outputSchema": sent["outputSchema"],
            "annotations": sent["annotations"],
        }

    def test_a_tool_without_a_description_is_described_by_its_title(self) -> None:
        assert describe(tool({}, title="Do it"), "signature") == "s.t() -> text - Do it"
        assert describe(tool({}), "signature") == "s.t() -> text"


class TestRealTools:
    ENCODING: Any = import_module("rs_bpe").openai.o200k_base()

    def tokens(self, text: str) -> int:
        return self.ENCODING.count(text)

    def test_a_signature_takes_sixty_tokens_or_less_as_a_rule_and_never_much_more_than_a_hundred(
        self, real_tools: list[Tool]
    ) -> None:
        sizes = [self.tokens(signature(one)) for one in real_tools]
        assert median(sizes) <= 60
        assert max(sizes) <= 130

    def test_five_hits_take_five_hundred_tokens_or_less(self, real_tools: list[Tool]) -> None:
        lines = [describe(one, "signature") for one in real_tools]
        assert mean(map(self.tokens, lines)) <= 85
        chance = random.Random(7)
        draws = [self.tokens("\n".join(chance.sample(lines, 5))) for _ in range(300)]
        assert median(draws) <= 500

    def test_every_brief_takes_less_than_three_hundred_tokens(self, real_tools: list[Tool]) -> None:
        assert max(self.tokens(describe(one, "brief")) for one in real_tools) < 300

    def test_every_signature_is_one_line_with_all_required_parameters(self, real_tools: list[Tool]) -> None:
        for one in real_tools:
            shown = signature(one)
            assert shown.isprintable()
            assert len(shown) <= SIGNATURE_BUDGET
            assert shown.startswith(f"{one.key}(")
            for name in one.input_schema.get("required", []):
                assert name in shown, (one.key, name)

    def test_every_full_description_is_faithful(self, real_tools: list[Tool]) -> None:
        for one in real_tools:
            shown = describe(one, "full")
            assert shown.pop("name") == one.key
            assert shown.items() <= one.definition.items()
            assert shown["inputSchema"] is one.definition["inputSchema"]


KEYWORDS = (
    "type", "properties", "required", "items", "prefixItems", "additionalProperties", "patternProperties", "anyOf",
    "oneOf", "allOf", "not", "$ref", "$defs", "enum", "const", "default", "nullable", "description", "format",
)  # fmt: skip
WORDS = st.sampled_from(
    [*KEYWORDS, "string", "object", "array", "null", "a", "b", "#", "#/$defs/a", "#/properties/a", "\u202e"]
)
VALUES = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.text(max_size=5)
SCHEMAS = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=6),
    max_leaves=40,
)


class TestHostileSchemas:
    @settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
    @given(st.dictionaries(WORDS, SCHEMAS, max_size=8), SCHEMAS, SCHEMAS)
    def test_any_schema_has_a_signature(self, schema: Any, output: Any, description: Any) -> None:
        odd = tool(schema, outputSchema=output, description=description)
        assert signature(odd).isprintable()
        assert describe(odd, "brief").startswith("s.t(")

    @pytest.mark.parametrize("keyword", ["items", "not", "additionalProperties"])
    def test_a_deep_schema_is_cut(self, keyword: str) -> None:
        schema: JsonObject = {"type": "string"}
        for _ in range(800):
            schema = {keyword: schema}
        assert len(signature(tool({"properties": {"p": schema}}))) <= SIGNATURE_BUDGET

    @pytest.mark.parametrize("keyword", ["anyOf", "allOf", "prefixItems"])
    def test_references_that_multiply_are_cut(self, keyword: str) -> None:
        bomb: JsonObject = {
            f"d{n}": {keyword: [{"$ref": f"#/$defs/d{n + 1}"}, {"$ref": f"#/$defs/d{n + 1}"}]} for n in range(60)
        }
        schema = {"properties": {"p": {"$ref": "#/$defs/d0"}}, "$defs": bomb | {"d60": {"type": "string"}}}
        assert len(signature(tool(schema, outputSchema=schema))) <= SIGNATURE_BUDGET

    def test_a_wide_schema_is_cut(self) -> None:
        wide = {f"p{n}": {"enum": ["x" * 1000] * 1000} for n in range(2000)}
        assert len(signature(tool({"properties": wide}))) <= SIGNATURE_BUDGET
        assert len(describe(tool({"properties": wide}), "brief")) < 1200

    def test_huge_names_and_numbers_are_cut(self) -> None:
        schema = {"properties": {"x" * 100_000: {"const": 10**6000}}, "required": ["y" * 100_000]}
        shown = signature(tool(schema))
        assert "x" * 200 not in shown
        assert len(shown) < 600

    def test_thousands_of_required_parameters_are_cut(self) -> None:
        names = [f"p{n}" for n in range(5000)]
        shown = signature(tool({"required": names}))
        assert shown.startswith("s.t(p0, p1, ")
        assert len(shown) < 1000


@pytest.mark.parametrize(
    ("schema", "fields", "plain", "typescript"),
    [
        ({"type": "integer"}, 9, "integer", "number"),
        ({"type": "string"}, 9, "string", "string"),
        ({"type": "boolean"}, 9, "boolean", "boolean"),
        (
            {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
            1,
            "{a?: integer, …}",
            "{ a?: number; [key: string]: any }",
        ),
        (
            {"properties": {"a": {"type": "integer"}, "b": {"type": "string"}}},
            2,
            "{a?: integer, b?: string}",
            "{ a?: number; b?: string }",
        ),
    ],
)
def test_the_same_schema_in_our_words_and_in_typescript(
    schema: JsonObject, fields: int, plain: str, typescript: str
) -> None:
    assert Types(schema, Style(fields=fields)).text(schema) == plain
    assert Types(schema, Style(fields=fields, typescript=True)).text(schema) == typescript


def test_fields_of_the_output_are_followed_by_dots_only_where_some_are_left_out() -> None:
    fields = {name: {"type": "string"} for name in ("timezone", "datetime", "day_of_week", "is_dst")}
    four = Tool("time", "now", {"name": "now", "outputSchema": {"type": "object", "properties": fields}})
    assert signature(four) == "time.now() -> {timezone, datetime, day_of_week, is_dst}"
    many = {f"field_number_{n}": {"type": "string"} for n in range(9)}
    nine = Tool("time", "now", {"name": "now", "outputSchema": {"type": "object", "properties": many}})
    assert signature(nine).endswith(", …}")


def test_a_wrapped_value_is_shown_as_scripts_and_agents_get_it() -> None:
    wrapped = {
        "type": "object",
        "properties": {"result": {"type": "array", "items": {"$ref": "#/$defs/Row"}}},
        "$defs": {"Row": {"type": "object", "properties": {"id": {"type": "integer"}}}},
        "x-fastmcp-wrap-result": True,
    }
    assert signature(Tool("db", "rows", {"name": "rows", "outputSchema": wrapped})) == "db.rows() -> {id?: integer}[]"


def test_a_deprecated_tool_says_so_in_one_line() -> None:
    words = "Read the complete contents of a file as text. DEPRECATED: Use read_text_file instead."
    tool = Tool("fs", "read_file", {"name": "read_file", "description": words})
    assert describe(tool, "signature") == (
        "fs.read_file() -> text - Read the complete contents of a file as text (DEPRECATED: Use read_text_file instead)"
    )
    assert summarize(tool, 30) == "Read the complete contents… (DEPRECATED: Use read_text_file instead)"
    about = Tool("lint", "find", {"name": "find", "description": "Find uses of deprecated functions in a project."})
    assert describe(about, "signature") == "lint.find() -> text - Find uses of deprecated functions in a project"


@pytest.mark.parametrize(
    ("name", "description", "output"),
    [
        ("git_log", "Shows the commit logs", " -> text"),
        ("browser_take_screenshot", "Take it", ""),
        ("render", "Draws a chart of the numbers", ""),
    ],
)
def test_a_tool_that_declares_no_output_gives_text_unless_it_seems_to_draw(
    name: str, description: str, output: str
) -> None:
    assert signature(Tool("s", name, {"name": name, "description": description})) == f"s.{name}(){output}"
