"""The Postgres of Hindsight: documents that hermes-agent's bundled provider stored, and the facts made from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import chain
from typing import Any, ClassVar

from ....domain.text import clean
from ..foreign_database import SourceTables
from ..records import MemoryRecord, Record, TurnRecord
from .exchanges import ConversationFilter, Utterance
from .source import CHAT_UNKNOWN, ImportTarget, SourceTally, at_iso, memory_of

_DOCUMENT = ("id", "bank_id", "original_text", "created_at", "updated_at", "retain_params", "tags")
_FACT = (
    "id", "bank_id", "text", "context", "fact_type", "metadata", "event_date", "mentioned_at", "created_at",
    "updated_at", "document_id",
)  # fmt: skip
_SPOKEN = ("user", "assistant")
_PREFIXES = {"user": "User: ", "assistant": "Assistant: "}  # what the provider puts before each side
_DERIVED = "consolidated from other facts"
_COPIED = "a part of a document that is taken whole"
Message = Mapping[str, Any]


@dataclass(frozen=True)
class HindsightTables(SourceTables):
    """The banks of one schema, or one of them.

    `elsewhere` returns where a session belongs, by its id, if the host's own database knows it: Hindsight stores who
    was in a chat, but not its session key.
    """

    EXPECTED: ClassVar = "the tables of Hindsight (as of hindsight-api 1.1)"
    DEMANDED: ClassVar = {"documents": _DOCUMENT, "memory_units": _FACT}

    bank: str | None
    elsewhere: Callable[[str], ImportTarget | str | None]

    def records(self, tally: SourceTally) -> Iterator[Record]:
        """Yield conversations as turns, notes and facts as memories; derived entities, links and vectors are not."""
        turn_filter = ConversationFilter(self.destination.min_chars, tally)
        with self.opened() as database:
            for row in database.rows("hindsight_documents", bank=self.bank):
                tally.read += 1
                yield from self._document(row, turn_filter, tally)
            for row in database.rows("hindsight_facts", bank=self.bank):
                tally.read += 1
                yield from self._fact(row, tally)

    def _document(self, row: Any, turn_filter: ConversationFilter, tally: SourceTally) -> Iterator[Record]:
        where = f"document {row.id}"
        known = (row.retain_params or {}).get("metadata") or {}
        messages = _messages(row.original_text)
        if messages is None:
            yield from self._note(row.original_text, row, known, tally, where)
            return
        session = str(known.get("session_id") or row.id)
        target = self._import_target(known, session)
        if isinstance(target, str):
            tally.skip(target, where, len(messages))
            return
        metadata = target.session.provenance(session, _parent(row.tags)) | {
            "source": "import:hindsight",
            "bank": row.bank_id,
        }
        for said in turn_filter.worth_storing(_spoken(messages, row.created_at, where), set()):
            yield TurnRecord(target.turns, session, said.role, said.text, said.at, metadata, where=where)

    def _fact(self, row: Any, tally: SourceTally) -> Iterator[MemoryRecord]:
        where = f"fact {row.id}"
        if row.copied:
            tally.skip(_COPIED)
        elif row.fact_type not in ("world", "experience", "opinion"):
            tally.skip(_DERIVED, where)
        else:
            yield from self._note(row.text, row, row.metadata or {}, tally, where)

    def _note(self, content: str, row: Any, known: Message, tally: SourceTally, where: str) -> Iterator[MemoryRecord]:
        target = self._import_target(known, str(known.get("session_id") or ""))
        if target == CHAT_UNKNOWN:
            target = self.destination.of_memory(self._words(known))
        metadata = {
            "source": "import:hindsight",
            "bank": row.bank_id,
            "session_id": known.get("session_id"),
            "profile": known.get("agent_identity") or self.profile,
            "fact_type": getattr(row, "fact_type", ""),
        }
        at = at_iso(known.get("retained_at")) or row.created_at
        yield from memory_of(content, at, row.updated_at, target, metadata, tally, where)

    def _import_target(self, known: Message, session: str) -> ImportTarget | str:
        target = self.destination.of_session(self._words(known), session)
        if target == CHAT_UNKNOWN:
            return self.elsewhere(session) or target
        return target

    def _words(self, known: Message) -> dict[str, Any]:
        """Return the fields by which the host would describe the session to a provider."""
        return dict(known) | {
            "agent_identity": known.get("agent_identity") or self.profile,
            "agent_workspace": "hermes",
        }


def _messages(text: str) -> list[Message] | None:
    """Return the messages of a conversation that the provider wrote; None if the document is any other text.

    Each retain is a line with a list of turns; a turn is a list of messages with a role, a text and a time.
    """
    try:
        lines: list[Any] = [json.loads(line) for line in text.split("\n") if line.strip()]  # only \n ends a line here
    except (ValueError, RecursionError):
        return None
    if not all(isinstance(line, list) for line in lines):
        return None
    found: list[Any] = []
    for turn in chain.from_iterable(lines):
        found += turn if isinstance(turn, list) else [turn]
    return found if found and all(map(_is_message, found)) else None


def _is_message(found: object) -> bool:
    return isinstance(found, dict) and bool(found.get("role")) and "content" in found


def _spoken(messages: Sequence[Message], otherwise: datetime, where: str) -> Iterator[Utterance]:
    for each in messages:
        role = str(each["role"])
        if role in _SPOKEN:
            text = clean(each["content"]).removeprefix(_PREFIXES[role])
            yield Utterance(role, text, at_iso(each.get("timestamp")) or otherwise, where)


def _parent(tags: Sequence[str] | None) -> str:
    return next((tag.removeprefix("parent:") for tag in tags or () if tag.startswith("parent:")), "")
