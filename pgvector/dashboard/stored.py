"""Memories, turns and sessions as they are stored."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from ..admin.browse import browsing
from ..admin.browse.browsing import RowFilter
from ..admin.common.operators import clock
from ..admin.common.row_options import Page
from ..admin.common.theme_names import theme_of_session, theme_to_read
from ..domain.facts import KINDS, STATES
from ..domain.theme import ROLES
from ..domain.types import TARGETS, Store
from ..store.connection import DeadlineConnection
from .page_route import PageRoute
from .params import Params
from .rows import LISTED_CHARS, as_rows
from .served_homes import ServedHome
from .word_diff import Diff, WordDiffs

ROW_CHARS = 200_000  # of the text of one row
_COMPARED_CHARS = 50_000  # of the texts before and after a change
_EVENT_CHARS = 300  # of the text that an event left behind
_EVENT = ("ref", "action", "at", "by", "theme", "target", "chars", "old_chars", "old_theme")


def memories(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return a page of the memories of a theme, the most recently written first."""
    wanted = RowFilter(
        params.choice("target", TARGETS),
        params.optional("session"),
        params.flag("pending"),
        params.choice("kind", KINDS),
        params.choice("state", STATES),
    )
    return _listed(served, params, "memories", wanted)


def turns(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return a page of the turns of a theme, newest first."""
    wanted = RowFilter(params.choice("role", ROLES), params.optional("session"), params.flag("pending"))
    return _listed(served, params, "turns", wanted)


def _listed(served: ServedHome, params: Params, store: Store, wanted: RowFilter) -> Mapping[str, Any]:
    page = params.page()
    with _theme(served, params) as (conn, theme):
        found = browsing.listed(conn, store, theme, _and_one(page), wanted, chars=LISTED_CHARS)
        return _page_of(as_rows(conn, served, store, found[: page.limit]), found, page)


def sessions(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return a page of the sessions of a theme, the most recently active first."""
    page = params.page()
    with _theme(served, params) as (conn, theme):
        found = browsing.sessions(conn, theme, _and_one(page))
    return _page_of([_session_row(theme, row) for row in found[: page.limit]], found, page)


def session(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return a session and a page of what was said in it, oldest first."""
    name, page = params.needed("session"), params.page()
    with served.reading() as conn:
        theme = theme_of_session(conn, name, params.optional("theme"), served.rules)
        whole = browsing.session(conn, theme, name)
        found = browsing.said_in(conn, theme, name, limit=page.limit + 1, offset=page.offset, chars=LISTED_CHARS)
        rows = as_rows(conn, served, "turns", found[: page.limit])
    private = {"private": not served.chats.opens(theme)}
    return _session_row(theme, whole | {"session_id": name}) | private | _page_of(rows, found, page)


def _session_row(theme: str, row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("session_id", "title", "first_at", "last_at", "turns", "parent_session_id")
    return {"theme": theme} | {name: row[name] for name in names}


def row(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return one row with all that is known of it."""
    ref = params.ref()
    with served.reading() as conn:
        found = browsing.shown(conn, ref, params.optional("theme"), served.rules, chars=ROW_CHARS)
        shown: dict[str, Any] = {
            "id": ref.id,
            "at": None,
            "session_id": _text(found.get("metadata", {}).get("session_id")),
            "source": _text(found.get("metadata", {}).get("source")),
            "content": "",
            "chars": 0,
            "pending": False,
        } | found
        more = {name: value for name, value in shown.items() if name not in ("id", "history")}
        answer = more | as_rows(conn, served, ref.store, [shown])[0]
        # Of a row that is gone, the theme is all that is known.
        answer["private"] |= not served.chats.opens(answer["theme"])
        if "history" in found:
            answer["history"] = _events(conn, served, found["history"])
    return answer


def history(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return a page of what happened to the memories of a theme, or of all, newest first."""
    action, given = params.choice("action", browsing.ACTIONS), params.optional("theme")
    with served.reading() as conn:
        page = params.page(clock(conn)[0])  # the server dates what is done
        theme = None if given is None else theme_to_read(conn, given, served.rules, served.home)
        found = browsing.happened(conn, theme, _and_one(page), action=action, chars=_COMPARED_CHARS)
        events = _events(conn, served, found[: page.limit])
    return _page_of(events, found, page)


def _events(conn: DeadlineConnection, served: ServedHome, found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    replaced = [each["event_id"] for each in found if each["action"] == "replaced"]
    after, diffs = browsing.texts_after(conn, replaced, chars=_COMPARED_CHARS), WordDiffs()
    others = [each["event_id"] for each in found if each["action"] not in ("replaced", "removed")]
    left = browsing.texts_after(conn, others, chars=_EVENT_CHARS)
    left |= {id: text[:_EVENT_CHARS] for id, text in after.items()}
    return [
        {name: each[name] for name in _EVENT if name in each}
        | {"session_id": _text(each["who"].get("session_id")), "diff": _diff(each, after.get(each["event_id"]), diffs)}
        | {"private": not served.chats.opens(each["theme"])}
        | {"content": left.get(each["event_id"])}
        for each in found
    ]


def _text(value: object) -> str | None:
    """Return a text, None for what else JSON may hold in its place."""
    return value if isinstance(value, str) else None


def _diff(event: Mapping[str, Any], after: str | None, diffs: WordDiffs) -> Diff | None:
    """Return the diff that an event made to the text, None if there is none or the texts are not kept."""
    before = event.get("old_content")
    if event["action"] == "removed":
        after = ""
    if before is None or after is None:
        return None
    # If the texts are cut, what follows the change has to end at the same place in both.
    longer = event["chars"] - event.get("old_chars", event["chars"]) if len(after) == _COMPARED_CHARS else 0
    return diffs.diff(before[: _compared(-longer)], after[: _compared(longer)])


def _compared(longer: int) -> int:
    """Return how many characters are compared of a text that is longer than the other by so many."""
    return max(0, _COMPARED_CHARS + min(0, longer))


@contextmanager
def _theme(served: ServedHome, params: Params) -> Iterator[tuple[DeadlineConnection, str]]:
    """Yield a read-only transaction and the theme that is meant."""
    given = params.needed("theme")
    with served.reading() as conn:
        yield conn, theme_to_read(conn, given, served.rules, served.home)


def _and_one(page: Page) -> Page:
    """Return the page with the row after it, which tells whether there are more."""
    return replace(page, limit=page.limit + 1)


def _page_of(rows: list[dict[str, Any]], found: Sequence[Any], page: Page) -> dict[str, Any]:
    return {"rows": rows, "more": len(found) > page.limit}


ROUTES = (
    PageRoute("/memories", memories),
    PageRoute("/turns", turns),
    PageRoute("/sessions", sessions),
    PageRoute("/session", session),
    PageRoute("/row", row),
    PageRoute("/history", history),
)
