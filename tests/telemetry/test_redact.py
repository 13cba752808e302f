"""Secrets and control characters stay out of what people read."""

import logging

import pytest

from wicket_mcp.telemetry.log import configure_logging
from wicket_mcp.telemetry.redact import MASK, Redactor, is_secret_name, mask_arguments, mask_url

KEY = "-----BEGIN KEY-----\nMIIEvQIBADANBg\r\nkqhkiG9w0BAQE\n-----END KEY-----"


@pytest.mark.promise("V7", "A text is masked before it is shortened.")
def test_v7_a_text_is_masked_whole_and_cut_afterwards() -> None:
    redact = Redactor(["hunter2hunter2"])
    assert redact("it is hunter2hunter2, remember", 12) == f"it is {MASK}, …"
    assert "hunt" not in redact("it is hunter2hunter2, remember", 12)


def test_a_secret_broken_up_by_terminal_escapes_is_masked() -> None:
    assert Redactor(["hunter2hunter2"])("hunter2\x1b[31mhunter2\x00") == MASK


@pytest.mark.parametrize("shown", [KEY, "MIIEvQIBADANBg", "said kqhkiG9w0BAQE twice"])
@pytest.mark.promise("V7", "Each line of a key is masked.")
def test_v7_each_line_of_a_key_is_a_secret(shown: str) -> None:
    masked = Redactor([KEY])(shown)
    assert MASK in masked
    assert "MIIE" not in masked
    assert "kqhk" not in masked


@pytest.mark.parametrize("name", ["STARS_KEY", "accessToken", "--api-key", "Authorization", "PGPASSWORD", "APIKEY"])
def test_names_that_announce_a_secret(name: str) -> None:
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["PATH", "AUTHOR", "MONKEY", "keyboard", "HOME", "--pattern", "COMPASS"])
def test_names_that_announce_none(name: str) -> None:
    assert not is_secret_name(name)


def test_arguments_lose_what_a_flag_announces() -> None:
    given = [
        "--api-key",
        "abc",
        "--token=abc",
        "--region",
        "abc",
        "https://u:p@h/x?key=1",
        "--db=pg://u:p@h/x",
        "a" * 24,
    ]
    assert mask_arguments(given) == [
        *("--api-key", MASK, f"--token={MASK}", "--region", "abc", "https://h/x", "--db=pg://h/x", MASK)
    ]


def test_an_address_that_cannot_be_read_is_not_shown() -> None:
    assert mask_url("http://[secret") == "its address"


@pytest.mark.promise("T29", "A log line is one line, without control characters.")
@pytest.mark.promise("V9", "Text of a server cannot begin a line of the log.")
def test_t29_v9_a_log_line_is_cleaned_when_it_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("wicket_mcp")
    before = (log.handlers[:], log.level, log.propagate)
    try:
        configure_logging("info")
        room = logging.getLogger("wicket_mcp.some.room")
        room.info("a server said %s", "\x1b[2Jhello\u202e\x07")
        room.info("a server said %s", "no\n15:00:00 INFO all is well\r15:00:00\u202815:00:00")
        try:
            raise ValueError("no\n15:00:00 INFO all is well")
        except ValueError:
            room.exception("a defect")
    finally:
        log.handlers[:], log.level, log.propagate = before
    first, second, *others = [
        line for line in capsys.readouterr().err.splitlines() if "15:00:00" in line or "room" in line
    ]
    assert first.endswith("wicket_mcp.some.room: a server said hello")
    assert second.endswith(r"a server said no\n15:00:00 INFO all is well\n15:00:00\n15:00:00")
    assert others[-1] == "  15:00:00 INFO all is well", "indented, as all lines of a traceback"
