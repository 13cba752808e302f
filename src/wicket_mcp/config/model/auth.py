"""How Wicket signs in: the options of one server's `auth` section, and those of the whole gateway's `oauth` section.

Values that may hold a secret stay as the file has them until `secrets.resolve` expands them.
"""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct

from wicket_mcp.config.model.validation import InvalidOption

Kind: TypeAlias = Literal["auto", "oauth", "client_credentials", "token_exchange", "id_jag", "workload"]

SECRETS = ("client_secret", "private_key", "subject_token", "idp_client_secret")
"""Options of `AuthConfig` in which references to secrets are filled in."""

_NEEDS = {
    "client_credentials": ("client_id",),
    "token_exchange": ("client_id", "subject_token"),
    "id_jag": ("client_id", "subject_token", "idp"),
    "workload": ("subject_token",),
}


class AuthConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How Wicket signs in to a remote server. Without it, a person signs in if the server asks for OAuth."""

    kind: Annotated[
        Kind,
        Meta(
            description="`oauth`: a person signs in (`wicket login`); `auto`: the same, if the server asks for it. For "
            "machines: `client_credentials`, `token_exchange` (RFC 8693), `id_jag` (through a company's identity "
            "provider) and `workload` (a JWT of the platform, RFC 7523)."
        ),
    ] = "auto"
    client_id: Annotated[
        str, Meta(description="The client that was registered by hand. Without it, Wicket registers itself.")
    ] = ""
    client_secret: Annotated[str, Meta(description="Its secret, as `${env:NAME}` or `${file:path}`.")] = ""
    private_key: Annotated[
        str, Meta(description="PEM of the key that signs for the client (`private_key_jwt`), as `${file:path}`.")
    ] = ""
    algorithm: Annotated[str, Meta(description="How `private_key` signs.")] = "ES256"
    issuer: Annotated[str, Meta(description="The authorization server to use; needed if the server names several.")] = (
        ""
    )
    scopes: Annotated[
        tuple[str, ...], Meta(description="Scopes to ask for. When empty, those that the server names.")
    ] = ()
    subject_token: Annotated[
        str,
        Meta(
            description="The token that is exchanged: for `token_exchange` an access token, for `id_jag` an ID token, "
            "for `workload` the platform's JWT; as `${file:path}`, which is read again each time."
        ),
    ] = ""
    idp: Annotated[str, Meta(description="The identity provider's token endpoint (`id_jag`).")] = ""
    idp_client_id: Annotated[str, Meta(description="Who Wicket is to the identity provider (`id_jag`).")] = ""
    idp_client_secret: Annotated[str, Meta(description="Its secret there.")] = ""

    def __repr__(self) -> str:
        return f"<AuthConfig {self.kind}>"

    def __rich_repr__(self) -> Any:
        # msgspec's own repr would print every field, including secrets.
        yield self.kind


class OauthConfig(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Signing in to remote servers."""

    browser: Annotated[
        str,
        Meta(
            description="Command that opens the address to sign in at, or the dashboard. `$BROWSER`, or the system's, "
            "when empty."
        ),
    ] = ""
    client_metadata_url: Annotated[
        str,
        Meta(description="Address of a document that describes Wicket to authorization servers (its `client_id`)."),
    ] = ""


def check(auth: AuthConfig) -> None:
    """Check dependencies between options. Raises InvalidOption."""
    for option in _NEEDS.get(auth.kind, ()):
        if not getattr(auth, option):
            raise InvalidOption(("auth", option), f"is needed for kind = '{auth.kind}'.", "Add it.")
    if auth.kind == "client_credentials" and not (auth.client_secret or auth.private_key):
        raise InvalidOption(
            ("auth", "client_secret"), "or 'private_key' is needed for kind = 'client_credentials'.", "Add one of them."
        )
