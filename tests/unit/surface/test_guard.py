"""Hosts and origins that cannot be read, and a token that two starts make at once."""

import threading
from pathlib import Path

import pytest

from wicket_mcp.config.model.config import HttpConfig
from wicket_mcp.surface.guard import Guard, Rejected
from wicket_mcp.surface.http import RequestHeaders
from wicket_mcp.surface.owner_token import load_token

AUTH = (b"authorization", b"Bearer secret-secret-secret")
HOST = (b"host", b"127.0.0.1:8377")


def _status(*headers: tuple[bytes, bytes]) -> int:
    verdict = Guard(HttpConfig(), "secret-secret-secret").admit(RequestHeaders(headers))
    return verdict.status if isinstance(verdict, Rejected) else 200


@pytest.mark.parametrize("host", [b"[", b"[::1", b"]", b"[v1.x", b"\xff"])
@pytest.mark.promise("V16", "A Host that cannot be read is a 4xx.")
def test_v16_b8_a_host_that_cannot_be_read_is_not_served(host: bytes) -> None:
    assert _status((b"host", host), AUTH) == 421


@pytest.mark.parametrize("origin", [b"http://[", b"http://[::1", b"https://]", b"file://localhost", b"localhost"])
@pytest.mark.promise("V16", "An Origin that cannot be read is a 4xx.")
def test_v16_b8_an_origin_that_cannot_be_read_is_rejected(origin: bytes) -> None:
    assert _status(HOST, AUTH, (b"origin", origin)) == 403


@pytest.mark.parametrize("origin", [b"http://localhost:3000", b"HTTP://[::1]:1", b"https://127.0.0.1"])
def test_pages_of_this_machine_may_call(origin: bytes) -> None:
    assert _status(HOST, AUTH, (b"origin", origin)) == 200


def test_without_a_token_only_our_own_pages_and_those_that_are_listed_may_call() -> None:
    """W22."""
    config = HttpConfig(allowed_origins=("http://localhost:5173",))
    guard = Guard(config, None)
    verdicts = {
        origin: guard.admit(RequestHeaders([HOST, (b"origin", origin)]))
        for origin in (
            b"http://127.0.0.1:8377",
            b"http://localhost:5173",
            b"http://localhost:3000",
            b"http://localhost:8377",
            b"http://127.0.0.1",
            b"http://127.0.0.1:8377/",
            b"null",
        )
    }
    assert [not isinstance(verdict, Rejected) for verdict in verdicts.values()] == [True, True, *[False] * 5]


def test_b19_starts_at_the_same_time_read_one_token(tmp_path: Path) -> None:
    """B19: touch-then-write showed others an empty file, or gave two starts a token each."""
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        together = threading.Barrier(8)
        tokens: list[str] = []

        def start(folder: Path = folder, together: threading.Barrier = together, tokens: list[str] = tokens) -> None:
            together.wait()
            tokens.append(load_token(folder)[0])

        threads = [threading.Thread(target=start) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(tokens) == 8, "a start found a token that was still being written"
        assert len(set(tokens)) == 1
        assert [file.name for file in folder.iterdir()] == ["token"]
        assert (folder / "token").stat().st_mode & 0o777 == 0o600


async def test_the_owner_is_known_by_host_and_token_and_by_nothing_less() -> None:
    """The guard remembers the owner's last headers: whatever differs from them is judged anew."""
    guard = Guard(HttpConfig(), "secret-secret-secret")

    async def status(*headers: tuple[bytes, bytes]) -> int:
        verdict = await guard.identify(RequestHeaders(headers))
        return verdict.status if isinstance(verdict, Rejected) else 200

    empty = (b"host", b""), (b"authorization", b"")
    assert await status(*empty) == 421
    for _ in range(2):
        assert await status(HOST, AUTH) == 200
        assert await status(HOST, (b"authorization", b"Bearer secret-secret-secreT")) == 401
        assert await status(HOST) == 401
        assert await status((b"host", b"elsewhere.example"), AUTH) == 421
        assert await status(HOST, AUTH, AUTH) == 401
        assert await status(HOST, AUTH, (b"origin", b"https://elsewhere.example")) == 403
        assert await status(*empty) == 421
