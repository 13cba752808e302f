"""Which authorization server protects a server, and what it supports: candidate addresses and checked documents.

Sans I/O: `client.py` fetches the candidates in order and passes the documents to `read_resource` and `read_issuer`,
which reject what cannot be trusted.
"""

from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from wicket_mcp.errors import SignInFailed
from wicket_mcp.model import JsonObject, as_list, as_text

_RESOURCE = "/.well-known/oauth-protected-resource"
_ISSUER = "/.well-known/oauth-authorization-server"
_OPENID = "/.well-known/openid-configuration"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Resource:
    """A server's protected-resource metadata."""

    resource: str
    """Exactly as published: tokens are requested for it."""
    issuer: str
    scopes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Issuer:
    """The metadata of an authorization server."""

    issuer: str
    token_endpoint: str
    authorization_endpoint: str = ""
    registration_endpoint: str = ""
    scopes: tuple[str, ...] = ()
    auth_methods: tuple[str, ...] = ()
    challenge_methods: tuple[str, ...] = ()
    names_itself: bool = False
    """Whether every redirect carries `iss`."""
    takes_documents: bool = False
    """Whether a client may be identified by the address of a document that describes it."""
    dpop_algorithms: tuple[str, ...] = ()


def resource_candidates(url: str, announced: str = "") -> list[str]:
    """Where the protected-resource metadata of the server at `url` may be, best first."""
    split = urlsplit(url)
    path = split.path.rstrip("/")
    places = [announced] if announced else []
    places += [_at(url, f"{_RESOURCE}{path}")] if path else []
    return list(dict.fromkeys([*places, _at(url, _RESOURCE)]))


def issuer_candidates(issuer: str) -> list[str]:
    """Where the metadata of an authorization server may be, best first."""
    path = urlsplit(issuer).path.rstrip("/")
    places = [f"{_ISSUER}{path}", f"{_OPENID}{path}"]
    if path:
        places.append(f"{path}{_OPENID}")
    return [_at(issuer, place) for place in places]


def origin_of(url: str) -> str:
    """Scheme and host of an address, in the form of an issuer name."""
    return _at(url, "")


def read_resource(server: str, url: str, document: JsonObject, issuer_name: str = "") -> Resource:
    """The protected-resource metadata; `wanted` is the issuer that the configuration names. Raises SignInFailed."""
    resource = as_text(document.get("resource"))
    if not _covers(resource, url):
        raise SignInFailed(
            server,
            f"The sign-in metadata of server '{server}' is about another address than the server's own.",
            hint="Check its url; if it is right, the server is set up wrongly, or somebody intercepts the connection.",
        )
    issuers = [as_text(issuer) for issuer in as_list(document.get("authorization_servers")) if as_text(issuer)]
    if issuer_name and issuer_name not in issuers:
        raise SignInFailed(
            server,
            f"Server '{server}' does not name the issuer that is configured for it.",
            hint=f"It names: {', '.join(issuers) or 'none'}. Set auth.issuer to one of them.",
        )
    if not issuers:
        raise SignInFailed(server, f"Server '{server}' names no authorization server.", hint="Ask its operator.")
    return Resource(resource, issuer_name or issuers[0], _texts(document.get("scopes_supported")))


def read_issuer(server: str, issuer: str, document: JsonObject, *, encrypted: bool) -> Issuer:
    """The authorization server's metadata; `encrypted` requires https for its endpoints. Raises SignInFailed."""
    if as_text(document.get("issuer")) != issuer:
        raise SignInFailed(
            server,
            f"The authorization server of '{server}' says that it is another one than was asked for.",
            hint="Nothing was sent to it. Tell the server's operator: the issuer must be exactly the same.",
        )
    metadata = Issuer(
        issuer,
        as_text(document.get("token_endpoint")),
        as_text(document.get("authorization_endpoint")),
        as_text(document.get("registration_endpoint")),
        _texts(document.get("scopes_supported")),
        _texts(document.get("token_endpoint_auth_methods_supported")),
        _texts(document.get("code_challenge_methods_supported")),
        document.get("authorization_response_iss_parameter_supported") is True,
        document.get("client_id_metadata_document_supported") is True,
        _texts(document.get("dpop_signing_alg_values_supported")),
    )
    for endpoint in (metadata.token_endpoint, metadata.authorization_endpoint, metadata.registration_endpoint):
        if endpoint and not is_safe(endpoint, encrypted=encrypted):
            raise SignInFailed(
                server,
                f"The authorization server of '{server}' names an address that is not https.",
                hint="Nothing was sent to it. Tell the server's operator.",
            )
    if not metadata.token_endpoint:
        raise SignInFailed(server, f"The authorization server of '{server}' names no token endpoint.")
    return metadata


def check_code_flow(server: str, issuer: Issuer) -> None:
    """Check that a person can sign in safely. Raises SignInFailed."""
    if not issuer.authorization_endpoint:
        raise SignInFailed(server, f"The authorization server of '{server}' has no page to sign in at.")
    if "S256" not in issuer.challenge_methods:
        raise SignInFailed(
            server,
            f"The authorization server of '{server}' does not offer PKCE with S256, so a stolen code could be used.",
            hint="Tell its operator, or put a token into the server's headers.",
        )


def is_safe(url: str, *, encrypted: bool) -> bool:
    """Whether secrets may be sent to `url`, or a browser opened at it."""
    try:
        split = urlsplit(url)
        host = split.hostname or ""
    except ValueError:
        return False
    if not host or split.fragment or not url.isascii() or not url.isprintable() or set(url) & set(" \"'<>`\\"):
        return False
    return split.scheme == "https" or (split.scheme == "http" and (not encrypted or host in _LOOPBACK))


def choose_scopes(
    challenged: str, resource: Resource, issuer: Issuer, configured: tuple[str, ...], earlier: str
) -> str:
    """The scopes to request: the configured ones, else those of the challenge, else those of the resource; plus those
    requested before.

    `offline_access`, which brings a refresh token, only if the authorization server lists it.
    """
    scopes = list(configured or challenged.split() or resource.scopes)
    scopes = [*earlier.split(), *scopes]
    if "offline_access" in issuer.scopes:
        scopes.append("offline_access")
    return " ".join(dict.fromkeys(scopes))


def _covers(resource: str, url: str) -> bool:
    """Whether `resource` is the server's address or a parent of it."""
    try:
        outer, inner = urlsplit(resource), urlsplit(url)
        same = (outer.scheme, outer.hostname, outer.port) == (inner.scheme, inner.hostname, inner.port)
    except ValueError:
        return False
    return same and f"{inner.path.rstrip('/')}/".startswith(f"{outer.path.rstrip('/')}/") and not outer.fragment


def _at(url: str, path: str) -> str:
    split = urlsplit(url)
    return urlunsplit((split.scheme, split.netloc, path, "", ""))


def _texts(value: object) -> tuple[str, ...]:
    return tuple(item for item in as_list(value) if isinstance(item, str))
