"""Handles of results: short, spelled so that they can be copied, and refused without asking anybody."""

from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.model import Principal
from wicket_mcp.results.handles import Handles
from wicket_mcp.sealing import ID_LENGTH, LETTERS, Ring
from wicket_mcp.store.clock import steady_time

OLD, NEW = b"k" * 32, b"n" * 32
ANN, BOB = Principal("ann"), Principal("bob")
HANDLES = Handles(Ring([OLD]))
HANDLE = HANDLES.make(ANN, steady_time() + 3600)[1]
"""For tests that hypothesis repeats: it wants the same choices each time."""


def test_a_handle_opens_for_its_principal_until_it_expires() -> None:
    row, handle = HANDLES.make(ANN, steady_time() + 60)
    assert HANDLES.open(handle, ANN) == row
    assert HANDLES.open(handle, BOB) is None
    _, expired = HANDLES.make(ANN, steady_time() - 2)
    assert HANDLES.open(expired, ANN) is None
    assert Handles(Ring([NEW])).open(handle, ANN) is None


def test_a_handle_outlives_a_change_of_keys() -> None:
    row, handle = HANDLES.make(ANN, steady_time() + 60)
    changed = Handles(Ring([NEW, OLD]))
    assert changed.open(handle, ANN) == row
    assert changed.make(ANN, steady_time() + 60)[1][:ID_LENGTH] != handle[:ID_LENGTH]


def test_a_handle_is_short_and_forgives_what_looks_alike() -> None:
    made = [HANDLES.make(ANN, steady_time() + 60) for _ in range(200)]
    assert len({row for row, _ in made}) == len({handle[ID_LENGTH:] for _, handle in made}) == 200
    assert {len(handle) for _, handle in made} == {34}
    assert set("".join(handle for _, handle in made)) == set(LETTERS)
    for row, handle in made:
        for copied in (handle.upper(), handle.replace("0", "O"), handle.replace("1", "l"), handle.replace("1", "I")):
            assert HANDLES.open(copied, ANN) == row


@given(st.data())
def test_a_changed_handle_is_none(data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(HANDLE) - 1))
    letter = data.draw(st.sampled_from(f"{LETTERS}u-_~ é٣\udcffİ").filter(lambda letter: letter != HANDLE[place]))
    assert HANDLES.open(HANDLE, ANN) is not None
    assert HANDLES.open(HANDLE[:place] + letter + HANDLE[place + 1 :], ANN) is None
    assert HANDLES.open(HANDLE[:place], ANN) is None
    assert HANDLES.open(HANDLE + letter, ANN) is None


@given(st.text(max_size=60))
def test_no_other_text_is_a_handle(text: str) -> None:
    assert HANDLES.open(text, ANN) is None
