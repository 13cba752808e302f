"""Notifications of unknown extensions that belong to no call: who may be told.

A server that several principals use may speak about any of them, so then nobody is told. `unattributed.py` makes the
events, `app.py` passes them to clients that declare an extension of the server, `replicas.py` to other gateways. Pure.
"""

from collections.abc import Collection

from wicket_mcp.model import META_SUBSCRIPTION, JsonObject, as_object, as_text

AUDIENCE = "wicket/audience"
"""In the `_meta` of a notification between two gateways: the only principal that may be told."""
HEARD_AT = "wicket/heardAt"
"""In the same place: when the gateway that runs the server heard it, by the clock that its listings have."""


def read_announcement(
    params: JsonObject, served: Collection[str], *, from_gateway: bool
) -> tuple[str | None, JsonObject]:
    """Who may be told (empty for all that see the server, None for nobody), and the server's own parameters.

    `served` are the principals that have used the connection. A gateway that runs the server for us knows all of them.
    """
    meta = as_object(params.get("_meta"))
    gateway_keys = (META_SUBSCRIPTION, AUDIENCE) if from_gateway else (META_SUBSCRIPTION,)
    passed = {name: value for name, value in params.items() if name != "_meta"}
    if own := {name: value for name, value in meta.items() if name not in gateway_keys}:
        passed["_meta"] = own
    if from_gateway:
        return (as_text(meta[AUDIENCE]) if AUDIENCE in meta else None), passed
    return (next(iter(served), "") if len(served) <= 1 else None), passed


def address_to(audience: str, params: JsonObject) -> JsonObject:
    """The parameters of an announcement for another gateway."""
    return {**params, "_meta": {**as_object(params.get("_meta")), AUDIENCE: audience}}


def with_time(params: JsonObject, at: float) -> JsonObject:
    """The parameters of a notification for another gateway, with the time when we heard it."""
    return {**params, "_meta": {**as_object(params.get("_meta")), HEARD_AT: at}}


def heard_at(params: JsonObject) -> float:
    """When the gateway that runs a server has heard a notification; 0 if it does not say so."""
    at = as_object(params.get("_meta")).get(HEARD_AT)
    return at if isinstance(at, float) else 0.0


def is_addressed(params: JsonObject) -> bool:
    """Whether another gateway says who may be told."""
    return AUDIENCE in as_object(params.get("_meta"))
