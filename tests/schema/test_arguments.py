"""Arguments against the tool's own schema: what passes, and what an agent is told when it does not."""

from copy import deepcopy
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from wicket_mcp.errors import BadArguments
from wicket_mcp.model import JsonObject, Tool
from wicket_mcp.schema.arguments import check_arguments, coerce, compile_problem, fit_arguments, parse_arguments
from wicket_mcp.schema.coercion import wants_text

LOG: JsonObject = {
    "type": "object",
    "properties": {
        "repo_path": {"type": "string"},
        "max_count": {"type": "integer", "default": 10},
        "order": {"enum": ["date", "topo"]},
        "paths": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["repo_path"],
}


def tool(schema: Any, name: str = "git_log") -> Tool:
    return Tool("git", name, {"name": name, "inputSchema": schema})


def complaint(schema: Any, arguments: JsonObject) -> str:
    """What the agent is told, without the name before and the signature after it."""
    with pytest.raises(BadArguments) as caught:
        check_arguments(tool(schema), arguments)
    return caught.value.message.removeprefix("git.git_log: ").removesuffix(".")


def properties(**schemas: Any) -> JsonObject:
    return {"type": "object", "properties": schemas}


class TestParsing:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            ({"a": 1}, {"a": 1}),
            (None, {}),
            ('{"a": [1]}', {"a": [1]}),
            ("", {}),
            ("null", {}),
            ('{"big": 123456789012345678901234567890}', {"big": 123456789012345678901234567890}),
        ],
    )
    def test_an_object_is_taken_however_it_comes(self, value: Any, expected: JsonObject) -> None:
        assert parse_arguments(value) == expected

    @pytest.mark.parametrize(
        ("value", "said"),
        [
            ([1, 2], "array [1, 2]"),
            (5, "integer 5"),
            (True, "true"),
            ("[1]", "array [1]"),
            ("hello", 'string "hello"'),
            ('{"a":', r'string "{\"a\":"'),
        ],
    )
    def test_anything_else_is_refused_with_what_was_given(self, value: Any, said: str) -> None:
        with pytest.raises(BadArguments) as caught:
            parse_arguments(value)
        assert str(caught.value) == f'The arguments should be an object, got {said}. Send them as {{"name": value}}.'

    def test_a_long_value_is_not_echoed_whole(self) -> None:
        with pytest.raises(BadArguments) as caught:
            parse_arguments("x" * 10_000)
        assert len(str(caught.value)) < 200


class TestCoercing:
    SCHEMA: JsonObject = {  # noqa: RUF012
        "properties": {
            "list": {"type": "array"},
            "object": {"$ref": "#/$defs/Thing"},
            "maybe": {"anyOf": [{"type": "array"}, {"type": "null"}]},
            "either": {"type": ["array", "string"]},
            "text": {"type": "string"},
            "number": {"type": "integer"},
            "float": {"type": "number"},
            "flag": {"type": "boolean"},
            "names": {"type": "array", "items": {"type": "string"}},
            "some_names": {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
            "ids": {"type": "array", "items": {"type": "integer"}},
            "things": {"type": "array", "items": {"$ref": "#/$defs/Thing"}},
            "any": {},
        },
        "$defs": {"Thing": {"type": "object", "properties": {"count": {"type": "integer"}}}},
    }

    @pytest.mark.parametrize(
        ("name", "text", "expected"),
        [
            ("list", '["a"]', ["a"]),
            ("list", " [1, 2]\n", [1, 2]),
            ("object", '{"a": 1}', {"a": 1}),
            ("maybe", "[]", []),
            ("number", "5", 5),
            ("number", " -5 ", -5),
            ("float", "2.5", 2.5),
            ("float", "2", 2),
            ("flag", "true", True),
            ("flag", "False", False),
            ("names", "a", ["a"]),
            ("names", '["a", "b"]', ["a", "b"]),
            ("ids", 7, [7]),
            ("ids", ["7", 8], [7, 8]),
            ("some_names", "a", ["a"]),
            ("things", {"count": "3"}, [{"count": 3}]),
            ("object", {"count": "3", "other": "3"}, {"count": 3, "other": "3"}),
        ],
    )
    def test_a_value_takes_the_only_form_that_will_do(self, name: str, text: Any, expected: Any) -> None:
        given_arguments = {name: text}
        before = deepcopy(given_arguments)
        assert coerce(tool(self.SCHEMA), given_arguments) == {name: expected}
        assert given_arguments == before

    def test_null_for_what_may_be_left_out_is_left_out(self) -> None:
        schema = {**self.SCHEMA, "required": ["text"]}
        arguments = {"text": None, "number": None, "maybe": None, "object": {"count": None}, "unknown": None}
        assert coerce(tool(schema), arguments) == {"text": None, "maybe": None, "object": {}, "unknown": None}

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("list", '{"a": 1}'),
            ("list", "[1"),
            ("list", "a, b"),
            ("object", "[1]"),
            ("either", "[1]"),
            ("text", '{"a": 1}'),
            ("text", 5),
            ("number", "five"),
            ("number", "5.5"),
            ("number", ""),
            ("flag", "yes"),
            ("flag", 1),
            ("names", "[1"),
            ("ids", "seven"),
            ("either", "a"),
            ("any", "[1]"),
            ("unknown", "[1]"),
        ],
    )
    def test_everything_else_is_left_alone(self, name: str, value: Any) -> None:
        arguments = {name: value}
        assert coerce(tool(self.SCHEMA), arguments) is arguments


