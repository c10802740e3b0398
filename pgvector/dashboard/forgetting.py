"""Memories, turns and sessions that the page forgets."""

from __future__ import annotations

from typing import Any

from ..admin.common.command_context import CommandContext
from ..admin.common.outcome import Outcome, counted
from ..admin.common.refs import Ref
from ..admin.common.spool_views import drop_kept
from ..admin.common.theme_names import theme_of_session, theme_to_read
from ..admin.edit import forget_rows
from ..admin.edit.row_images import find_session, find_themes
from ..domain.errors import InvalidArgument
from ..store.connection import DeadlineConnection
from .change import OPEN_S, PLACE, Plan, Watched, make_change
from .desk import Desk
from .page_route import PageRoute
from .params import Params

_REFS_MOST = 1_000
_BACK = "bring back what was forgotten"


def _forget(desk: Desk, params: Params) -> dict[str, Any]:
    context, refs, dry_run = desk.context(OPEN_S), params.refs(), params.flag("dry_run")
    if len(refs) > _REFS_MOST:
        raise InvalidArgument(f"at most {_REFS_MOST:,} rows are forgotten at once, not {len(refs):,}")
    named = params.optional("theme")

    def do(conn: DeadlineConnection) -> Outcome:
        theme = None if named is None else theme_to_read(conn, named, desk.rules, desk.home)
        return forget_rows.forget_in(conn, context, refs, theme=theme, really=not dry_run, verb=PLACE + "forget")

    plan = Plan(
        "forget",
        _BACK,
        lambda conn: _watch(conn, refs),
        do,
        _says,
        lambda done: forget_rows.drop_spooled(context, done),
    )
    return make_change(desk, context, plan, dry_run=dry_run)


def _watch(conn: DeadlineConnection, refs: list[Ref]) -> Watched:
    return Watched(find_themes(conn, refs))


def _says(done: Outcome) -> str:
    return f"{'forgotten' if done.done else 'would forget'}: {counted(done.counts)}"


def _forget_session(desk: Desk, params: Params) -> dict[str, Any]:
    context, session, dry_run = desk.context(OPEN_S), params.needed("session"), params.flag("dry_run")

    def theme(conn: DeadlineConnection) -> str:
        return theme_of_session(conn, session, params.optional("theme"), desk.rules)

    def watch(conn: DeadlineConnection) -> Watched:
        return Watched(find_session(conn, theme(conn), session))

    def do(conn: DeadlineConnection) -> Outcome:
        verb = PLACE + "forget"
        return forget_rows.forget_session_in(conn, theme(conn), session, really=not dry_run, verb=verb)

    plan = Plan("forget", _BACK, watch, do, _says, lambda done: _drop_kept(context, done, session))
    return make_change(desk, context, plan, dry_run=dry_run)


def _drop_kept(context: CommandContext, done: Outcome, session: str) -> list[str]:
    for theme in {row["theme"] for row in done.rows}:
        drop_kept(context.home, theme, session)
    return []


ROUTES: tuple[PageRoute, ...] = (
    PageRoute("/forget", _forget, changes=True),
    PageRoute("/forget-session", _forget_session, changes=True),
)
