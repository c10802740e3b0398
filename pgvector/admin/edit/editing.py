"""Editing of memories by an operator."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

from psycopg.types.json import Jsonb

from ...domain.commandline import typed
from ...domain.errors import InvalidArgument
from ...domain.facts import PLAIN, Structure, notes_on, parse_notation
from ...domain.types import MEMORY_FILES
from ...store import memories
from ...store.backend import WRITE_TIMEOUT_S
from ...store.connection import DeadlineConnection
from ...store.memories import Entry, lock_theme
from ...store.sql import query
from ..common import row_security, stored_rows
from ..common.adding import embed_now, masked
from ..common.command_context import CommandContext
from ..common.fetching import one
from ..common.operators import operator, record, without_verb
from ..common.outcome import Outcome
from ..common.refs import Ref, one_theme

_query = partial(query, package=__package__)
_KEPT = ("kind", "subject", "scope", "state", "expires_at", "confidence", "sources", "when", "pinned")
_MATTERS = {"kind", "subject", "scope", "state"}  # if one of these changes, another memory may be superseded


def edit(
    context: CommandContext,
    ref: Ref,
    text: str | None,
    changes: Mapping[str, Any],
    *,
    really: bool,
    expected: str | None = None,
) -> Outcome:
    """Do as `edit_in`, in a transaction of its own; if possible, embed the memory's new text at once."""
    with context.backend.connection(WRITE_TIMEOUT_S) as conn:
        done = edit_in(conn, context, ref, text, changes, really=really, expected=expected)
    embed_edited(context, done)
    return done


def edit_in(
    conn: DeadlineConnection,
    context: CommandContext,
    ref: Ref,
    text: str | None,
    changes: Mapping[str, Any],
    *,
    really: bool,
    verb: str = "edit",
    expected: str | None = None,
) -> Outcome:
    """Change a memory's text, if one is given, and its other properties as `changes` say.

    It keeps its number and its age, and gets a new vector. `changes` use the names of `Structure`; None clears a value.
    Unless `really`, the change is made and rolled back, so that every problem is reported. `verb` is for the history.
    Raises InvalidArgument for a turn, an unknown number, an empty text, a text that another memory has already, or if
    the memory's text is not the `expected` one.
    """
    with conn.transaction(force_rollback=not really):
        old = _locked(conn, ref, memory(conn, ref))
        if expected not in (None, old.content):
            raise _changed_meanwhile(old)
        content, notes = _new_text(context, old, text)
        row = {"ref": str(ref), "id": ref.id, "theme": old.theme, "target": old.kind, "was": old.content}
        row["content"] = content
        now = stored_rows.structures(conn, [ref.id]).get(ref.id, {})
        changed = _changed(now, changes)
        if content == old.content and not changed:
            return Outcome("edit", False, {"memories": 0}, [row], notes=[*notes, "it says that already"])
        row["changes"] = {name: _both(name, now.get(name), value) for name, value in changed.items()}
        before = one(conn, _query("history_end"), {}).id
        if content != old.content:
            notes += _rewrite(context, conn, old, content, operator(verb))
            now = stored_rows.structures(conn, [ref.id]).get(ref.id, {})
            changed = _changed(now, changes)  # also of what a line of notation says
        if changed:
            memories.note_actor(conn, operator(verb))
            _restructure(conn, old, content, now, changed)
        notes += notes_on("" if content == old.content else content, Structure(expires_at=changed.get("expires_at")))
        notes += _superseded(conn, old, before, really=really)
        if "state" not in changed:
            notes += _not_recalled(conn, ref)
        if really:
            record_change(conn, verb, [old.theme], {"rows": [str(ref)]}, {"memories": 1})
    return Outcome("edit", really, {"memories": 1}, [row], notes=notes)


