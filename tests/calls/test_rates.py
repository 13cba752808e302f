"""A minute's calls at once, then one for each share of a minute."""

import pytest

from wicket_mcp.calls.limits import ServerBuckets
from wicket_mcp.config.model.config import ServerConfig
from wicket_mcp.errors import RateLimited


def test_a_bucket_empties_and_fills_again() -> None:
    now = [0.0]
    rates = ServerBuckets(lambda: now[0])
    server = ServerConfig(name="s", command="x", calls_per_minute=2)
    other = ServerConfig(name="o", command="x", calls_per_minute=1)
    rates.admit(server)
    rates.admit(server)
    with pytest.raises(RateLimited, match="takes 2 calls a minute") as caught:
        rates.admit(server)
    assert caught.value.retry_after == 30
    rates.admit(other)
    now[0] = 30.0
    rates.admit(server)
    with pytest.raises(RateLimited):
        rates.admit(server)
    now[0] = 3600.0
    rates.admit(server)
    rates.admit(server)
    with pytest.raises(RateLimited):
        rates.admit(server)


def test_no_limit_is_none() -> None:
    rates = ServerBuckets(lambda: 0.0)
    for _ in range(1000):
        rates.admit(ServerConfig(name="s", command="x"))