class TestComplaints:
    def test_the_message_lets_the_agent_mend_its_call_in_one_step(self) -> None:
        with pytest.raises(BadArguments) as caught:
            check_arguments(tool(LOG), {"max_count": "ten"})
        assert str(caught.value) == (
            "git.git_log: 'max_count' should be integer, got string \"ten\"; missing 'repo_path' (string). "
            'Signature: git.git_log(repo_path: string, max_count?: integer = 10, order?: "date" | "topo", '
            "paths?: string[]) -> text"
        )

    def test_arguments_that_fit_pass(self) -> None:
        check_arguments(tool(LOG), {"repo_path": "/x", "max_count": 5, "order": "date", "paths": [], "extra": 1})

    @pytest.mark.parametrize(
        ("schema", "arguments", "said"),
        [
            (LOG, {"repo_path": None}, "'repo_path' should be string, got null"),
            (LOG, {"repo_path": "", "order": "size"}, '\'order\' should be "date" | "topo", got string "size"'),
            (LOG, {"repo_path": "", "paths": "a"}, "'paths' should be string[], got string \"a\""),
            (LOG, {"repo_path": "", "paths": ["a", 2]}, "'paths[1]' should be string, got integer 2"),
            (LOG, {"repo_path": "", "paths": {}}, "'paths' should be string[], got object {}"),
            (
                LOG,
                {"repo_pth": "/x"},
                "missing 'repo_path' (string); unknown 'repo_pth' (did you mean 'repo_path'?)",
            ),
            (
                {**LOG, "additionalProperties": False},
                {"repo_path": "", "max-count": 3, "zzz": 1},
                "unknown 'max-count' (did you mean 'max_count'?); unknown 'zzz'",
            ),
            (properties(a={"minimum": 3}), {"a": 1}, "'a' should be at least 3, got integer 1"),
            (properties(a={"exclusiveMaximum": 3}), {"a": 3}, "'a' should be less than 3, got integer 3"),
            (properties(a={"minLength": 2}), {"a": "x"}, "'a' should be at least 2 characters long, got string \"x\""),
            (properties(a={"maxItems": 1}), {"a": [1, 2]}, "'a' should have at most 1 items, got array [1, 2]"),
            (properties(a={"pattern": "^x+$"}), {"a": "y"}, '\'a\' should match "^x+$", got string "y"'),
            (properties(a={"uniqueItems": True}), {"a": [1, 1]}, "'a' has items that repeat"),
            (properties(a={"const": "x"}), {"a": "y"}, '\'a\' should be "x", got string "y"'),
            (properties(a=False), {"a": "y"}, "'a' is not allowed"),
            (
                properties(a={"anyOf": [{"type": "integer"}, {"type": "null"}]}),
                {"a": "y"},
                "'a' should be integer | null, got string \"y\"",
            ),
            (
                properties(a={"anyOf": [{"type": "null"}, {"$ref": "#/$defs/P"}]})
                | {"$defs": {"P": {"type": "object", "properties": {"x": {"type": "number"}}, "required": ["x"]}}},
                {"a": {}},
                "missing 'a.x' (number)",
            ),
            (
                properties(
                    a={
                        "oneOf": [
                            {"properties": {"kind": {"const": "text"}, "text": {"type": "string"}}},
                            {"properties": {"kind": {"const": "size"}, "size": {"type": "integer"}}},
                        ]
                    }
                ),
                {"a": {"kind": "size", "size": "big", "text": 5}},
                "'a.size' should be integer, got string \"big\"",
            ),
            (
                {"properties": {"a": {}, "b": {}}, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]},
                {},
                "the arguments object needs 'a' or 'b'",
            ),
        ],
    )
    def test_each_fault_is_named_with_what_was_expected_and_given(
        self, schema: Any, arguments: JsonObject, said: str
    ) -> None:
        assert complaint(schema, arguments) == said

    def test_no_more_than_five_faults_are_listed(self) -> None:
        schema = {"required": [f"p{n}" for n in range(9)]}
        assert (
            complaint(schema, {}) == "missing 'p0'; missing 'p1'; missing 'p2'; missing 'p3'; missing 'p4'; and 4 more"
        )

    def test_long_values_are_cut(self) -> None:
        said = complaint(properties(a={"type": "integer"}), {"a": "secret" * 1000})
        assert len(said) < 130
        assert said.endswith('…"')

    def test_a_fault_in_a_large_value_is_named(self) -> None:
        said = complaint(properties(a={"items": {"type": "string"}}), {"a": ["x"] * 60_000 + [1]})
        assert said == "'a[60000]' should be string, got integer 1"

    def test_many_faults_in_a_large_value_are_named_by_the_first(self) -> None:
        assert complaint(properties(a={"items": {"type": "string"}}), {"a": [1] * 200_000}) == (
            "'a[0]' should be string, got integer 1"
        )


