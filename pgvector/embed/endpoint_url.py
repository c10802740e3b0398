"""Where embeddings are posted to: the two protocols' paths below a base URL. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ..domain.errors import ConfigurationError

Api = Literal["ollama", "openai"]

_KNOWN_SUFFIX = re.compile(r"(/api/embed(dings)?|/api|/v\d+/embeddings|/v\d+)$")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to post, and in which protocol. `url` holds no user or password; `label` no query either."""

    api: Api
    url: str

    @property
    def label(self) -> str:
        """How messages and logs name it."""
        return re.split(r"[?#]", self.url, maxsplit=1)[0]


def parse_url(url: str, setting: str = "embed_url") -> SplitResult:
    """Split the http(s) URL of a setting. Raises ConfigurationError that names both, without the URL's secrets."""
    try:
        parts = urlsplit(url.strip())
        usable = parts.scheme in ("http", "https") and bool(parts.hostname)
        _ = parts.port  # raises ValueError
    except ValueError:
        usable = False
    if not usable:
        raise ConfigurationError(
            f"{setting} {redacted(url)!r} is not an http:// or https:// URL with a host; "
            "write it like http://127.0.0.1:11434"
        )
    return parts


def redacted(url: str) -> str:
    """A URL, valid or not, without user, password, query and fragment."""
    scheme, separator, rest = url.strip().rpartition("://")
    # The last @ of all, since in a mistyped URL the password may hold a slash or a question mark.
    return scheme + separator + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def endpoints_for(url: str, api: str) -> tuple[Endpoint, ...]:
    """What to post to: one endpoint where the URL or `api` decides, else both, in the order to try them.

    Raises ConfigurationError for a URL or an `api` that cannot be used.
    """
    parts = parse_url(url)
    path = parts.path.rstrip("/")
    base = _KNOWN_SUFFIX.sub("", path)

    def ollama() -> Endpoint:
        return Endpoint("ollama", _with_path(parts, f"{base}/api/embed"))

    def openai() -> Endpoint:
        if path.endswith("/embeddings") and not path.endswith("/api/embeddings"):
            return Endpoint("openai", _with_path(parts, path))
        if is_azure(parts) and not path:
            return Endpoint("openai", _with_path(parts, "/openai/v1/embeddings"))
        if re.search(r"/v\d+$", path) or is_azure(parts):
            return Endpoint("openai", _with_path(parts, f"{path}/embeddings"))
        return Endpoint("openai", _with_path(parts, f"{base}/v1/embeddings"))

    if api == "ollama":
        return (ollama(),)
    if api == "openai":
        return (openai(),)
    if api not in ("auto", ""):
        raise ConfigurationError(f"embed_api {api!r} is not known; use auto, ollama or openai")
    if re.search(r"/api(/embed(dings)?)?$", path):
        return (ollama(),)
    if re.search(r"(/v\d+|/embeddings)$", path) or is_azure(parts):
        return (openai(),)
    return (ollama(), openai())


def is_azure(parts: SplitResult) -> bool:
    """Whether a URL is of Azure's form, whose deployments stand in the path and whose key has a header of its own."""
    return "api-version=" in parts.query or (parts.hostname or "").endswith(
        (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
    )


def _with_path(parts: SplitResult, path: str) -> str:
    host = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, host, path, parts.query, ""))
