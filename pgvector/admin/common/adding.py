"""Memories that an operator adds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from ...domain.errors import HermesPgvectorError, InvalidArgument, WrongUsage
from ...domain.facts import PLAIN, Structure
from ...domain.operations import RememberMemory
from ...domain.text import clean
from ...store import memories
from ...store.backend import WRITE_TIMEOUT_S
from ...store.vectors import PendingRow
from .command_context import CommandContext
from .operators import operator
from .outcome import Outcome
from .refs import Ref
from .theme_rows import theme_exists

_KEPT_OF_WHO = ("source", "os_user", "host")  # beside the memory itself
_EMBED_S = 120.0  # how long a command waits for the vectors of one long text


def add(
    context: CommandContext,
    theme: str,
    target: str,
    text: str,
    metadata: Mapping[str, Any],
    *,
    verb: str = "add",
    said_at: datetime | None = None,
    structure: Structure = PLAIN,
) -> Outcome:
    """Store a memory as the tool `remember` does: secrets masked, the same text confirmed rather than doubled.

    Without `said_at` it is said now. Raises InvalidArgument for an empty text, StoreUnavailable without a database.
    """
    content, notes = masked(context, text)
    given = {key: value for key, value in context.keep.metadata(metadata, Counter()).items() if key not in _KEPT_OF_WHO}
    who = operator(verb)
    metadata = given | {key: who[key] for key in _KEPT_OF_WHO}
    remember = RememberMemory(
        theme=theme,
        at=time.time() if said_at is None else said_at.timestamp(),
        target=target,
        content=content,
        structure=structure,
        metadata=metadata,
        given=given,
        who=who,
        owner="add",
    )
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        before = memories.id_of(conn, theme, target, content)
        if not theme_exists(conn, theme):
            notes.append(f"{theme!r} held nothing before: if that is a slip, forget this and look at: themes list")
    context.backend.apply([remember], {})
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        found = memories.id_of(conn, theme, target, content)
    if found is None:
        raise InvalidArgument("the memory was removed again while it was added")
    state = "stored" if before is None else "confirmed"
    row = {"ref": str(Ref("memories", found)), "id": found, "theme": theme, "target": target, "content": content}
    return Outcome(
        verb, True, {state: 1}, [row | {"state": state} | embed_now(context, theme, found, content)], notes=notes
    )


def masked(context: CommandContext, text: str) -> tuple[str, list[str]]:
    """Return a text as it is stored, without secrets, and a note where some were masked. Raises WrongUsage."""
    said = clean(text).strip()
    if not said:
        raise WrongUsage("the text is empty; say in plain words what to remember")
    content = context.keep.text(said, Counter())
    told = "what looked like a password, key or token was masked before it was stored"
    return content, [told] if content != said else []


def embed_now(context: CommandContext, theme: str, row_id: int, content: str) -> dict[str, Any]:
    """Give a row its vectors now where that is possible; else the agents do it."""
    documents, until = context.documents, time.monotonic() + _EMBED_S
    try:
        while documents.is_there() and not documents.fails and time.monotonic() < until:
            if content in (chunks := documents.embed_chunks([(theme, content)])):
                context.backend.fill([PendingRow("memories", row_id, theme, content)], chunks)
                return {"embedded": True}
    except HermesPgvectorError:
        pass  # the memory is stored; what is wrong with vectors, doctor says
    return {"embedded": False}