def _superseded(conn: DeadlineConnection, edited: Any, before: int, *, really: bool) -> list[str]:
    """Return a note if other memories were superseded since the entry `before` of the history."""
    asked = {"theme": edited.theme, "id": edited.id, "before": before}
    refs = [str(Ref("memories", row.id)) for row in conn.execute(_query("superseded_since"), asked)]
    if not refs:
        return []
    verb = "takes" if really else "would take"
    return [f"it {verb} the place of {', '.join(refs)}, which recall does not find any more"]


def _not_recalled(conn: DeadlineConnection, ref: Ref) -> list[str]:
    """Return a note if a memory that somebody edits has lost its place, or was put away, since they saw it."""
    said = stored_rows.structures(conn, [ref.id]).get(ref.id, {})
    if said.get("state") == "archived":
        return [f"recall does not find {ref}, which is archived"]
    if said.get("state") != "superseded":
        return []
    by = f": {Ref('memories', said['replaced_by'])} has its place" if "replaced_by" in said else ""
    return [f"recall does not find {ref}, which was superseded{by}"]


def _locked(conn: DeadlineConnection, ref: Ref, old: Any) -> Any:
    """Wait for whoever writes in the memory's theme, then return the memory; nobody can change it from here on."""
    lock_theme(conn, old.theme)
    now = memory(conn, ref)
    if (now.theme, now.content) != (old.theme, old.content):
        raise _changed_meanwhile(old)
    return now


def embed_edited(context: CommandContext, done: Outcome) -> None:
    """Embed edited memories again, if that is possible now."""
    for row in done.rows if done.done else ():
        if row["content"] != row["was"] or row["changes"].get("state", ("", ""))[1] == "active":
            row |= embed_now(context, row["theme"], row["id"], row["content"])


def _new_text(context: CommandContext, old: Any, text: str | None) -> tuple[str, list[str]]:
    return (old.content, []) if text is None else masked(context.keep, text)


def _rewrite(
    context: CommandContext, conn: DeadlineConnection, old: Any, content: str, who: Mapping[str, Any]
) -> list[str]:
    """Change a memory's text; return notes about it."""
    entry = entry_of(old)
    _check_unsaid(conn, old.theme, entry, content)
    in_files, origin = context.in_files()
    if not _replace(conn, old.theme, entry, content, in_files, origin, who):
        raise _changed_meanwhile(old)
    if not context.settings.history_texts:
        memories.forget_old_texts(conn, old.theme, [old.id])
    return still_in_files(conn, {old.theme: [entry]}, in_files, origin)


