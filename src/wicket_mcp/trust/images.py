"""The digest of a container image, which identifies its content: `image@sha256:…` always means the same image.

A local image comes first, because that is what would run. Otherwise its registry is asked, and the manifest is hashed
here, because the registry's own digest is not trusted. Used by `wicket pin`; once pinned, the container engine itself
checks every byte against the digest.
"""

import hashlib
import re
import shutil
import subprocess
from collections.abc import Mapping
from http.client import HTTPException
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import msgspec

from wicket_mcp.codec import decode
from wicket_mcp.errors import ConfigError
from wicket_mcp.model import as_list, as_object, as_text

MAX_MANIFEST = 4 * 1024**2
_LONGEST_CHALLENGE = 4096
_HUB, _HUB_REGISTRY = "docker.io", "registry-1.docker.io"
_KINDS = (
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
)
_PARAMETER = re.compile(r'\b(\w++)="([^"]*)"')
_LOCAL = re.compile(r"^(?:localhost|127(?:\.\d+){3}|\[::1\])(?::\d+)?$")


class Image(msgspec.Struct, frozen=True):
    """The parts of an image's name."""

    registry: str
    repository: str
    tag: str

    @classmethod
    def parse(cls, spec: str) -> "Image":
        name = spec.partition("@")[0]
        host, slash, path = name.partition("/")
        if not slash or not ("." in host or ":" in host or host == "localhost"):
            host, path = _HUB, name
        repository, _, tag = path.partition(":")
        if host == _HUB and "/" not in repository:
            repository = f"library/{repository}"
        return cls(host, repository, tag or "latest")

    @property
    def manifest(self) -> str:
        """The address of its manifest. A registry on this machine needs no TLS, as with container engines."""
        registry = _HUB_REGISTRY if self.registry == _HUB else self.registry
        return f"{self.scheme}://{registry}/v2/{self.repository}/manifests/{self.tag}"

    @property
    def scheme(self) -> str:
        return "http" if _LOCAL.match(self.registry) else "https"


def digest_of(engine: str, spec: str, patience: float) -> str:
    """`sha256:…` of the image that the engine (docker, podman) would run now. Raises ConfigError."""
    return _find_local(engine, spec, patience) or _ask_registry(engine, Image.parse(spec), patience)


def _find_local(engine: str, spec: str, patience: float) -> str:
    """The digest of an image that the engine already has; empty if it has none or cannot be asked."""
    program = shutil.which(engine)
    if program is None:
        return ""
    command = [program, "image", "inspect", "--format", "{{json .RepoDigests}}", spec.partition("@")[0]]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=patience, check=True, cwd="/")
        digests = [as_text(name) for name in as_list(decode(done.stdout))]
    except (OSError, ValueError, subprocess.SubprocessError):
        return ""
    image = Image.parse(spec)
    own = [name for name in digests if Image.parse(name).repository == image.repository]
    return own[0].partition("@")[2] if own else ""


def _ask_registry(engine: str, image: Image, patience: float) -> str:
    headers = {"Accept": ", ".join(_KINDS), "User-Agent": "wicket"}
    try:
        try:
            body, response_headers = _get(image.manifest, headers, patience)
        except HTTPError as refusal:
            if refusal.code != 401:
                raise
            headers["Authorization"] = _token(
                image, refusal.headers.get("WWW-Authenticate", "")[:_LONGEST_CHALLENGE], patience
            )
            body, response_headers = _get(image.manifest, headers, patience)
    except (OSError, HTTPException, ValueError) as problem:
        raise ConfigError(
            f"the digest of {image.repository}:{image.tag} could not be fetched from {image.registry}: {problem}",
            hint=f"Pull it, and its digest is taken from there: {engine} pull {image.registry}/{image.repository}",
        ) from None
    digest = f"sha256:{hashlib.sha256(body).hexdigest()}"
    if response_headers.get("docker-content-digest", digest) != digest:
        raise ConfigError(f"{image.registry} sends another manifest than the one that it names.", hint="Try again.")
    return digest


def _token(image: Image, challenge: str, patience: float) -> str:
    """An anonymous token for reading a public image. Raises ValueError."""
    parameters = dict(_PARAMETER.findall(challenge))
    realm = parameters.pop("realm", "")
    if not challenge.startswith("Bearer ") or not realm.startswith(f"{image.scheme}://"):
        raise ValueError("it is not public")
    body, _ = _get(f"{realm}?{urlencode(parameters)}", {"User-Agent": "wicket"}, patience)
    answer = as_object(decode(body))
    return f"Bearer {as_text(answer.get('token')) or as_text(answer.get('access_token'))}"


def _get(address: str, headers: Mapping[str, str], patience: float) -> tuple[bytes, dict[str, str]]:
    request = Request(address, headers=dict(headers))  # noqa: S310  (http and https alone, by `scheme`)
    response: Any
    with urlopen(request, timeout=patience) as response:  # noqa: S310
        body = response.read(MAX_MANIFEST + 1)
        if len(body) > MAX_MANIFEST:
            raise ValueError("it sends a manifest that is too large")
        return body, {name.lower(): value for name, value in response.headers.items()}
