"""Memories that the page adds, edits and replaces, and the undoing of changes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from ..admin.common import stored_rows
from ..admin.common.adding import NewMemory, add_in, masked, memory_to_add
from ..admin.common.command_context import CommandContext
from ..admin.common.fact_options import said_of
from ..admin.common.operators import operator
from ..admin.common.outcome import Outcome
from ..admin.common.refs import Ref
from ..admin.common.theme_names import theme_to_write
from ..admin.edit.editing import edit_in, memory
from ..admin.edit.putting_back import put_back
from ..admin.edit.row_images import RowKey, TextKey, find_subjects
from ..domain.errors import HermesPgvectorError, InvalidArgument
from ..domain.facts import Structure, parse_notation
from ..domain.operations import RememberMemory
from ..domain.text import clean
from ..domain.types import TARGETS
from ..store.connection import DeadlineConnection
from ..store.memories import id_of, lock_theme
from .change import (
    OPEN_S,
    PLACE,
    WRITE_S,
    Plan,
    Watched,
    as_answer,
    database_of,
    embed_memories,
    embed_rows,
    make_change,
)
from .journal import UndoableChange, journal
from .page_route import PageRoute
from .params import Params
from .served_homes import ServedHome

_TEXTS = ("kind", "subject", "scope", "state", "expires_at", "applies_when")
_QUOTED_CHARS = 2_000  # of what somebody else wrote
_STAYS = ("kind", "subject", "scope", "when", "pinned")  # what a memory passes on to the one that replaces it


def _said(params: Params, context: CommandContext) -> dict[str, Any]:
    """Return the attributes that a request gives a memory, by the names of `Structure`; None removes one."""
    given: dict[str, Any] = {name: params.text(name) for name in _TEXTS if name in params.values}
    if "applies_when" in given:
        given["when"] = given.pop("applies_when")
    if "pinned" in params.values:
        given["pinned"] = params.flag("pinned")
    return said_of(given, context.keep)


def _subjects(*said: str | None) -> list[str]:
    return [subject for subject in said if subject]


def _memory_key(theme: str, id: int) -> RowKey:
    return RowKey(theme, Ref("memories", id))


# -- add


def _add(served: ServedHome, params: Params) -> dict[str, Any]:
    context = served.context(OPEN_S)
    theme, note = theme_to_write(params.optional("theme"), served.rules, served.home)
    target = params.choice("target", TARGETS) or "memory"
    structure = Structure(**{name: value for name, value in _said(params, context).items() if value is not None})
    given = NewMemory(theme, target, params.needed("content"), structure, verb=PLACE + "add")
    op, notes = memory_to_add(context.keep, given)
    plan = _adding(context, op, "add", "forget it again")
    return _made(served, context, plan, [*notes, *([note] if note else [])], params)


def _made(served: ServedHome, context: CommandContext, plan: Plan, notes: list[str], params: Params) -> dict[str, Any]:
    answer = make_change(served, context, plan, params)
    answer["notes"] += notes
    if params.flag("dry_run"):  # a row of a dry run has no number
        answer["rows"] = [
            {name: value for name, value in row.items() if name not in ("ref", "id") or row["state"] == "confirmed"}
            for row in answer["rows"]
        ]
    return answer


def _adding(context: CommandContext, op: RememberMemory, verb: str, undo: str, expected: str | None = None) -> Plan:
    """Return the plan that adds a memory; `expected` is the text that the one it replaces must have."""
    theme, said, noted = op.theme, op.structure, parse_notation(op.content) or Structure()

    def watch(conn: DeadlineConnection) -> Watched:
        lock_theme(conn, theme)
        if said.replaces is not None:
            _check_expected(conn, Ref("memories", said.replaces), expected)
        ids = [id for id in (id_of(conn, theme, op.target, op.content), said.replaces) if id is not None]
        rivals = find_subjects(conn, theme, _subjects(said.subject, noted.subject), ids)
        keys = [*(_memory_key(theme, id) for id in ids), *rivals]
        return Watched(list(dict.fromkeys(keys)), [TextKey.of(theme, op.target, op.content)])

    def do(conn: DeadlineConnection) -> Outcome:
        done = add_in(conn, context, op)
        done.verb = verb
        return done

    def says(done: Outcome) -> str:
        (row,) = done.rows
        if row["state"] == "confirmed":
            return f"{row['ref']} says that already: it {'was' if done.done else 'would be'} confirmed"
        return f"added {row['ref']} to the theme {theme!r}" if done.done else f"would add it to the theme {theme!r}"

    return Plan(verb, undo, watch, do, says, lambda done: embed_memories(context, done.rows))


# -- edit, replace


def _edit(served: ServedHome, params: Params) -> dict[str, Any]:
    context, ref = served.context(OPEN_S), params.ref()
    changes = _said(params, context)
    text = params.text("content") if params.values.get("content") is not None else None
    if text is None and not changes:
        raise InvalidArgument(
            "say what to change: content, kind, subject, scope, state, expires_at, applies_when, pinned"
        )
    plan = _editing(context, ref, text, changes, params.optional("expected"))
    return make_change(served, context, plan, params)


def _editing(
    context: CommandContext, ref: Ref, text: str | None, changes: Mapping[str, Any], expected: str | None
) -> Plan:
    def watch(conn: DeadlineConnection) -> Watched:
        old = memory(conn, ref)
        lock_theme(conn, old.theme)
        wanted = None if text is None else masked(context.keep, text)[0]
        _check_expected(conn, ref, expected, wanted)
        said = parse_notation(text or "") or Structure()
        rivals = find_subjects(conn, old.theme, _subjects(changes.get("subject"), said.subject), [ref.id])
        new = [TextKey.of(old.theme, old.kind, wanted)] if wanted is not None else []
        return Watched(list(dict.fromkeys([RowKey(old.theme, ref), *rivals])), new)

    def says(done: Outcome) -> str:
        if not done.counts["memories"]:
            return f"{ref} says that already; nothing was changed"
        (row,) = done.rows
        what = ["its text"] if row["content"] != row["was"] else []
        what += [name.replace("_", " ") for name in row["changes"]]
        return f"{'changed' if done.done else 'would change'} {ref}: {', '.join(what)}"

    return Plan(
        "edit",
        "put back what it said before",
        watch,
        lambda conn: edit_in(conn, context, ref, text, changes, really=True, verb=PLACE + "edit"),
        says,
        lambda done: embed_memories(context, [row for row in done.rows if done.done and row["content"] != row["was"]]),
        about=sorted("applies_when" if name == "when" else name for name in changes),
    )


def _replace(served: ServedHome, params: Params) -> dict[str, Any]:
    """Give a memory that has the state active a successor; give any other memory the new text."""
    context, ref, text = served.context(OPEN_S), params.ref(), params.needed("content")
    with context.backend.connection(WRITE_S) as conn:
        old = memory(conn, ref)
        said = stored_rows.structures(conn, [ref.id]).get(ref.id, {})
    expected = params.optional("expected")
    if said.get("state") != "active":
        plan = _editing(context, ref, text, {}, expected)
        return make_change(served, context, plan, params)
    structure = Structure(replaces=ref.id, **{name: said[name] for name in _STAYS if name in said})
    given = NewMemory(old.theme, old.kind, text, structure, verb=PLACE + "replace")
    op, notes = memory_to_add(context.keep, given)
    plan = _adding(context, op, "replace", f"make {ref} current again", expected)
    return _made(served, context, plan, notes, params)


def _check_expected(conn: DeadlineConnection, ref: Ref, expected: str | None, wanted: str | None = None) -> None:
    """Raise InvalidArgument if a text has changed since it was shown, but not to the `wanted` one.

    `expected` may be its SHA-256 in hex.
    """
    now = memory(conn, ref).content
    if expected not in (None, now, clean(now), hashlib.sha256(now.encode()).hexdigest()) and now != wanted:
        raise InvalidArgument(
            f"{ref} was changed by somebody else meanwhile, nothing was done. Now it says: {now[:_QUOTED_CHARS]}"
        )


# -- undo


def _undo(served: ServedHome, params: Params) -> dict[str, Any]:
    token, dry_run = params.needed("token"), params.flag("dry_run")
    context, where = served.context(OPEN_S), database_of(served)
    change = journal.look(token, where) if dry_run else journal.take(token, where)
    try:
        return _undone(context, change, dry_run=dry_run)
    except HermesPgvectorError:  # also if it is refused: what stands in its way may be undone next
        if not dry_run:
            journal.give_back(token, change)
        raise


def _undone(context: CommandContext, change: UndoableChange, *, dry_run: bool) -> dict[str, Any]:
    who, keep_texts = operator(f"{PLACE}undo of {change.verb}"), context.settings.history_texts
    with context.backend.connection(WRITE_S) as conn, conn.transaction(force_rollback=dry_run):
        lacking = put_back(conn, change.rows, who, keep_texts=keep_texts)
    rows = [{"ref": str(key.ref), "theme": key.theme} for key in change.rows.touched()]
    done = Outcome("undo", not dry_run, {"rows": len(rows)}, rows)
    if not dry_run:
        context.backend.wrote(change.rows.themes())
        done.notes += embed_rows(context, lacking)
    return as_answer(done, f"{'undone' if done.done else 'would undo'}: {change.verb}; {change.says}")


ROUTES: tuple[PageRoute, ...] = (
    PageRoute("/add", _add, changes=True),
    PageRoute("/edit", _edit, changes=True),
    PageRoute("/replace", _replace, changes=True),
    PageRoute("/undo", _undo, changes=True),
)
