"""What is remembered of texts is bounded in bytes, whatever the texts are."""

import gc
import tracemalloc

import pytest

from wicket_mcp.schema.signature import first_sentence
from wicket_mcp.search.features import Features


def _kept_of(rounds: int) -> int:
    """Bytes that are kept of texts that nobody needs any more."""
    gc.collect()
    before, _ = tracemalloc.get_traced_memory()
    for number in range(rounds):
        first_sentence(f"Number {number} " + "word " * 200_000)
        Features().add([f"{number}{'x' * 20_000}", f"{'y' * 20_000}{number}"])
    gc.collect()
    return tracemalloc.get_traced_memory()[0] - before


@pytest.mark.promise("V12", "Only the beginning of a very long text is kept, and nothing of an endless word.")
def test_v12_long_texts_are_not_remembered() -> None:
    tracemalloc.start()
    try:
        assert _kept_of(30) < 30 * 16 * 1024
    finally:
        tracemalloc.stop()
