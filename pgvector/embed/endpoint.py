"""Where an endpoint is: the URL of a setting, taken apart and put together. No I/O."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit, urlunsplit

from ..domain.errors import ConfigurationError


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where to post, in which protocol, and the setting that names it. `url` holds no user or password."""

    api: str
    url: str
    setting: str = "embed_url"

    @property
    def label(self) -> str:
        """Return the address as messages and logs name it: without query and fragment."""
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
    """Return a URL, valid or not, without user, password, query and fragment."""
    scheme, separator, rest = url.strip().rpartition("://")
    # The last @ of all, since in a mistyped URL the password may hold a slash or a question mark.
    return scheme + separator + re.split(r"[?#]", rest.rpartition("@")[2], maxsplit=1)[0]


def is_azure(parts: SplitResult) -> bool:
    """Tell a URL of Azure's form: deployments stand in its path, and the key has a header of its own."""
    return "api-version=" in parts.query or (parts.hostname or "").endswith(
        (".openai.azure.com", ".cognitiveservices.azure.com", ".services.ai.azure.com")
    )


def with_path(parts: SplitResult, path: str) -> str:
    """Return the URL with another path, without user and password."""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], path, parts.query, ""))
