"""The base of every importer: where the rows of a session go, and the tally of what was left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from ....capture.turn_filter import is_synthetic, is_trivial_query
from ....domain.text import clean, strip_injected
from ....domain.theme import SessionThemes, Surface, ThemeRules, resolve_theme
from ..records import MemoryRecord, NotedEntry, Record

_EXAMPLES = 20
_PROFILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")  # the names that the host gives to profiles
_EARLIEST_S, _LATEST_S = 0.0, 253_402_300_800.0  # the years 1970 to 9999: all times that the host can have written

API_UNKNOWN = "an API session: the host does not record its X-Hermes-Session-Key (--api-theme NAME takes them in)"
API_AMBIGUOUS = "an API session that several themes hold turns of"
CHAT_UNKNOWN = "a chat whose session key is not recorded (--theme NAME takes them in)"


class HostSession(Protocol):
    """A session as our provider would see it from the host's description."""

    @property
    def place(self) -> SessionThemes:
        """Return the themes of its turns, its memories and its profile's files."""

    @property
    def agent_context(self) -> str:
        """Return the kind of run it is."""

    def provenance(self, session_id: str, parent_session_id: str) -> dict[str, str]:
        """Return the metadata that says where a row comes from."""


Locate = Callable[[Mapping[str, Any]], HostSession]


@dataclass
class SourceTally:
    """The counts of a reader: `read` for messages, facts and entries, `skipped` for those left out, by reason.

    `failed`: the reason for each file of the source that could not be read.
    """

    read: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)
    examples: list[str] = field(default_factory=list)

    def skip(self, reason: str, where: str = "", count: int = 1) -> None:
        """Count records that are left out."""
        self.skipped[reason] += count
        if where and len(self.examples) < _EXAMPLES:
            self.examples.append(f"{where}: {reason}")


class Source(Protocol):
    """A source that records are read from."""

    @property
    def where(self) -> str:
        """Return the file or database, without a password."""

    def total(self) -> int:
        """Return the number of messages, facts and entries to read."""

    def records(self, tally: SourceTally) -> Iterator[Record]:
        """Yield everything worth storing in the order in which it was said; `tally` counts what is left out."""


class ImportTarget(NamedTuple):
    """The themes that a session's turns, its memories and its profile's files go to."""

    turns: str
    memories: str
    files: str
    session: HostSession


@dataclass(frozen=True)
class ImportDestination:
    """Where imported records go: by the rules of live sessions, unless `theme` names one theme for all of them.

    `locate` turns the host's description of a session into ours; `writes` says which kinds of run are stored;
    `captured` returns the themes that hold turns of a session already, `said_in` role and text of these, by theme and
    session; `api_theme` is for API sessions without a key.
    `noted_entries` returns, by origin and theme, the entries of a host's files that were read before, by target and
    digest; `stored_text` returns an entry in its stored form, of which the digest is made.
    """

    locate: Locate
    writes: Callable[[str], bool]
    captured: Callable[[str], Sequence[str]]
    said_in: Callable[[str, str], Set[tuple[str, str]]]
    noted_entries: Callable[[str, str], Mapping[tuple[str, bytes], NotedEntry]]
    stored_text: Callable[[str], str]
    rules: ThemeRules
    min_chars: int
    theme: str = ""
    api_theme: str = ""

    def of_session(self, said: Mapping[str, Any], session_id: str) -> ImportTarget | str:
        """Return where a session belongs that the host describes like this, or why that cannot be told.

        A theme is never guessed: a session that may have belonged to a tenant or a chat is skipped unless one is named.
        """
        session = self.locate(said)
        if not self.writes(session.agent_context):
            return f"a run of kind {session.agent_context}"
        target = self._target(session)
        if self.theme or said.get("gateway_session_key"):
            return target
        if _is_api(said):
            return self._of_api(target, session_id)
        if self._is_chat(said) and self.rules.messaging != "profile":
            return CHAT_UNKNOWN
        return target

    def of_memory(self, said: Mapping[str, Any]) -> ImportTarget | str:
        """Return the same as `of_session` for a memory of an unknown session; those of chats may be the profile's."""
        target = self._target(self.locate(said))
        if self.theme:
            return target
        if _is_api(said):
            return self._of_api(target, "")
        if self._is_chat(said) and self.rules.messaging == "chat":
            return CHAT_UNKNOWN
        return target

    def said_elsewhere(self, target: ImportTarget, session_id: str) -> Set[tuple[str, str]]:
        """Return role and text of what hooks stored of a session in other themes than its own, unless one is named.

        A person may have gone on with a chat on the command line: what was said there is not the chat's.
        """
        others = () if self.theme else [each for each in self.captured(session_id) if each != target.turns]
        return set[tuple[str, str]]().union(*(self.said_in(each, session_id) for each in others))

    def _target(self, session: HostSession) -> ImportTarget:
        if self.theme:
            return ImportTarget(self.theme, self.theme, self.theme, session)
        where = session.place
        return ImportTarget(where.turns.name, where.memories.name, where.files.name, session)

    def _of_api(self, target: ImportTarget, session_id: str) -> ImportTarget | str:
        known = self.captured(session_id) if session_id else ()
        if len(known) > 1:
            return API_AMBIGUOUS
        theme = known[0] if known else self.api_theme
        return target._replace(turns=theme, memories=theme) if theme else API_UNKNOWN

    def _is_chat(self, said: Mapping[str, Any]) -> bool:
        """Return whether the session is a chat, by its platform."""
        platform = said.get("platform")
        if not isinstance(platform, str) or not (said.get("chat_id") or said.get("user_id")):
            return False
        return resolve_theme(Surface("any key", platform), ThemeRules()).source == "chat"


