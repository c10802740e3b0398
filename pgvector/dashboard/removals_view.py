"""Removals that wait for a decision, and memories that can be restored."""

from __future__ import annotations

from typing import Any, get_args

from ..admin.common import stored_rows
from ..admin.common.operators import author, clock
from ..admin.common.outcome import Outcome, counted
from ..admin.common.row_options import WHOLE
from ..admin.edit import removals
from ..admin.edit.removals import Decision
from ..admin.edit.row_images import TextKey, find_themes
from ..domain.errors import InvalidArgument
from ..domain.format import plural
from ..store.connection import DeadlineConnection
from ..store.vectors import PendingRow
from .change import OPEN_S, PLACE, WRITE_S, Plan, Watched, embed_rows, make_change
from .page_route import PageRoute
from .params import Params
from .served_homes import ServedHome


def _held(served: ServedHome, params: Params) -> dict[str, Any]:
    theme, page = params.optional("theme"), params.page()
    with served.reading() as conn:
        found = removals.held(conn, served.home, served.settings.removal_hold_days)
    return _page(served, page.limit, [row for row in found if theme in (None, row["theme"])][page.offset :])


def _removed(served: ServedHome, params: Params) -> dict[str, Any]:
    theme = params.optional("theme")
    with served.reading() as conn:
        page = params.page(clock(conn)[0])  # the server dates removals
        found = removals.removed(conn, theme=theme, since=page.since, limit=page.limit + 1, offset=page.offset)
    return _page(served, page.limit, [each.row(None) | {"by": author(each.who, "")} for each in found])


def _page(served: ServedHome, limit: int, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the first rows, and whether there are more."""
    return {
        "rows": [
            row | {"cut": row["chars"] > len(row["content"]), "private": not served.chats.opens(row["theme"])}
            for row in rows[:limit]
        ],
        "more": len(rows) > limit,
    }


# -- changes


def _decide(served: ServedHome, params: Params) -> dict[str, Any]:
    context, refs = served.context(OPEN_S), params.refs()
    if params.choice("decision", get_args(Decision)) is None:
        raise InvalidArgument("decision is missing: confirm or dismiss")
    decision: Decision = "confirm" if params.text("decision") == "confirm" else "dismiss"

    def do(conn: DeadlineConnection) -> Outcome:
        days = served.settings.removal_hold_days
        return removals.decide(conn, served.home, days, decision, refs, really=True, place=PLACE)

    def says(done: Outcome) -> str:
        what = plural(done.counts["memories"], "memory", "memories")
        if decision == "dismiss":
            return f"{'kept' if done.done else 'would keep'} {what}, whatever the file holds"
        return f"{'removed' if done.done else 'would remove'} {what}, which can be restored for a while"

    plan = Plan(
        f"removals {decision}",
        "let it wait for a decision again",
        lambda conn: Watched(find_themes(conn, refs)),
        do,
        says,
    )
    return make_change(served, context, plan, params)


def _restore(served: ServedHome, params: Params) -> dict[str, Any]:
    context, refs = served.context(OPEN_S), params.refs()
    if turns := ", ".join(str(ref) for ref in refs if ref.store == "turns"):
        raise InvalidArgument(f"{turns}: only memories can be brought back, turns are gone for good")

    def watch(conn: DeadlineConnection) -> Watched:
        found = removals.removed(conn, ids=[ref.id for ref in refs], chars=WHOLE)
        return Watched(find_themes(conn, refs), [TextKey.of(each.theme, each.target, each.content) for each in found])

    def do(conn: DeadlineConnection) -> Outcome:
        return removals.restore(conn, refs=refs, theme=None, since=None, really=True, verb=PLACE + "restore")

    def says(done: Outcome) -> str:
        return f"{'restored' if done.done else 'would restore'}: {counted(done.counts)}"

    def embed(done: Outcome) -> list[str]:
        with context.backend.connection(WRITE_S) as conn:
            found = stored_rows.rows(conn, "memories", [row["id"] for row in done.rows])
        return embed_rows(context, [PendingRow("memories", row.id, row.theme, row.content) for row in found])

    return make_change(served, context, Plan("restore", "take it out again", watch, do, says, embed), params)


ROUTES: tuple[PageRoute, ...] = (
    PageRoute("/removals", _held),
    PageRoute("/removed", _removed),
    PageRoute("/removals", _decide, changes=True),
    PageRoute("/restore", _restore, changes=True),
)
