"""Which themes (column `agent_identity`) a session reads and writes.

| first that is not blank       | theme                                              | source        |
|-------------------------------|----------------------------------------------------|---------------|
| key of a messaging session    | `@<platform>/<profile>/<16 hex of a digest>`       | `chat`        |
| `X-Hermes-Session-Key` header | the key, normalised                                | `session_key` |
| profile                       | the profile's name, normalised                     | `profile`     |
| workspace                     | the workspace's name, normalised                   | `workspace`   |
| the setting `default_theme`   | that, normalised                                   | `default`     |

Only chats have a theme that begins with `@`: in every other source a leading `@` becomes `%40`. A client that sends
the very key of a messaging session as its header therefore gets another theme than that chat. No theme contains a
chat's telephone number or user name. docs/isolation.md has an example for every surface of the host.

The language in which a theme's words are stemmed, also a setting for single themes, is found here as well.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple

from .patterns import late_pattern
from .redaction import DIGEST_CHARS, identity_digest, mask_identifiers
from .text import apart
from .types import Scope

MAX_CHARS: Final = 256
LAST_RESORT: Final = "default"
_ROUNDS: Final = 8  # after which a text that still changes is used as it is; two have always been enough

# Platforms whose runs belong to no conversation with a user.
CONTEXT_PLATFORMS: Final = frozenset({"cron", "subagent", "flush", "background"})
# The API server passes on whatever key a client sends. The local platforms have no chats of their own, but the gateway
# may give them a key in its own form.
_HEADER_PLATFORMS: Final = frozenset({"", "api_server"})
_LOCAL_PLATFORMS: Final = frozenset({"cli", "local", "tui", "desktop", "acp"})
CHATLESS_PLATFORMS: Final = CONTEXT_PLATFORMS | _HEADER_PLATFORMS | _LOCAL_PLATFORMS  # as in queries/fragments.sql
_GATEWAY_KEY = late_pattern(r"agent:[^:]+:[^:]+")

DEFAULT_LANGUAGE: Final = "english"
# The text search configurations of Postgres 15 and later; `simple` neither stems words nor drops stop words.
LANGUAGES: Final = (
    "simple", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip
ROLES: Final = ("user", "assistant", "system", "tool")
ROLE: Final = f"(?:{'|'.join(ROLES)})"  # a pattern, like the next one: a theme and its turns' retention
RETENTION_PATTERN: Final = rf".+=(?:forever|[1-9][0-9]{{0,4}} ?d?(?: +{ROLE})*)"

CHATS_ALONE: Final = "it is the theme of a messaging chat, which is read and written in that chat alone"

Source = Literal["session_key", "chat", "profile", "workspace", "default"]


class Theme(NamedTuple):
    """A theme and where it came from."""

    name: str
    source: Source


class Surface(NamedTuple):
    """The host's description of a session, unchanged."""

    session_key: str = ""
    platform: str = ""
    profile: str = ""
    workspace: str = ""


class ThemeSet:
    """Themes listed in a setting, by name or by a prefix of their names (`intraday-*`)."""

    def __init__(self, names: Iterable[str], identity_key: str = "") -> None:
        words = tuple(names)
        self._exact = frozenset(normalise_theme(word, identity_key) for word in words if not word.endswith("*"))
        self._prefixes = tuple(beginning_of(word[:-1]) for word in words if word.endswith("*"))
        self._all = any(not prefix for prefix in self._prefixes)

    def __contains__(self, theme: str) -> bool:
        return theme in self._exact or self._all or (bool(self._prefixes) and theme.startswith(self._prefixes))

    def __bool__(self) -> bool:
        return bool(self._exact or self._prefixes)


class Languages:
    """The language of every theme: `default`, or the one that a pair `theme=language` gives.

    The theme of a pair may end with `*`; if several pairs match, the first one applies.
    """

    def __init__(self, default: str = DEFAULT_LANGUAGE, pairs: Sequence[str] = ()) -> None:
        self._default = default
        split = [pair.rpartition("=") for pair in pairs]
        self._named = [(ThemeSet((theme,)), language) for theme, _, language in split]
        self.all: tuple[str, ...] = tuple(dict.fromkeys([default, *(language for _, _, language in split)]))

    def of(self, theme: str) -> str:
        """Return the language of one theme."""
        return next((language for themes, language in self._named if theme in themes), self._default)

    def spoken_in(self, scope: Scope) -> tuple[str, ...]:
        """Return the languages of the themes in a scope."""
        return self.all if scope.kind == "all" else (self.of(scope.theme),)


@dataclass(frozen=True)
class ThemeRules:
    """An operator's rules for themes. If `allowed` is empty, every theme is; `aliases` map a theme to another."""

    default: str = LAST_RESORT
    allowed: ThemeSet = field(default_factory=lambda: ThemeSet(()))
    aliases: Mapping[str, str] = field(default_factory=dict)
    messaging: Literal["split", "chat", "profile"] = "split"
    identity_key: str = ""

    @classmethod
    def of(
        cls,
        *,
        default: str,
        allowed: Iterable[str] = (),
        aliases: Iterable[str] = (),
        messaging: str = "split",
        identity_key: str = "",
    ) -> ThemeRules:
        """Make rules from settings; an alias is written `alias=theme`."""
        split = (pair.partition("=") for pair in aliases)
        pairs = [(normalise_theme(alias, identity_key), _named(theme, identity_key)) for alias, _, theme in split]
        return cls(
            default=_named(default, identity_key) or LAST_RESORT,
            allowed=ThemeSet(allowed, identity_key),
            aliases={alias: theme for alias, theme in pairs if alias and theme},
            messaging="chat" if messaging == "chat" else "profile" if messaging == "profile" else "split",
            identity_key=identity_key,
        )

    def resolve_name(self, name: str) -> str:
        """Return the theme that a name in a tool call or on the command line means; "" when it is blank."""
        theme = normalise_theme(name, self.identity_key)
        return self.aliases.get(theme, theme)

    def admits(self, theme: str) -> bool:
        """Return whether sessions that name a theme (by its stored name) get it rather than the default."""
        return not self.allowed or theme in self.allowed or theme == self.default