class Home(NamedTuple):
    """A profile and its home directory."""

    profile: str
    path: Path


def homes(home: Path) -> list[Home]:
    """Return the homes of the profile `default` and of all others, whichever of them `home` is."""
    root = home.parent.parent if home.parent.name == "profiles" else home
    try:
        named = sorted(each for each in (root / "profiles").iterdir() if each.is_dir())
    except OSError:
        named = []
    return [Home("default", root), *(Home(each.name, each) for each in named if _PROFILE.fullmatch(each.name))]


@dataclass(frozen=True)
class ProfileFile:
    """A file of one profile: the one in its home, or one that was given instead."""

    NAME: ClassVar[str]
    EXPECTED: ClassVar[str]
    home: Home
    destination: ImportDestination
    given: Path | None = None

    @property
    def path(self) -> Path:
        """Return the path of the file."""
        return self.given or self.home.path / self.NAME

    @property
    def where(self) -> str:
        """Return the path as text."""
        return str(self.path)


def _is_api(said: Mapping[str, Any]) -> bool:
    return str(said.get("platform", "")).strip().lower() == "api_server"


def at_epoch(seconds: object) -> datetime | None:
    """Return the time for seconds since the epoch; None if the value is not a valid time."""
    if isinstance(seconds, (int, float)) and not isinstance(seconds, bool) and _EARLIEST_S < seconds < _LATEST_S:
        return datetime.fromtimestamp(seconds, UTC)
    return None


def at_iso(text: object) -> datetime | None:
    """Return the time for an ISO 8601 text, in UTC if it names no zone; None if it is not a valid time."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text.strip())
    except ValueError:
        return None
    return at if at.tzinfo is not None else at.replace(tzinfo=UTC)


def memory_of(
    content: object,
    created: datetime | None,
    updated: datetime | None,
    target: ImportTarget | str,
    metadata: Mapping[str, object],
    tally: SourceTally,
    where: str,
    *,
    kind: str = "memory",
) -> Iterator[MemoryRecord]:
    """Yield a fact as a cleaned memory; if it is not worth keeping or has no place, count it in `tally` instead."""
    text = strip_injected(clean(content)).strip()
    if reason := _flaw(text):
        tally.skip(reason, where)
    elif created is None:
        tally.skip("without a time", where)
    elif isinstance(target, str):
        tally.skip(target, where)
    else:
        # The place where it was said decides who may read it, as for a live memory.
        kept = target.session.provenance("", "") | {
            key: value for key, value in metadata.items() if value not in (None, "", [], {})
        }
        yield MemoryRecord(target.memories, kind, text, created, max(created, updated or created), kept, where=where)


def _flaw(text: str) -> str:
    if not text:
        return "empty"
    if is_synthetic(text):
        return "synthetic"
    return "acknowledgement" if is_trivial_query(text) else ""
