"""What clients carry for us can neither be read nor changed."""

import base64

from hypothesis import given
from hypothesis import strategies as st

from wicket_mcp.sealing import seal, unseal

KEY, OTHER = b"k" * 32, b"o" * 32


@given(st.binary(max_size=300), st.binary(max_size=40))
def test_what_was_sealed_opens_with_its_key_and_binding_only(data: bytes, binding: bytes) -> None:
    text = seal(KEY, data, binding)
    assert unseal([OTHER, KEY], text, binding) == data
    assert unseal([OTHER], text, binding) is None
    assert unseal([KEY], text, binding + b"x") is None


@given(st.data())
def test_every_changed_character_shows(data: st.DataObject) -> None:
    text = seal(KEY, b"a secret of some length", b"ann")
    place = data.draw(st.integers(0, len(text) - 1))
    letter = data.draw(st.sampled_from("Az09-_=.~ é").filter(lambda letter: letter != text[place]))
    assert unseal([KEY], text[:place] + letter + text[place + 1 :], b"ann") is None
    assert unseal([KEY], text[:place], b"ann") is None


def test_nothing_of_it_can_be_read_and_what_differs_looks_unlike() -> None:
    plain = b"what the upstream wants to remember"
    texts = [seal(KEY, plain + bytes([number]), b"ann") for number in range(20)]
    assert len({text[:8] for text in texts} | {text[30:38] for text in texts}) == 40
    for text in texts:
        assert plain[:8] not in base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
    assert seal(KEY, plain, b"ann") == seal(KEY, plain, b"ann"), "the id of a task is always the same"