def _changed(now: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the changes that differ from the present values."""
    stored = memories.columns_of(Structure(**changes))
    stored |= {"pinned": stored["pinned"] or None, "when": stored["applies_when"]}
    return {name: value for name, value in changes.items() if stored.get(name, value) != now.get(name)}


def _both(name: str, was: Any, now: Any) -> tuple[Any, Any]:
    """Return a value before and after the change, in the form for display."""
    if name == "expires_at" and now is not None:
        now = datetime.fromtimestamp(now, UTC)
    shown = [stored_rows.structure_as_json({} if each is None else {name: each}).get(name) for each in (was, now)]
    return shown[0], shown[1]


def _restructure(
    conn: DeadlineConnection, old: Any, content: str, now: Mapping[str, Any], changed: Mapping[str, Any]
) -> None:
    """Write the properties of a memory besides its text. One that becomes current for a subject counts as said now."""
    stored_rows.check_turns(conn, changed.get("sources") or ())
    said = {name: value for name, value in now.items() if name in _KEPT}
    if "expires_at" in said:
        said["expires_at"] = said["expires_at"].timestamp()
    merged = Structure(**{**said, **changed}).settled()
    row = memories.columns_of(merged) | {"theme": old.theme, "target": old.kind, "id": old.id, "content": content}
    row |= {"at": datetime.now(UTC), "anew": merged.state == "active" and bool(changed.keys() & _MATTERS)}
    if (replaced := changed.get("replaces")) is not None:
        row["replaced"] = replaced
        if not conn.execute(query("supersede_memory"), row).rowcount:
            raise InvalidArgument(f"the theme {old.theme!r} holds no other memory m{replaced} that could be replaced")
        conn.execute(query("note_replaced"), row)
    if not conn.execute(_query("edit_structure"), row).rowcount:
        raise _changed_meanwhile(old)


def _changed_meanwhile(old: Any) -> InvalidArgument:
    return InvalidArgument(f"m{old.id} was changed by somebody else just now; nothing was done: look again")


def _replace(
    conn: DeadlineConnection,
    theme: str,
    old: Entry,
    content: str,
    in_files: Collection[tuple[str, str]],
    origin: str,
    who: Mapping[str, Any],
) -> bool:
    """Change a memory's text but not its number and age; return False if it is not `old` any more.

    The old text is not read in again from a file that still holds it.
    """
    now = datetime.now(UTC)
    told = {
        "theme": theme, "target": old.target, "id": old.id, "at": now, "noted_at": now, "origin": origin,
        "announced": False,
    }  # fmt: skip
    memories.note_actor(conn, who)
    said = parse_notation(content) or PLAIN
    changed = told | memories.columns_of(said.settled()) | {"said_kind": said.kind, "content": content}
    changed |= {"old_content": old.content, "metadata": Jsonb(without_verb(who))}
    if not conn.execute(_query("edit_memory"), changed).rowcount:
        return False
    conn.execute(_query("bury_text"), told | {"content": old.content})
    conn.execute(query("clear_tombstone"), told | {"content": content})
    if (old.target, old.content) in in_files:
        conn.execute(query("note_mirrored"), told | {"content": old.content})
    return True


def _check_unsaid(conn: DeadlineConnection, theme: str, old: Entry, content: str) -> None:
    other = memories.id_of(conn, theme, old.target, content)
    if other is not None and other != old.id:
        hidden = next(stored_rows.not_recalled(conn, [other]), "")
        raise InvalidArgument(
            f"m{other} says that already, nothing was changed; "
            + (hidden or f"to keep only that one: hermes-pgvector forget m{old.id} --yes")
        )


# -- what editing and forgetting share


def memory(conn: DeadlineConnection, ref: Ref) -> Any:
    """Return a memory by its number: id, theme, kind, at, content. Raises InvalidArgument."""
    if ref.store != "memories":
        raise InvalidArgument(
            f"{ref} is a turn: what was said is not edited, only removed: hermes-pgvector forget {ref}"
        )
    found = stored_rows.rows(conn, "memories", [ref.id])
    if not found:
        raise InvalidArgument(f"there is no memory {ref}; see: hermes-pgvector list")
    one_theme(ref, {row.theme for row in found})
    return found[0]


def entry_of(row: Any) -> Entry:
    """Return the memory in a row of `stored_rows`."""
    return Entry(row.id, row.kind, row.content, row.at, len(row.content))


def still_in_files(
    conn: DeadlineConnection,
    entries: Mapping[str, Sequence[Entry]],
    in_files: Collection[tuple[str, str]],
    origin: str,
) -> list[str]:
    """Return notes if memories, given by theme, are also in this host's memory files, or were in another home's."""
    notes = []
    every = [each for some in entries.values() for each in some]
    if targets := sorted({each.target for each in every if (each.target, each.content) in in_files}):
        names = " and ".join(MEMORY_FILES[target] for target in targets)
        notes.append(
            f"it also stands in this host's {names}, from where it is in every prompt of the profile: remove it there "
            f"by hand, or with {typed('hermes-pgvector relieve')}; it is not read in again"
        )
    if any(memories.held_elsewhere(conn, theme, some, origin) for theme, some in entries.items()):
        notes.append(memories.IN_OTHER_FILES)
    return notes


def record_change(
    conn: DeadlineConnection, verb: str, themes: Sequence[str], what: Mapping[str, Any], done: Mapping[str, int]
) -> None:
    """Add to the operators' log, except for a role confined to some themes, whose changes only the history records."""
    if not row_security.has_own_themes(conn):
        record(conn, verb, {"themes": sorted(set(themes)), **what}, done)