class TestBrokenSchemas:
    BAD: JsonObject = {"b": "x"}  # noqa: RUF012

    @pytest.mark.parametrize(
        "schema",
        [
            properties(a={"type": "string", "pattern": "^(?!no).*$"}),
            properties(a={"pattern": "(["}),
            properties(a={"$ref": "https://example.com/schema.json"}),
            properties(a={"$ref": "file:///etc/passwd"}),
            properties(a={"$ref": "#/$defs/Missing"}),
            properties(a={"type": "string", "required": True}),
            properties(a={"type": "anything"}),
            properties(a={"minimum": 0, "exclusiveMinimum": True}),
            properties(a=5),
            properties(a={"anyOf": [5]}),
            {**properties(a={}), "$schema": "https://example.com/mine"},
            {**properties(a={}), "patternProperties": {"^(?!x)": True}, "additionalProperties": False},
        ],
    )
    def test_the_rest_is_still_checked(self, schema: JsonObject) -> None:
        schema = {**schema, "properties": {**schema["properties"], "b": {"type": "integer"}}}
        assert complaint(schema, {"a": "no", "b": "x"}) == "'b' should be integer, got string \"x\""
        check_arguments(tool(schema), {"a": "no", "b": 1})
        problem = compile_problem(tool(schema))
        assert problem is not None
        assert problem.startswith("not checked: ")

    @pytest.mark.parametrize(
        "schema",
        [
            properties(a={"not": {"pattern": "^(?!no).*$"}}),
            properties(a={"oneOf": [{"pattern": "^(?!no)"}, {"type": "string"}]}),
            {"properties": [1], "unevaluatedProperties": False},
            properties(a={"$ref": "https://example.com/x", "not": {}}),
            properties(a={"description": "x" * 70_000}),
            properties(a={"enum": list(range(9000))}),
            properties(**{f"p{n}": {"pattern": f"^{n}"} for n in range(200)}),
            {"$id": "https://example.com/a", "$ref": "https://example.com/a#/$defs/x", "$defs": {"x": False}},
        ],
    )
    def test_where_leaving_out_a_part_could_refuse_good_arguments_all_pass(self, schema: JsonObject) -> None:
        check_arguments(tool(schema), {"a": "no", "b": 1})
        problem = compile_problem(tool(schema))
        assert problem is not None
        assert problem.endswith("arguments pass unchecked")

    def test_what_a_broken_part_would_have_allowed_stays_allowed(self) -> None:
        check_arguments(tool({"properties": [1], "additionalProperties": False}), {"a": 1})
        check_arguments(tool(properties(a={"prefixItems": [5], "items": False})), {"a": [1]})

    def test_a_deep_schema_lets_everything_pass(self) -> None:
        schema: JsonObject = {"type": "string"}
        for _ in range(500):
            schema = {"properties": {"a": schema}}
        check_arguments(tool(schema), {"a": 1})
        assert compile_problem(tool(schema)) == "the input schema is nested more than 64 deep: arguments pass unchecked"

    def test_a_sound_schema_has_no_problem(self) -> None:
        assert compile_problem(tool(LOG)) is None

    def test_a_tool_without_a_schema_takes_anything(self) -> None:
        check_arguments(Tool("s", "t", {}), {"a": 1})

    @pytest.mark.parametrize("value", ["text", None])
    def test_a_nullable_parameter_takes_null(self, value: Any) -> None:
        check_arguments(tool(properties(a={"type": "string", "nullable": True})), {"a": value})

    def test_a_nullable_parameter_is_still_checked(self) -> None:
        said = complaint(properties(a={"type": "string", "nullable": True}), {"a": 5})
        assert said == "'a' should be string | null, got integer 5"

    def test_formats_are_left_to_the_upstream(self) -> None:
        check_arguments(tool(properties(a={"type": "string", "format": "email"})), {"a": "nobody"})


