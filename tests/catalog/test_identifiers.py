"""What servers and tools are called inside a script: one rule, in every language."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.catalog.identifiers import identifier, identifiers

NAMES = st.text(st.sampled_from("aB1_-. /é"), min_size=0, max_size=8)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("create_issue", "create_issue"),
        ("create-issue", "create_issue"),
        ("a--b", "a__b"),
        ("a.b c/d", "a_b_c_d"),
        ("naïve", "na_ve"),
        ("3d", "_3d"),
        ("end", "_end"),
        ("goto", "_goto"),
        ("End", "End"),
        ("", "_unnamed"),
        ("_", "_unnamed"),
        ("-", "_unnamed"),
        ("é", "_unnamed"),
        ("__", "__"),
    ],
)
def test_a_name_becomes_an_identifier(name: str, expected: str) -> None:
    assert identifier(name) == expected


def test_colliding_names_are_numbered_in_order() -> None:
    assert identifiers(["a-b", "a_b", "a.b"]) == {"a_b": "a-b", "a_b_2": "a_b", "a_b_3": "a.b"}


def test_a_number_never_hits_another_name() -> None:
    assert identifiers(["a-b", "a_b", "a_b_2"]) == {"a_b": "a-b", "a_b_2": "a_b", "a_b_2_2": "a_b_2"}


def test_reserved_names_are_avoided() -> None:
    reserved = {"print", "result", "result_2"}
    assert identifiers(["print", "result"], reserved) == {"print_2": "print", "result_3": "result"}


@given(st.lists(NAMES, max_size=20), st.sets(NAMES, max_size=5))
def test_every_name_gets_an_identifier_of_its_own(names: list[str], reserved: set[str]) -> None:
    derived = identifiers(names, reserved)
    assert sorted(derived.values()) == sorted(set(names))
    assert not set(derived) & reserved
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", one) for one in derived)
