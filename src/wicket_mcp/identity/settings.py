"""Checks the sign-in options of `[http]`, at every start and reload that configures any of them."""

from urllib.parse import urlsplit

from wicket_mcp.config.model.config import Config
from wicket_mcp.config.model.sign_in import IssuerConfig
from wicket_mcp.config.read.secrets import expand
from wicket_mcp.errors import ConfigError


def check(config: Config) -> None:
    """Raises ConfigError if the options cannot be used, or a secret that they name is missing."""
    http = config.http
    if http.public_url is not None:
        _check_address(http.public_url, "http.public_url")
        if urlsplit(http.public_url).path.rstrip("/").endswith("/mcp"):
            raise ConfigError("is the address without /mcp", key="http.public_url", hint="Leave /mcp out.")
    elif not _is_local(http.host) and any(not issuer.audience for issuer in http.issuers):
        raise ConfigError(
            f"is needed to accept tokens of http.issuers on {http.host}: they must be issued for this address",
            key="http.public_url",
            hint="Give the https address that clients use, or an audience for each issuer.",
        )
    known: set[str] = set()
    prefixes: dict[str, str] = {}
    for number, issuer in enumerate(http.issuers):
        key = f"http.issuers[{number}]"
        _check_issuer(issuer, key)
        if issuer.issuer in known:
            raise ConfigError(f"'{issuer.issuer}' is there twice", key=f"{key}.issuer", hint="Leave one out.")
        known.add(issuer.issuer)
        if (
            issuer.introspection is not None
            and prefixes.setdefault(issuer.token_prefix, issuer.issuer) != issuer.issuer
        ):
            raise ConfigError(
                f"must differ from that of '{prefixes[issuer.token_prefix]}': no issuer may see another's tokens",
                key=f"{key}.token_prefix",
                hint="Say how the tokens of each begin that are not JWTs.",
            )
        expand(issuer.client_secret, f"{key}.client_secret", config.base_dir)


def _check_issuer(issuer: IssuerConfig, key: str) -> None:
    if not issuer.issuer:
        raise ConfigError(
            "is missing", key=f"{key}.issuer", hint="Give the address that stands in the `iss` of its tokens."
        )
    for name in ("issuer", "jwks", "introspection"):
        if (address := getattr(issuer, name)) is not None:
            _check_address(address, f"{key}.{name}")
    if not issuer.algorithms:
        raise ConfigError("is empty, so no token could be accepted", key=f"{key}.algorithms", hint="Leave it out.")


def _check_address(address: str, key: str) -> None:
    try:
        split = urlsplit(address)
        host = split.hostname or ""
    except ValueError:
        host, split = "", None
    if split is None or not host or split.scheme not in ("http", "https") or split.query or split.fragment:
        raise ConfigError("is not a web address", key=key, hint="For example https://login.example.")
    if split.scheme == "http" and not _is_local(host):
        raise ConfigError(
            "is not encrypted: anybody who listens on the network could sign in", key=key, hint="Use https."
        )


def _is_local(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