class TestBounds:
    def test_a_pattern_made_to_backtrack_is_matched_in_linear_time(self) -> None:
        said = complaint(properties(a={"pattern": "^(a+)+$"}), {"a": "a" * 100_000 + "b"})
        assert said.startswith('\'a\' should match "^(a+)+$", got string "aaa')

    @pytest.mark.parametrize("keyword", ["anyOf", "allOf", "oneOf"])
    @pytest.mark.parametrize("base", ["#", "https://example.com/a#"])
    def test_references_that_multiply_do_not_stall_a_call(self, keyword: str, base: str) -> None:
        bomb: JsonObject = {
            f"d{n}": {keyword: [{"$ref": f"{base}/$defs/d{n + 1}"}, {"$ref": f"{base}/$defs/d{n + 1}"}]}
            for n in range(40)
        }
        schema = properties(a={"$ref": f"{base}/$defs/d0"}) | {"$defs": bomb | {"d40": {"type": "string"}}}
        if base != "#":
            schema["$id"] = "https://example.com/a"
        check_arguments(tool(schema), {"a": 1})

    def test_recursion_with_two_ways_down_does_not_stall_a_call(self) -> None:
        branch = {"properties": {"a": {"$ref": "#/$defs/f"}}, "required": ["z"]}
        schema = {"$ref": "#/$defs/f", "$defs": {"f": {"anyOf": [branch, branch]}}}
        arguments: JsonObject = {}
        for _ in range(50):
            arguments = {"a": arguments}
        check_arguments(tool(schema), arguments)

    def test_ordinary_recursion_is_checked(self) -> None:
        schema = properties(tree={"$ref": "#/$defs/Tree"}) | {
            "$defs": {
                "Tree": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "integer"},
                        "children": {"type": "array", "items": {"$ref": "#/$defs/Tree"}},
                    },
                }
            }
        }
        arguments = {"tree": {"value": 1, "children": [{"children": [{"value": "x"}]}]}}
        assert complaint(schema, arguments) == (
            "'tree.children[0].children[0].value' should be integer, got string \"x\""
        )

    @pytest.mark.parametrize("depth", [100, 20_000, 200_000])
    def test_very_deep_arguments_pass_unchecked(self, depth: int) -> None:
        arguments: JsonObject = {"a": 1}
        for _ in range(depth):
            arguments = {"a": arguments}
        check_arguments(tool({"type": "object", "properties": {"a": {"$ref": "#"}}}), arguments)

    def test_text_that_is_no_text_passes_unchecked(self) -> None:
        check_arguments(tool(properties(a={"type": "string"})), {"a": "\ud800"})

    def test_more_tools_than_are_kept_compiled_are_each_checked_by_their_own_schema(self) -> None:
        tools = [tool(properties(a={"const": n}), f"t{n}") for n in range(600)]
        for n, one in [*enumerate(tools), *enumerate(tools)]:
            check_arguments(one, {"a": n})
        for n, one in enumerate(tools):
            with pytest.raises(BadArguments):
                check_arguments(one, {"a": n + 1})


