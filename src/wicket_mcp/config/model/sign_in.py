"""The options of signing in at our own addresses: which access tokens are accepted, and our own authorization server.

Part of `[http]`. `identity/settings.py` checks combinations of options.
"""

from typing import Annotated, Literal, TypeAlias

from msgspec import Meta, Struct, field

Algorithm: TypeAlias = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"
]
"""Signatures with a public key. `none` and the symmetric ones cannot even be configured."""
ScopeName: TypeAlias = Literal["discover", "invoke", "register", "admin"]


class IssuerConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An identity provider whose access tokens are accepted; repeat the section for several."""

    issuer: Annotated[str, Meta(description="Its address, exactly as in the `iss` of its tokens.")] = ""
    jwks: Annotated[
        str | None, Meta(description="Where its keys are. Found through its own metadata when not set.")
    ] = None
    audience: Annotated[
        tuple[str, ...],
        Meta(description="Values of `aud` to accept, for providers that cannot name Wicket's address in it."),
    ] = ()
    algorithms: Annotated[tuple[Algorithm, ...], Meta(description="Signature algorithms to accept.")] = (
        "RS256",
        "PS256",
        "ES256",
        "EdDSA",
    )
    scopes: Annotated[
        dict[str, tuple[ScopeName, ...]],
        Meta(
            description="What a scope, role or group of the token allows here: "
            '`{ mcp-users = ["discover", "invoke"] }`; `*` means everyone.'
            " Without it, the token's own `discover`, `invoke` and `register` count."
        ),
    ] = field(default_factory=dict[str, tuple[ScopeName, ...]])
    groups: Annotated[
        str,
        Meta(description="The claim that lists a person's groups; dots for nested claims (`realm_access.roles`)."),
    ] = "groups"
    introspection: Annotated[
        str | None, Meta(description="Where to ask about tokens that are not JWTs (RFC 7662).")
    ] = None
    token_prefix: Annotated[
        str,
        Meta(
            description="How its tokens that are not JWTs begin; needed where several issuers have `introspection`:"
            " each is asked about its own tokens only."
        ),
    ] = ""
    client_id: Annotated[
        str,
        Meta(
            description="Wicket's client id at this issuer: to ask about tokens, and to let people sign in with it to"
            " the dashboard and on the page of Wicket's own authorization server."
        ),
    ] = ""
    client_secret: Annotated[str, Meta(description="The secret for that, such as `${ISSUER_SECRET}`.")] = ""

    def __repr__(self) -> str:
        return f"<IssuerConfig {self.issuer}>"


class AuthorizationConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An authorization server of Wicket's own, for people without an identity provider."""

    enabled: Annotated[
        bool, Meta(description="Let clients sign in with OAuth, approved with Wicket's token or an API key.")
    ] = False
