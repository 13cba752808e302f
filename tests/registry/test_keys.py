"""API keys: made once, kept as a digest, limited, revoked."""

from pathlib import Path

import pytest

from tests.registry.conftest import Clock, OpenFacade
from wicket_mcp.errors import BadArguments, ConfigError, Denied, RateLimited, UnknownName
from wicket_mcp.model import LOCAL, Principal


async def test_a_key_stands_for_its_owner_and_scopes(open_facade: OpenFacade) -> None:
    keys = (await open_facade()).keys
    text, kept = await keys.create("ann", ["discover", "invoke"])
    assert await keys.principal(text) == Principal("ann", frozenset({"discover", "invoke"}), holder=kept.holder)
    assert await keys.principal(text[:-1]) is None
    assert await keys.principal("wk_") is None
    assert await keys.principal("wk_" + "x" * 10_000) is None


async def test_the_key_itself_is_nowhere_in_the_state(open_facade: OpenFacade, tmp_path: Path) -> None:
    text, kept = await (await open_facade()).keys.create("ann", ["discover"])
    written = b"".join(file.read_bytes() for file in (tmp_path / "state").iterdir())
    assert b"ann" in written
    assert text.encode() not in written
    assert text not in repr(kept)


async def test_a_revoked_key_ends_at_once_for_another_process(open_facade: OpenFacade) -> None:
    running = (await open_facade()).keys
    text, _ = await running.create("ann", ["discover"])
    await (await open_facade()).keys.revoke("ann")
    assert await running.principal(text) is None
    with pytest.raises(UnknownName):
        await running.revoke("ann")
    again, _ = await running.create("ann", ["discover"])
    assert again != text


async def test_a_key_expires(open_facade: OpenFacade, clock: Clock) -> None:
    keys = (await open_facade()).keys
    text, _ = await keys.create("ann", ["discover"], lifetime=3600)
    clock.pass_hours(0.9)
    assert await keys.principal(text) is not None
    clock.pass_hours(0.2)
    assert await keys.principal(text) is None


@pytest.mark.parametrize(("name", "scopes"), [("local", ["discover"]), ("", ["discover"]), ("a b", ["discover"])])
async def test_a_name_that_cannot_be_a_key_is_refused(open_facade: OpenFacade, name: str, scopes: list[str]) -> None:
    with pytest.raises(BadArguments, match="cannot name a key"):
        await (await open_facade()).keys.create(name, scopes)


async def test_an_unknown_scope_or_limit_is_refused(open_facade: OpenFacade) -> None:
    keys = (await open_facade()).keys
    with pytest.raises(BadArguments, match="'root' is not a scope"):
        await keys.create("ann", ["root"])
    with pytest.raises(BadArguments, match="needs a scope"):
        await keys.create("ann", [])
    with pytest.raises(BadArguments, match="'coffee' is not a limit"):
        await keys.create("ann", ["discover"], rates={"coffee": 3})
    with pytest.raises(ConfigError, match="discovry"):
        await open_facade(registry={"rates": {"discovry": 3}})


async def test_a_scope_is_needed_and_admin_has_them_all(open_facade: OpenFacade) -> None:
    keys = (await open_facade()).keys
    with pytest.raises(Denied, match="--scope register"):
        await keys.admit(Principal("ann", frozenset({"discover"})), "register")
    await keys.admit(Principal("root", frozenset({"admin"})), "register")


async def test_a_limit_holds_across_a_restart_and_refills_with_time(open_facade: OpenFacade, clock: Clock) -> None:
    ann = Principal("ann", frozenset({"register"}))
    for _ in range(10):
        await (await open_facade()).keys.admit(ann, "register", "registration")
    with pytest.raises(RateLimited, match="10 registration requests an hour. Wait 360 seconds") as caught:
        await (await open_facade()).keys.admit(ann, "register", "registration")
    assert caught.value.retry_after == 360
    clock.now += 359
    with pytest.raises(RateLimited):
        await (await open_facade()).keys.admit(ann, "register", "registration")
    clock.now += 2
    await (await open_facade()).keys.admit(ann, "register", "registration")


@pytest.mark.parametrize(
    ("scope", "kind", "most"),
    [("discover", "discovery", 100), ("register", "registration", 10), ("discover", "health", 1000)],
)
async def test_without_configuration_the_limits_are_the_published_ones(
    open_facade: OpenFacade, scope: str, kind: str, most: int
) -> None:
    keys = (await open_facade()).keys
    ann = Principal("ann", frozenset({scope, "invoke"}))
    for _ in range(most):
        await keys.admit(ann, scope, kind)
        await keys.admit(ann, "invoke", "invocation")
    with pytest.raises(RateLimited, match=f"Rate limit exceeded: {most} {kind} requests an hour."):
        await keys.admit(ann, scope, kind)


async def test_limits_are_each_keys_own_and_the_owner_has_none(open_facade: OpenFacade) -> None:
    keys = (await open_facade(registry={"rates": {"discovery": 2}})).keys
    ann, bob = Principal("ann", frozenset({"discover"})), Principal("bob", frozenset({"discover"}), (("discovery", 4),))
    for _ in range(2):
        await keys.admit(ann, "discover", "discovery")
    with pytest.raises(RateLimited):
        await keys.admit(ann, "discover", "discovery")
    for _ in range(4):
        await keys.admit(bob, "discover", "discovery")
    with pytest.raises(RateLimited):
        await keys.admit(bob, "discover", "discovery")
    for _ in range(50):
        await keys.admit(LOCAL, "discover", "discovery")
        await keys.admit(ann, "discover", "invocation")


@pytest.mark.promise("F22", "A limit that was used while the clock was far ahead refills when the clock is right.")
@pytest.mark.promise("D19", "A limit that was used while the clock was far ahead refills when the clock is right.")
async def test_f22_d19_a_clock_that_was_far_ahead_stops_nobody(open_facade: OpenFacade, clock: Clock) -> None:
    keys = (await open_facade(registry={"rates": {"discovery": 1}})).keys
    ann = Principal("ann", frozenset({"discover"}))
    clock.now += 3650 * 86400
    await keys.admit(ann, "discover", "discovery")
    clock.now -= 3650 * 86400
    with pytest.raises(RateLimited) as limited:
        await keys.admit(ann, "discover", "discovery")
    assert limited.value.retry_after == 3600
    clock.now += 3601
    await keys.admit(ann, "discover", "discovery")


@pytest.mark.promise("F22", "A clock that is set back does not refill a limit.")
async def test_f22_a_clock_that_goes_back_gives_nothing_away(open_facade: OpenFacade, clock: Clock) -> None:
    keys = (await open_facade(registry={"rates": {"discovery": 1}})).keys
    ann = Principal("ann", frozenset({"discover"}))
    await keys.admit(ann, "discover", "discovery")
    for step in (-7200, 7200):
        clock.now += step
        with pytest.raises(RateLimited):
            await keys.admit(ann, "discover", "discovery")
