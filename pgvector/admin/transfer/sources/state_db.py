"""The host's own session database, state.db."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, ClassVar

from ....domain.errors import ConfigurationError
from ....domain.text import clean
from ....host.undone import HostMessage, lineage
from ..records import TurnRecord
from .exchanges import ConversationFilter, Utterance
from .source import ImportTarget, SourceTally, at_epoch
from .sqlite_file import ProfileTables, SqliteFile

_SESSION = (
    "id", "source", "user_id", "session_key", "chat_id", "chat_type", "thread_id", "origin_json", "model_config",
    "parent_session_id", "started_at", "profile_name", "end_reason", "rewind_count",
)  # fmt: skip
_MESSAGE = ("id", "role", "content", "tool_calls", "timestamp", "active", "compacted", "observed")
_INHERITED = ("session_key", "user_id", "chat_id", "chat_type", "thread_id", "origin_json")
_PARTS = "\0json:"  # the host's prefix of content that is a list of parts
_TOOL, _SYSTEM, _CALL = "tool output", "system text", "a call of tools"
_UNDONE, _OVERHEARD = "undone by the user", "overheard in a group, not said to the agent"
_ELSEWHERE = "stored in another theme, in which it was said"
# Older hosts stored the prompts of their own reviews as the user's messages, followed by the answers.
_REVIEWS = (
    "Review the conversation above and update the skill library",
    "Review the conversation above and consider saving to memory",
)
Row = Mapping[str, Any]


class SessionDatabase(ProfileTables):
    """The sessions of one profile."""

    NAME = "state.db"
    EXPECTED = "the session database of hermes-agent (state.db, as of 0.19.0)"
    DEMANDED: ClassVar = {
        "sessions": ("id", "source", "started_at", "parent_session_id"),
        "messages": ("id", "session_id", "role", "content", "timestamp"),
    }

    def records(self, tally: SourceTally) -> Iterator[TurnRecord]:
        """Yield the turns of every session, oldest session first; only one session's messages are in memory."""
        turn_filter = ConversationFilter(self.destination.min_chars, tally)
        with self.opened() as file:
            sessions = _sessions(file)
            undone = _undone(file, sessions)
            seen: dict[str, set[int]] = {}
            for name, row in sessions.items():
                messages = _messages(file, name)
                tally.read += len(messages)
                target = self.destination.of_session(self._words(row, sessions), name)
                if isinstance(target, str):
                    tally.skip(target, f"session {name}", len(messages))
                    continue
                parent = str(row["parent_session_id"] or "")
                metadata = target.session.provenance(name, parent) | {"source": "import:state.db"}
                seen_before = seen.setdefault([name, *_ancestors(name, sessions)][-1], set())
                spoken = _spoken(messages, tally, row["started_at"], undone)
                for said in self._said_here(turn_filter.worth_storing(spoken, seen_before), target, name, tally):
                    yield TurnRecord(target.turns, name, said.role, said.text, said.at, metadata, where=said.where)

    def _said_here(
        self, told: Iterator[Utterance], target: ImportTarget, session_id: str, tally: SourceTally
    ) -> Iterator[Utterance]:
        """Yield what was not said in another theme; of an answer that reads alike in both, the question decides."""
        elsewhere = self.destination.said_elsewhere(target, session_id)
        asked_elsewhere = True
        for said in told:
            same = bool(elsewhere) and (said.role, self.destination.stored_text(said.text)) in elsewhere
            if said.role == "user":
                asked_elsewhere = same
            if same and asked_elsewhere:
                tally.skip(_ELSEWHERE, said.where)
            else:
                yield said

    def target(self, session_id: str) -> ImportTarget | str | None:
        """Return where a session of this profile belongs; None if the file lacks it or cannot be read."""
        row = self._known.get(session_id)
        return None if row is None else self.destination.of_session(self._words(row, self._known), session_id)

    @cached_property
    def _known(self) -> dict[str, dict[str, Any]]:
        try:
            with self.opened() as file:
                return _sessions(file)
        except ConfigurationError:
            return {}

    def _words(self, row: Row, sessions: Mapping[str, Row]) -> dict[str, Any]:
        """Return the fields by which the host would describe the session to a provider."""
        known = {name: row[name] for name in _INHERITED}
        # A session that continues a compressed one is the same chat, but its own row records that only later.
        for ancestor in _ancestors(str(row["id"]), sessions):
            known = {name: value or sessions[ancestor][name] for name, value in known.items()}
        origin = _json_object(known["origin_json"])
        return {
            "platform": row["source"],
            "gateway_session_key": known["session_key"],
            "agent_identity": row["profile_name"] or self.home.profile,
            "agent_workspace": "hermes",
            "user_id": known["user_id"],
            "user_id_alt": origin.get("user_id_alt"),
            "chat_id": known["chat_id"],
            "chat_type": known["chat_type"],
            "thread_id": known["thread_id"],
            "agent_context": "subagent" if _json_object(row["model_config"]).get("_delegate_from") else "primary",
        }


