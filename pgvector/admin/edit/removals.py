"""Removals by the host's memory files: those that wait for a decision, and memories brought back."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from ...capture.mirror import Mirror
from ...domain.errors import InvalidArgument
from ...domain.records import MEMORY_FILES
from ...store.audit_log import operator, record_where_allowed
from ...store.connection import DeadlineConnection, translated
from ...store.history import note_actor
from ..common import held_removals, history_rows
from ..common.held_removals import HeldRemoval
from ..common.refs import Ref
from .corrections import Correction

_CHARS = 300  # of one text

Decision = Literal["confirm", "dismiss"]


def held(conn: DeadlineConnection, home: Path, days: float) -> list[dict[str, Any]]:
    """Return the memories whose removal waits, with the file that lacks them and until when it is asked about."""
    origin = Mirror(home).origin
    with translated():
        return [_row(each, origin, days) for each in held_removals.held(conn, chars=_CHARS)]


def _row(each: HeldRemoval, origin: str, days: float) -> dict[str, Any]:
    where = MEMORY_FILES[each.target] + ("" if each.origin == origin else " of another home")
    return {
        "ref": str(Ref("memories", each.id)),
        "id": each.id,
        "theme": each.theme,
        "target": each.target,
        "content": each.content,
        "chars": each.chars,
        "file": where,
        "why": each.why,
        "held_at": each.held_at.isoformat(timespec="seconds"),
        "stays_from": (each.held_at + timedelta(days=days)).isoformat(timespec="seconds"),
    }


def decide(
    conn: DeadlineConnection, home: Path, days: float, decision: Decision, refs: Sequence[Ref] | None, *, really: bool
) -> Correction:
    """Remove held memories (`confirm`) or keep them (`dismiss`): those of `refs`, or with None all.

    Raises InvalidArgument for a number that names none of them.
    """
    with translated(), conn.transaction():
        waiting = held_removals.held(conn, chars=_CHARS)
        chosen = waiting if refs is None else [each for each in waiting if Ref("memories", each.id) in refs]
        if missing := [str(ref) for ref in refs or () if ref not in {Ref("memories", each.id) for each in chosen}]:
            raise InvalidArgument(f"no removal of {', '.join(missing)} waits; see: hermes-pgvector removals list")
        if really and decision == "confirm":
            note_actor(conn, operator("removals confirm"), origin=_origin_of(chosen), keep_removed=True)
            held_removals.confirm(conn, chosen)
        elif really:
            held_removals.dismiss(conn, sorted({each.id for each in chosen}))
        counts = {"memories": len({each.id for each in chosen})}
        if really and chosen:
            themes = sorted({each.theme for each in chosen})
            record_where_allowed(conn, f"removals {decision}", {"themes": themes}, counts)
    origin = Mirror(home).origin
    return Correction(f"removals {decision}", really, [_row(each, origin, days) for each in chosen], counts)


def _origin_of(chosen: Sequence[HeldRemoval]) -> str:
    origins = {each.origin for each in chosen}
    return origins.pop() if len(origins) == 1 else ""


def restore(
    conn: DeadlineConnection,
    *,
    refs: Sequence[Ref] | None,
    theme: str | None,
    since: datetime | None,
    really: bool,
) -> Correction:
    """Bring back memories that a memory file let go of, with their themes, times and metadata.

    Raises InvalidArgument for a number of which nothing is kept.
    """
    ids = None if refs is None else [ref.id for ref in refs]
    with translated(), conn.transaction():
        found = history_rows.removed(conn, theme=theme, ids=ids, since=since, chars=_CHARS)
        if missing := [str(ref) for ref in refs or () if ref.id not in {each.id for each in found}]:
            raise InvalidArgument(
                f"nothing of {', '.join(missing)} is kept that could be brought back: it stands there, was forgotten, "
                "or went too long ago; what can be brought back: hermes-pgvector restore --dry-run"
            )
        numbers: dict[int, int] = {}
        if really and found:
            note_actor(conn, operator("restore"))
            numbers = history_rows.restore(conn, found)
            themes = sorted({each.theme for each in found})
            record_where_allowed(conn, "restore", {"themes": themes}, {"memories": len(numbers)})
    rows = [
        {
            "ref": str(Ref("memories", numbers.get(each.removal, each.id))),
            "id": numbers.get(each.removal, each.id),
            "theme": each.theme,
            "target": each.target,
            "content": each.content,
            "chars": each.chars,
            "removed_at": each.at.astimezone(UTC).isoformat(timespec="seconds"),
        }
        for each in found
    ]
    return Correction("restore", really, rows, {"memories": len(rows)})