class SessionThemes(NamedTuple):
    """The themes of a session's turns, of its memories, and of the host's memory files.

    `chat`: the session is a chat of a messaging platform. `unknown`: themes that are not allowed and were replaced by
    the default.
    """

    turns: Theme
    memories: Theme
    files: Theme
    chat: bool = False
    unknown: tuple[str, ...] = ()


def session_themes(surface: Surface, rules: ThemeRules) -> SessionThemes:
    """Return the themes of a session under an operator's rules. Pure; never raises on any text."""
    unknown: list[str] = []

    def settled(theme: Theme) -> Theme:
        named = theme._replace(name=rules.aliases.get(theme.name, theme.name))
        if named.source == "chat" or rules.admits(named.name):
            return named
        if named.name not in unknown:
            unknown.append(named.name)
        return Theme(rules.default, "default")

    own, profile = resolve_theme(surface, rules), _profile_theme(surface, rules)
    if own.source != "chat":
        turns = memories = settled(own)
    else:
        turns = settled(profile if rules.messaging == "profile" else own)
        memories = settled(own if rules.messaging == "chat" else profile)
    return SessionThemes(turns, memories, settled(profile), own.source == "chat", tuple(unknown))


def resolve_theme(surface: Surface, rules: ThemeRules) -> Theme:
    """Return the theme a session names, by the table of this module. Never raises or returns a blank name."""
    where = _fold(surface.platform)
    key = surface.session_key
    name = _named(key, rules.identity_key)
    if name:
        gateway_form = _GATEWAY_KEY.match(key) is not None
        if where in _HEADER_PLATFORMS or (where in _LOCAL_PLATFORMS | CONTEXT_PLATFORMS and not gateway_form):
            return Theme(name, "session_key")
        # In a run that belongs to no conversation, a key in the gateway's form may come from a client as well.
        if where not in CONTEXT_PLATFORMS:
            return Theme(_chat_name(key, where, surface.profile, rules.identity_key), "chat")
    return _profile_theme(surface, rules)


def is_chat(theme: str) -> bool:
    """Return whether a theme, by its stored name, is that of a messaging chat."""
    return theme.startswith("@")


def normalise_theme(text: str, identity_key: str = "") -> str:
    """Return `text` in the form themes are stored and compared in; "" when it is blank. Idempotent.

    NFC, case-folded, trimmed, inner blanks collapsed to one space. Bytes that were not UTF-8, control characters and
    invisible ones become `%` and two hex digits a byte, so that keys that differ in them stay different. Telephone
    numbers and e-mail addresses are replaced by their digests. A text of more than 256 characters is cut to 239, "-"
    and 16 hex digits of the whole text's sha256.
    """
    # A cut can leave something that looks like a telephone number: repeat until nothing changes.
    for _ in range(_ROUNDS):
        if (normal := _cut(mask_identifiers(_fold(text), identity_key, numbers=True))) == text:
            break
        text = normal
    return text


def _profile_theme(surface: Surface, rules: ThemeRules) -> Theme:
    if name := _named(surface.profile, rules.identity_key):
        return Theme(name, "profile")
    if name := _named(surface.workspace, rules.identity_key):
        return Theme(name, "workspace")
    return Theme(rules.default, "default")


def _named(text: str, identity_key: str) -> str:
    """Return `text` as a theme that cannot be taken for a chat's."""
    name = normalise_theme(text, identity_key)
    return normalise_theme("%40" + name[1:], identity_key) if name.startswith("@") else name


def _chat_name(key: str, platform: str, profile: str, identity_key: str) -> str:
    parts = (normalise_theme(platform, identity_key), normalise_theme(profile, identity_key) or LAST_RESORT)
    # With a slash inside a part, two pairs of platform and profile could have the same name.
    prefix = "/".join(_cut(part.replace("/", "%2f"), 100) for part in parts)
    return normalise_theme(f"@{prefix}/{identity_digest(key, identity_key)}", identity_key)


def _fold(text: str) -> str:
    if text.isascii() and text.isprintable():
        return " ".join(text.lower().split())
    text = "".join(map(_escape, apart(text)))
    # Folding can undo composition and vice versa: repeat until nothing changes.
    while (folded := unicodedata.normalize("NFC", text).casefold()) != text:
        text = folded
    return " ".join(text.split())


def beginning_of(text: str) -> str:
    """Return a prefix of names as they are stored; a blank at its end counts, so that `team *` is not `teams`."""
    folded = _fold(text)
    return f"{folded} " if folded and text[-1].isspace() else folded


def _escape(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # how Python carries a byte that was not UTF-8
        return f"%{code - 0xDC00:02x}"
    if 0xD800 <= code <= 0xDFFF or (unicodedata.category(char) in ("Cc", "Cf") and char not in "\t\n\v\f\r"):
        return "".join(f"%{byte:02x}" for byte in char.encode("utf-8", "surrogatepass"))
    return char


def _cut(text: str, limit: int = MAX_CHARS) -> str:
    if len(text) <= limit:
        return text
    return f"{text[: limit - DIGEST_CHARS - 1]}-{identity_digest(text)}"