def _sessions(file: SqliteFile) -> dict[str, dict[str, Any]]:
    return {str(row["id"]): row for row in file.rows("sessions", _SESSION, order="started_at, id")}


def _ancestors(name: str, sessions: Mapping[str, Row]) -> Iterator[str]:
    """Yield the sessions that this one continues, nearest first."""
    met = {name}
    while (parent := str(sessions[name]["parent_session_id"] or "")) in sessions and parent not in met:
        yield parent
        met.add(parent)
        name = parent


def _messages(file: SqliteFile, session: str) -> list[dict[str, Any]]:
    return file.rows("messages", _MESSAGE, where="session_id = ?", values=(session,), order="id")


def _undone(file: SqliteFile, sessions: Mapping[str, Row]) -> set[int]:
    """Return the ids of all messages that were undone, including the originals of those that a compression copied."""

    def messages(session: str) -> list[HostMessage]:
        return [_as_told(row) for row in _messages(file, session)]

    def continued(session: str) -> str:
        before = str(sessions[session]["parent_session_id"] or "")
        return before if before in sessions and sessions[before]["end_reason"] == "compression" else ""

    rewound = [name for name, row in sessions.items() if row["rewind_count"]]
    return {each.id for name in rewound for each in lineage(name, messages, continued)[0] if each.undone}


def _as_told(row: Row) -> HostMessage:
    at, content = row["timestamp"], row["content"]
    begins = content[:200] if row["role"] == "user" and isinstance(content, str) else None
    moment = float(at) if isinstance(at, (int, float)) else 0.0
    return HostMessage(row["id"], moment, _is_undone(row), bool(row["compacted"]), str(row["role"]), begins)


def _is_undone(row: Row) -> bool:
    return row["active"] == 0 and not row["compacted"]


def _spoken(
    messages: list[dict[str, Any]], tally: SourceTally, started_at: object, undone: set[int]
) -> Iterator[Utterance]:
    """Yield what the user and the agent said to each other, without the messages whose ids are in `undone`."""
    reviewed = False
    for row in messages:
        where, role, text = f"message {row['id']}", row["role"], _text(row["content"])
        reviewed = text.lstrip().startswith(_REVIEWS) if role == "user" else reviewed
        at = at_epoch(row["timestamp"]) or at_epoch(started_at)
        if reason := _flaw(row, role, undone) or ("synthetic" if reviewed else ""):
            tally.skip(reason, where if reason not in (_TOOL, _CALL, _SYSTEM) else "")
        elif at is None:
            tally.skip("without a time", where)
        else:
            yield Utterance(role, text, at, where)


def _flaw(row: Row, role: object, undone: set[int]) -> str:
    """Return why a message is not part of the conversation, or "" if it is."""
    if role == "tool":
        return _TOOL
    if role not in ("user", "assistant"):
        return _SYSTEM
    if _is_undone(row) or row["id"] in undone:
        return _UNDONE
    if row["observed"]:
        return _OVERHEARD
    return _CALL if role == "assistant" and row["tool_calls"] else ""


def _text(content: object) -> str:
    if isinstance(content, str) and content.startswith(_PARTS):
        try:
            return clean(json.loads(content.removeprefix(_PARTS)))
        except (ValueError, RecursionError):
            pass
    return clean(content)


def _json_object(text: object) -> dict[str, Any]:
    try:
        found = json.loads(text) if isinstance(text, str) else None
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
