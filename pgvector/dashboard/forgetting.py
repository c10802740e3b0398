"""Memories, turns and sessions that the page forgets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..admin.common.command_context import CommandContext
from ..admin.common.outcome import Outcome, counted
from ..admin.common.theme_names import theme_of_session, theme_to_read
from ..admin.edit import forget_rows
from ..admin.edit.row_images import RowImages, TextKey, find_session, find_themes
from ..domain.errors import InvalidArgument
from ..domain.types import MEMORY_FILES
from ..store.connection import DeadlineConnection
from .change import OPEN_S, PLACE, Plan, Watched, make_change
from .page_route import PageRoute
from .params import Params
from .served_homes import ServedHome

_REFS_MOST = 1_000
_NAMED = 3  # of memories with several owners
_BACK = "bring back what was forgotten"


def _forget(served: ServedHome, params: Params) -> dict[str, Any]:
    context, refs, dry_run = served.context(OPEN_S), params.refs(), params.flag("dry_run")
    if len(refs) > _REFS_MOST:
        raise InvalidArgument(f"at most {_REFS_MOST:,} rows are forgotten at once, not {len(refs):,}")
    named = params.optional("theme")

    def do(conn: DeadlineConnection) -> Outcome:
        theme = None if named is None else theme_to_read(conn, named, served.rules, served.home)
        done = forget_rows.forget(conn, context, refs, theme=theme, really=not dry_run, verb=PLACE + "forget")
        done.notes += forget_rows.drop_spooled(context, done, really=False) if dry_run else []
        return done

    plan = Plan(
        "forget",
        _BACK,
        lambda conn: Watched(find_themes(conn, refs)),
        do,
        _says,
        lambda done: forget_rows.drop_spooled(context, done),
        _other_owners,
    )
    return make_change(served, context, plan, params)


def _other_owners(before: RowImages) -> list[str]:
    """Return a note on memories with several owners, each of which could give up its own alone."""
    kept = {
        str(key.ref): _owners(before, key.theme, json.loads(image))
        for key, image in before.rows.items()
        if key.ref.store == "memories"
    }
    several = [f"{ref} ({', '.join(owners)})" for ref, owners in kept.items() if len(owners) > 1]
    if not several:
        return []
    more = f" and {len(several) - _NAMED:,} more" if len(several) > _NAMED else ""
    return [f"kept by several: {', '.join(several[:_NAMED])}{more}; it goes for all of them"]


def _owners(before: RowImages, theme: str, row: Mapping[str, Any]) -> list[str]:
    _, mirrored = before.marks[TextKey.of(theme, row["target"], row["content"])]
    files = len(json.loads(mirrored))
    homes = [] if not files else [MEMORY_FILES[row["target"]] + (f" of {files} homes" if files > 1 else "")]
    return [*row["owners"], *homes]


def _says(done: Outcome) -> str:
    return f"{'forgotten' if done.done else 'would forget'}: {counted(done.counts)}"


def _forget_session(served: ServedHome, params: Params) -> dict[str, Any]:
    context, session, dry_run = served.context(OPEN_S), params.needed("session"), params.flag("dry_run")

    def theme(conn: DeadlineConnection) -> str:
        return theme_of_session(conn, session, params.optional("theme"), served.rules)

    def watch(conn: DeadlineConnection) -> Watched:
        return Watched(find_session(conn, theme(conn), session))

    def do(conn: DeadlineConnection) -> Outcome:
        verb, where = PLACE + "forget", theme(conn)
        done = forget_rows.forget_session(conn, where, session, really=not dry_run, verb=verb)
        if dry_run:
            done.notes += forget_rows.drop_spooled_session(context.home, where, session, really=False)
        return done

    plan = Plan("forget", _BACK, watch, do, _says, lambda done: _drop_spooled(context, done, session))
    return make_change(served, context, plan, params)


def _drop_spooled(context: CommandContext, done: Outcome, session: str) -> list[str]:
    themes = sorted({row["theme"] for row in done.rows})
    return [note for theme in themes for note in forget_rows.drop_spooled_session(context.home, theme, session)]


ROUTES: tuple[PageRoute, ...] = (
    PageRoute("/forget", _forget, changes=True),
    PageRoute("/forget-session", _forget_session, changes=True),
)
