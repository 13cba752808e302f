"""The options of search. docs/search.md explains them."""

from typing import Annotated

from msgspec import Meta, Struct


class SearchConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Finding tools."""

    model: Annotated[
        str | None,
        Meta(description="Folder or downloaded name of a sentence-transformers model in ONNX form, to rank with."),
    ] = None
    learn: Annotated[
        bool,
        Meta(description="Remember which tools each caller used after which searches, and rank them higher."),
    ] = True
