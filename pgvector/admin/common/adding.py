"""Memories that an operator adds."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ...capture.sanitize import MASKED_NOTE, Sanitizer
from ...domain.commandline import typed
from ...domain.errors import HermesPgvectorError, InvalidArgument, WrongUsage
from ...domain.facts import PLAIN, Structure, notes_on
from ...domain.operations import RememberMemory
from ...domain.text import clean
from ...host.session_context import Policy
from ...store import memories
from ...store.applying import apply_operations
from ...store.backend import WRITE_TIMEOUT_S
from ...store.connection import DeadlineConnection
from ...store.vectors import PendingRow
from . import stored_rows
from .command_context import CommandContext
from .operators import operator, without_verb
from .outcome import Outcome
from .refs import Ref
from .theme_names import own_theme
from .theme_rows import theme_exists

_NEW_THEME = "{theme!r} held nothing before: if the name is a slip, forget this; see: hermes-pgvector themes list"
_EMBED_S = 120.0  # how long a command waits for the vectors of one long text


@dataclass(frozen=True)
class NewMemory:
    """A memory that an operator adds, and with which `verb`; without `said_at` it counts as said now."""

    theme: str
    target: str
    text: str
    structure: Structure = PLAIN
    metadata: Mapping[str, Any] = field(default_factory=dict)
    verb: str = "add"
    said_at: datetime | None = None


def add(context: CommandContext, given: NewMemory) -> Outcome:
    """Store a memory as the tool `remember` does: secrets are masked, an existing text is confirmed, not duplicated.

    Raises InvalidArgument for an empty text or if the theme does not hold the memory to be replaced, StoreUnavailable
    without a database.
    """
    op, notes = memory_to_add(context.keep, given)
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        done = add_in(conn, context, op)
    done.notes[:0] = notes
    embed_added(context, done)
    return done


def add_in(conn: DeadlineConnection, context: CommandContext, op: RememberMemory) -> Outcome:
    """Store the memory made by `memory_to_add`. Raises InvalidArgument as `add` does."""
    before = memories.id_of(conn, op.theme, op.target, op.content)
    _check_replaced(conn, op.theme, op.structure, before)
    stored_rows.check_turns(conn, op.structure.sources or ())
    new = typed(_NEW_THEME).format(theme=op.theme) if _may_be_a_slip(conn, context, op.theme) else ""
    languages, keep_removed = context.backend.languages, context.settings.history_texts
    apply_operations(memories.StoreWriter(conn, {}, languages, Counter(), keep_removed), [op])
    found = memories.id_of(conn, op.theme, op.target, op.content)
    if found is None:
        raise InvalidArgument("the memory was removed again while it was added")
    said = stored_rows.structures(conn, [found]).get(found, {})
    state = "stored" if before is None else "confirmed"
    row = {
        "ref": str(Ref("memories", found)),
        "id": found,
        "theme": op.theme,
        "target": op.target,
        "content": op.content,
    }
    row |= {"state": state} | ({"structure": stored_rows.structure_as_json(said)} if said else {})
    return Outcome(str(op.who["verb"]), True, {state: 1}, [row], notes=[new] if new else [])


def _may_be_a_slip(conn: DeadlineConnection, context: CommandContext, theme: str) -> bool:
    """Return whether a theme holds nothing and is not the home's own, which nobody needs to name."""
    return theme != own_theme(Policy.of(context.settings).rules, context.home) and not theme_exists(conn, theme)


def embed_added(context: CommandContext, done: Outcome) -> None:
    """Embed added memories, if that is possible now."""
    context.backend.wrote(row["theme"] for row in done.rows)
    for row in done.rows:
        row |= embed_now(context, row["theme"], row["id"], row["content"])


def memory_to_add(keep: Sanitizer, given: NewMemory) -> tuple[RememberMemory, list[str]]:
    """Return the write that stores an operator's memory, and notes about it. Raises WrongUsage."""
    content, notes = masked(keep, given.text)
    notes += notes_on(content, given.structure)
    who = operator(given.verb)
    author = without_verb(who)
    metadata = {key: value for key, value in keep.metadata(given.metadata, Counter()).items() if key not in author}
    op = RememberMemory(
        theme=given.theme,
        at=time.time() if given.said_at is None else given.said_at.timestamp(),
        target=given.target,
        content=content,
        structure=given.structure,
        metadata=metadata | author,
        given=metadata,
        who=who,
        owner="add",
    )
    return op, notes


def _check_replaced(conn: DeadlineConnection, theme: str, said: Structure, own: int | None) -> None:
    """Raise InvalidArgument if the theme does not hold the memory that is to be replaced."""
    if said.replaces is None:
        return
    if said.replaces == own:
        raise InvalidArgument(f"m{own} says that itself: it cannot take its own place")
    if not memories.entries(conn, theme, [said.replaces]):
        raise InvalidArgument(f"the theme {theme!r} holds no memory m{said.replaces} that could be replaced")


def masked(keep: Sanitizer, text: str) -> tuple[str, list[str]]:
    """Return a text as it is stored, with secrets masked, and a note if there were any. Raises WrongUsage."""
    said = clean(text).strip()
    if not said:
        raise WrongUsage("the text is empty; say in plain words what to remember")
    content = keep.text(said, Counter())
    return content, [MASKED_NOTE] if content != said else []


def embed_now(context: CommandContext, theme: str, row_id: int, content: str) -> dict[str, Any]:
    """Embed a memory now if that is possible; otherwise the agents do it later."""
    row = PendingRow("memories", row_id, theme, content)
    return {"pending": not fill_now(context, row, patience_s=_EMBED_S)}


def fill_now(context: CommandContext, row: PendingRow, *, patience_s: float) -> bool:
    """Store a row's vectors within `patience_s`; return whether it has them."""
    documents, until = context.documents, time.monotonic() + patience_s
    try:
        while documents.is_there() and not documents.fails and time.monotonic() < until:
            if row.text in (chunks := documents.embed_chunks([(row.theme, row.text)])):
                context.backend.fill([row], chunks)
                return True
    except HermesPgvectorError:
        pass  # the row is stored; doctor reports what is wrong with vectors
    return False
