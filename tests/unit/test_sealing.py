"""What clients carry for us can neither be read nor changed, and names the key it was sealed with."""

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.sealing import ID_LENGTH, Ring

OLD, NEW, OTHER = b"k" * 32, b"n" * 32, b"o" * 32
RING = Ring([OLD])


@given(st.binary(max_size=300), st.binary(max_size=40))
def test_what_was_sealed_opens_with_its_key_purpose_and_binding_only(data: bytes, binding: bytes) -> None:
    text = RING.seal("tasks", data, binding)
    assert RING.unseal("tasks", text, binding) == data
    assert RING.unseal("results", text, binding) is None
    assert RING.unseal("tasks", text, binding + b"x") is None
    assert Ring([OTHER]).unseal("tasks", text, binding) is None
    renamed = Ring([OTHER]).seal("tasks", data, binding)[:ID_LENGTH] + text[ID_LENGTH:]
    assert Ring([OLD, OTHER]).unseal("tasks", renamed, binding) is None, "only the key that it names is tried"


@given(st.data())
def test_every_changed_character_shows(data: st.DataObject) -> None:
    text = RING.seal("tasks", b"a secret of some length", b"ann")
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from("Az09-_=.~ \u00e9\udcff").filter(lambda letter: letter != text[place]))
    assert RING.unseal("tasks", text[:place] + letter + text[place + 1 :], b"ann") is None
    assert RING.unseal("tasks", text[:place], b"ann") is None


def test_nothing_of_it_can_be_read_and_what_differs_looks_unlike() -> None:
    plain = b"what the upstream wants to remember"
    texts = [RING.seal("tasks", plain + bytes([number]), b"ann")[ID_LENGTH:] for number in range(20)]
    assert len({text[:8] for text in texts} | {text[30:38] for text in texts}) == 40
    for text in texts:
        assert plain[:8] not in base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert RING.seal("tasks", plain, b"ann") == RING.seal("tasks", plain, b"ann"), "the id of a task is always the same"


def test_keys_are_changed_while_values_of_both_exist() -> None:
    before = RING.close("session", "ann", 60)
    for ring in (Ring([OLD, NEW]), Ring([NEW, OLD])):
        assert ring.open("session", before) == "ann"
    after = Ring([NEW, OLD]).close("session", "ann", 60)
    assert after[:ID_LENGTH] != before[:ID_LENGTH]
    assert Ring([OLD, NEW]).open("session", after) == "ann", "a replica that was not yet restarted knows the new key"
    assert Ring([NEW]).open("session", before) is None
    ring = Ring([OLD])
    assert ring.open("session", after) is None
    ring.use([NEW, OLD])
    assert ring.open("session", after) == ring.open("session", before) == "ann"


def test_two_keys_with_the_same_id_are_both_tried() -> None:
    named: dict[str, bytes] = {}
    for number in range(10_000):
        key = number.to_bytes(32, "big")
        name = Ring([key]).seal("tasks", b"", b"")[:ID_LENGTH]
        if name in named:
            for ring in (Ring([key, named[name]]), Ring([named[name], key])):
                for sealing in (key, named[name]):
                    assert ring.unseal("tasks", Ring([sealing]).seal("tasks", b"data", b""), b"") == b"data"
            return
        named[name] = key
    pytest.fail("ids are longer than expected")


def test_a_record_expires_and_keys_are_read_when_they_are_needed() -> None:
    read: list[str] = []

    def keys() -> list[bytes]:
        read.append("read")
        return [OLD]

    now = 1000.0
    ring = Ring(keys, lambda: now)
    assert not read
    record = ring.close("session", {"a": 1}, 60, "ann")
    assert ring.open("session", record, "ann") == {"a": 1}
    assert ring.open("session", record, "bob") is None
    now += 61
    assert ring.open("session", record, "ann") is None
    assert read == ["read"]
