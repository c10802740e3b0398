"""Which theme (column `agent_identity`) a session reads and writes.

| first that is not blank       | theme                                              | source        |
|-------------------------------|----------------------------------------------------|---------------|
| key of a messaging session    | `@<platform>/<profile>/<16 hex of sha256(key)>`    | `chat`        |
| `X-Hermes-Session-Key` header | the key, normalised                                | `session_key` |
| profile                       | the profile's name, normalised                     | `profile`     |
| workspace                     | the workspace's name, normalised                   | `workspace`   |
| the setting `default_theme`   | that, normalised                                   | `default`     |

Only chats have a theme that begins with `@`: in every other source a leading `@` becomes `%40`. A client that sends
the very key of a messaging session as its header therefore gets another theme than that chat, and no telephone number
or user name of a chat stands in a theme.
"""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final, Literal, NamedTuple

MAX_CHARS: Final = 256
_HASH_CHARS: Final = 16
_LAST_RESORT: Final = "default"

# The API server passes on what a client claims; these others have no chats of their own, but the gateway may give
# them a key in its own form.
_HEADER_PLATFORMS: Final = frozenset({"", "api_server"})
_LOCAL_PLATFORMS: Final = frozenset({"cli", "local", "tui", "desktop", "acp"})
_GATEWAY_KEY = re.compile(r"agent:[^:]+:[^:]+")

Source = Literal["session_key", "chat", "profile", "workspace", "default"]


class Theme(NamedTuple):
    """A theme and where it came from."""

    name: str
    source: Source


def resolve_theme(
    *, session_key: str = "", platform: str = "", profile: str = "", workspace: str = "", default: str = _LAST_RESORT
) -> Theme:
    """The theme of a session; see the table of this module. Never raises on any text, never gives a blank name."""
    where = _fold(platform)
    key = _fold(session_key)
    if key:
        local_chat = where in _LOCAL_PLATFORMS and _GATEWAY_KEY.match(session_key) is not None
        if local_chat or where not in _HEADER_PLATFORMS | _LOCAL_PLATFORMS:
            return Theme(_chat_name(session_key, where, profile), "chat")
        return Theme(_reserved(key), "session_key")
    return profile_theme(profile, workspace=workspace, default=default)


def profile_theme(profile: str, *, workspace: str = "", default: str = _LAST_RESORT) -> Theme:
    """The theme a session without a key of its own has; built-in memory files belong to it, too."""
    if name := _fold(profile):
        return Theme(_reserved(name), "profile")
    if name := _fold(workspace):
        return Theme(_reserved(name), "workspace")
    return Theme(_reserved(_fold(default)) or _LAST_RESORT, "default")


def normalise_theme(text: str) -> str:
    """`text` in the form themes are stored and compared in; "" when it is blank. Idempotent.

    NFC, case-folded, trimmed, inner blanks collapsed to one space. A byte that was not UTF-8 and a control character
    become `%` and two hex digits a byte, so that keys that differ in them stay different. More than 256 characters are
    cut to 239, "-" and 16 hex digits of the whole text's sha256.
    """
    return _cut(_fold(text))


def _chat_name(key: str, platform: str, profile: str) -> str:
    digest = hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH_CHARS]
    parts = (platform, _fold(profile) or _LAST_RESORT)
    # A slash inside a part would let one platform and profile spell another pair.
    return "@" + "/".join(_cut(part.replace("/", "%2f"), 100) for part in parts) + "/" + digest


def _reserved(folded: str) -> str:
    return _cut("%40" + folded[1:] if folded.startswith("@") else folded)


def _fold(text: str) -> str:
    if text.isascii() and text.isprintable():
        return " ".join(text.lower().split())
    text = "".join(map(_escape, text))
    # Folding can undo composition and the other way round: repeat until nothing changes.
    while (folded := unicodedata.normalize("NFC", text).casefold()) != text:
        text = folded
    return " ".join(text.split())


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte that was not UTF-8
        return f"%{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF or (unicodedata.category(char) == "Cc" and char not in "\t\n\v\f\r"):
        return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    return char


def _cut(text: str, limit: int = MAX_CHARS) -> str:
    if len(text) <= limit:
        return text
    digest = hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARS]
    return f"{text[: limit - _HASH_CHARS - 1]}-{digest}"
