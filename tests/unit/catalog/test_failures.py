"""When a server that fails again is worth another line in the log."""

from wicket_mcp.catalog.failures import is_news

FIRST = "Server 'x' exited with code 3 before it answered. Run its command by hand to see why.\n  x: no key"
BROKEN = "Server 'x' failed 3 times in a row: Server 'x' exited with code 3 before it answered. It said: no key"


def test_the_same_reason_in_other_words_is_no_news() -> None:
    assert is_news(None, FIRST)
    assert not is_news(FIRST, BROKEN)
    assert not is_news(BROKEN, FIRST)
    assert is_news(FIRST, "Server 'x' cannot start: command 'x' was not found. Install it.")