class TestRealTools:
    def test_only_patterns_with_lookahead_are_left_out(self, real_tools: list[Tool]) -> None:
        problems = {one.key: problem for one in real_tools if (problem := compile_problem(one))}
        assert len(problems) == 3
        assert all(problem.startswith('not checked: properties.name.pattern: "^(?!') for problem in problems.values())

    def test_leaving_out_what_is_required_names_every_such_parameter(self, real_tools: list[Tool]) -> None:
        seen = 0
        for one in real_tools:
            required: list[str] = one.input_schema.get("required") or []
            if not required:
                check_arguments(one, {})
                continue
            seen += 1
            with pytest.raises(BadArguments) as caught:
                check_arguments(one, {})
            assert all(f"missing '{name}'" in caught.value.message for name in required[:5])
            assert f"Signature: {one.key}(" in str(caught.value)
        assert seen > 1000

    @pytest.mark.parametrize("value", ["text", [{"a": [1]}], {"type": "x", "a": {"b": None}}])
    def test_any_value_for_every_parameter_passes_or_is_explained(self, value: Any, real_tools: list[Tool]) -> None:
        for one in real_tools:
            arguments = dict.fromkeys(one.input_schema.get("properties") or {}, value)
            try:
                check_arguments(one, coerce(one, arguments))
            except BadArguments as problem:
                message = problem.message
            else:
                continue
            assert message.startswith(f"{one.key}: ")
            assert message.isprintable()
            assert len(message) < 2000


WORDS = st.sampled_from(
    [
        *("type", "properties", "required", "items", "additionalProperties", "patternProperties", "anyOf", "oneOf"),
        *("allOf", "not", "if", "then", "$ref", "$defs", "$id", "enum", "const", "pattern", "nullable", "minimum"),
        *("string", "object", "array", "a", "b", "#", "#/$defs/a", "#/properties/a", "^(a", "http://x/y"),
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=5),
    max_leaves=30,
)
OBJECTS = st.dictionaries(WORDS, JSON, max_size=6)


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=150)
@given(OBJECTS, OBJECTS)
@pytest.mark.promise("T24", "Any schema lets arguments pass or says what is wrong.")
def test_t24_any_schema_lets_arguments_pass_or_says_what_is_wrong(schema: Any, arguments: Any) -> None:
    odd = tool(schema)
    try:
        check_arguments(odd, coerce(odd, arguments))
    except BadArguments as problem:
        message = problem.message
    else:
        return
    assert message.startswith("git.git_log: ")
    assert message.isprintable()


def test_null_for_a_parameter_that_may_be_left_out_counts_as_absent() -> None:
    schema = {
        "type": "object",
        "properties": {"path": {"type": "string"}, "depth": {"type": "integer"}},
        "required": ["path"],
        "additionalProperties": False,
    }
    tool = Tool("s", "t", {"name": "t", "inputSchema": schema})
    assert fit_arguments(tool, {"path": "x", "depth": None}) == {"path": "x"}
    with pytest.raises(BadArguments, match="'path'"):
        fit_arguments(tool, {"path": None})
    with pytest.raises(BadArguments, match="'other'"):
        fit_arguments(tool, {"path": "x", "other": None})


def test_arguments_that_fit_are_passed_on_as_they_are() -> None:
    arguments = {"a": "5", "b": None}
    assert fit_arguments(tool(properties(a={}, b={"type": ["string", "null"]})), arguments) is arguments


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (("content",), True),
        (("edits", 0, "text"), True),
        (("edits", 0), False),
        (("edits",), False),
        (("either",), False),
        (("maybe",), True),
        (("unknown",), False),
        ((), False),
    ],
)
def test_where_only_text_goes(path: tuple[str | int, ...], expected: bool) -> None:
    text = {"type": "string"}
    edit = {"type": "object", "properties": {"text": text}}
    schema = properties(
        content=text,
        edits={"type": "array", "items": edit},
        either={"type": ["string", "object"]},
        maybe={"anyOf": [text, {"type": "null"}]},
    )
    assert wants_text(schema, path) is expected
