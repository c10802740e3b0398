"""One change that the page requests: made in one transaction, or a dry run; it is kept so that it can be undone."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..admin.common.adding import fill_now
from ..admin.common.command_context import CommandContext
from ..admin.common.outcome import Outcome
from ..admin.common.refs import Ref, parse_refs
from ..admin.edit.putting_back import find_change
from ..admin.edit.row_images import RowImages, RowKey, TextKey, take_images
from ..capture.spool_directory import destination_of
from ..domain.errors import HermesPgvectorError, InvalidArgument, OperationRejected
from ..store.connection import DeadlineConnection
from ..store.vectors import PendingRow
from .journal import UndoableChange, Where, journal
from .params import Params
from .served_homes import ServedHome

PLACE = "dashboard "  # before a verb, in the history and the operators' log
OPEN_S = 10.0  # for connecting to the database before a change
WRITE_S = 15.0
_EMBED_S = 5.0
_ROWS = 100  # of an answer
_CHARS = 300  # of a text in it
_LATER = "it is found by words; its vector follows with the next agent, or hermes-pgvector backfill"
_TOO_LARGE = "it is too large to be undone here"
_embedding = threading.Lock()  # a home's embedder works on one long text at a time


@dataclass(frozen=True)
class Watched:
    """The rows that a change may touch, those that it is about first, and the texts whose marks it may change."""

    keys: Sequence[RowKey]
    texts: Sequence[TextKey] = ()


def _nothing(of: object) -> Iterable[str]:
    return ()


@dataclass(frozen=True)
class Plan:
    """A change: `watch` returns what it may touch and `do` makes it, in one transaction.

    `says` returns the sentence for what was done, or would be if the outcome is not done; `undo` is what undoing it is
    called. `besides` returns notes on the rows as they were before; `after` does the follow-up work once the change is
    committed, and returns notes on that. `about`: the columns, besides the text, whose values the dialog shows.
    """

    verb: str
    undo: str
    watch: Callable[[DeadlineConnection], Watched]
    do: Callable[[DeadlineConnection], Outcome]
    says: Callable[[Outcome], str]
    after: Callable[[Outcome], Iterable[str]] = _nothing
    besides: Callable[[RowImages], Iterable[str]] = _nothing
    about: Sequence[str] = ()


def make_change(served: ServedHome, context: CommandContext, plan: Plan, params: Params) -> dict[str, Any]:
    """Carry out the plan, or with `dry_run` only find out what it would do.

    A dry run returns what it has `seen`. Raises InvalidArgument, also if the role lacks a right, or if `seen` is given
    and the memories have changed since.
    """
    dry_run, seen = params.flag("dry_run"), params.optional("seen")
    try:
        with context.backend.connection(WRITE_S) as conn, conn.transaction(force_rollback=dry_run):
            watched = plan.watch(conn)
            before = take_images(conn, watched.keys, watched.texts)
            done = plan.do(conn)
            # Nothing left to do: the same request, whose answer was lost, did it.
            if not dry_run and any(done.counts.values()) and seen not in (None, _said_in(before, plan.about)):
                raise InvalidArgument("somebody else has just changed what this is about; nothing was done: look again")
            theirs = [RowKey(row["theme"], ref_of(row)) for row in done.rows]
            after = take_images(conn, dict.fromkeys([*watched.keys, *theirs]), before.marks)
            change = find_change(conn, before, after)
    except OperationRejected as exc:
        raise InvalidArgument(f"{exc}; nothing was changed") from exc
    done.notes += plan.besides(before)
    done.notes += _displaced(before, after, {ref_of(row) for row in done.rows}, past=not dry_run)
    too_large = [] if journal.takes(before if dry_run else change.before) else [_TOO_LARGE]
    if dry_run:
        done.done = False
        return as_answer(done, plan.says(done), too_large) | {"seen": _said_in(before, plan.about)}
    context.backend.wrote(change.themes())
    undo = None
    if change.themes():
        undo = journal.add(UndoableChange(database_of(served), plan.verb, plan.undo, change))
    done.notes += _followed(plan, done)
    return as_answer(done, plan.says(done), too_large, undo)


def _said_in(images: RowImages, about: Sequence[str]) -> str:
    """Return a digest of the memories, their texts and these columns, whatever the times when they were written."""
    memories = {key: json.loads(image) for key, image in images.rows.items() if key.ref.store == "memories"}
    said = [
        (key.theme, key.ref.id, *(json.dumps(row[name]) for name in ("content", *about)))
        for key, row in memories.items()
    ]
    return hashlib.sha256(json.dumps(sorted(said)).encode()).hexdigest()


def _followed(plan: Plan, done: Outcome) -> Iterable[str]:
    """Do the follow-up work of a change; a failure is only noted, because the change itself is committed."""
    try:
        return list(plan.after(done))
    except (HermesPgvectorError, OSError) as exc:
        return [f"what follows it was not done: {exc}"]


def database_of(served: ServedHome) -> Where:
    """Return the home and the database that are changed."""
    return served.home, destination_of(served.settings, served.home).place


def ref_of(row: Mapping[str, Any]) -> Ref:
    """Return the row that a line of an outcome is about."""
    return parse_refs([row["ref"]])[0]


def _displaced(before: RowImages, after: RowImages, own: set[Ref], *, past: bool) -> list[str]:
    """Return a note on other memories that are no longer current."""
    was, still = _actives(before), _actives(after)
    gone = [str(key.ref) for key in was if key in after.rows and key not in still and key.ref not in own]
    if not gone:
        return []
    if len(gone) == 1:
        return [f"{gone[0]} {'was' if past else 'is'} current until now, and stays as what was said before"]
    return [f"{', '.join(gone)} {'were' if past else 'are'} current until now, and stay as what was said before"]


def _actives(images: RowImages) -> list[RowKey]:
    memories = {key: json.loads(image) for key, image in images.rows.items() if key.ref.store == "memories"}
    return [key for key, row in memories.items() if row["state"] == "active"]


def embed_memories(context: CommandContext, rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Embed the memories in an outcome's rows, as `embed_rows` does."""
    return embed_rows(context, [PendingRow("memories", row["id"], row["theme"], row["content"]) for row in rows])


def embed_rows(context: CommandContext, rows: Sequence[PendingRow]) -> list[str]:
    """Embed rows if that is possible at once; return a note if it is not."""
    if context.embedder is None or not rows:
        return []
    until = time.monotonic() + _EMBED_S
    if _embedding.acquire(timeout=_EMBED_S):
        try:
            if all(_embedded(context, row, until) for row in rows):
                return []
        finally:
            _embedding.release()
    return [_LATER]


def _embedded(context: CommandContext, row: PendingRow, until: float) -> bool:
    left_s = until - time.monotonic()
    return left_s > 0 and fill_now(context, row, patience_s=left_s)


def as_answer(
    done: Outcome, says: str, notes: Sequence[str] = (), undo: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the page's answer about a change."""
    rows = [_cut(row) for row in done.rows[:_ROWS]]
    return {
        "verb": done.verb,
        "done": done.done,
        "says": says,
        "rows": rows,
        "counts": done.counts,
        "notes": [*done.notes, *notes],
        "undo": undo,
    }


def _cut(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row with its texts cut to their beginnings."""
    cut = {name: row[name][:_CHARS] for name in ("content", "was") if isinstance(row.get(name), str)}
    chars = row.get("chars", len(row.get("content", "")))
    return {**row, **cut, "chars": chars, "cut": chars > len(cut.get("content", ""))}
