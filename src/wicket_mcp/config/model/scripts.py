"""The options of the `[scripts]` table: how strictly scripts are jailed, and what one of them may cost.

Declared once, with help, so that the file schema and the reference are generated from this struct. Fixed limits are in
`scripts/limits.py`.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

KIB = 1024
MIB = 1024 * KIB
_DURATION = {"unit": "duration"}
_SIZE = {"unit": "size"}


class Limits(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`[scripts]`: how strictly scripts are jailed, and what one of them may cost."""

    jail: Annotated[
        Literal["auto", "strict"],
        Meta(
            description="`auto` uses every protection the system has and says which are missing; "
            "`strict` refuses to run scripts unless all of them are there."
        ),
    ] = "auto"
    cpu: Annotated[float, Meta(gt=0, extra=_DURATION, description="Processor time that one script may use.")] = 2.0
    wall: Annotated[
        float,
        Meta(gt=0, extra=_DURATION, description="Longest a script may take, waiting for tools included."),
    ] = 60.0
    memory: Annotated[int, Meta(ge=4 * MIB, extra=_SIZE, description="Memory for a script's own values.")] = 64 * MIB
    calls: Annotated[int, Meta(ge=1, description="Tool calls that one script may make.")] = 200

    in_flight: int = 32
    """Concurrent tool calls of one script; further ones wait. Not an option, like those below."""
    source: int = 64 * KIB
    """Longest script to accept, in bytes."""
    printed: int = 16 * KIB
    """Printed text to keep, in bytes; the rest is cut."""
