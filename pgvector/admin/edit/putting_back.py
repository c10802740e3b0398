"""What a change did to rows, and how to undo it.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from ...domain.errors import InvalidArgument
from ...domain.types import Store
from ...store.connection import DeadlineConnection
from ...store.memories import note_actor
from ...store.sql import query
from ...store.vectors import STORES, PendingRow
from ..common.fetching import one
from ..common.outcome import first_of
from ..common.refs import Ref
from ..common.row_security import has_own_themes
from .editing import record_change
from .row_images import RowImages, RowKey, TextKey, ids_by_theme, take_images, text_names

_query = partial(query, package=__package__)
_NAMED = 5  # rows named in an error
_NOTHING_DONE = "nothing was done"
_K = TypeVar("_K")
_V = TypeVar("_V")


@dataclass(frozen=True)
class RowChange:
    """The rows and marks that a change touched, with their previous state, and checksums of the state it left.

    Of earlier texts in the history, `before` has the removed ones. `log_end` is the last entry of the operators' log
    then.
    """

    before: RowImages
    after: Mapping[RowKey, str]
    marked: Mapping[TextKey, tuple[str, str]]
    at: datetime
    log_end: int = 0

    def touched(self) -> list[RowKey]:
        """Return the rows concerned."""
        return list({**self.before.rows, **self.after})

    def themes(self) -> list[str]:
        """Return the themes in which it changed anything."""
        themes = {key.theme for key in self.touched()} | {key.theme for key in self.marked}
        return sorted(themes | {theme for theme, _ in self.before.texts})

    def sessions(self) -> list[str]:
        """Return the sessions whose turns it deleted."""
        turns = (json.loads(image) for key, image in self.before.rows.items() if key.ref.store == "turns")
        return sorted({turn["session_id"] for turn in turns})

    def added(self, theme: str) -> dict[str, list[int]]:
        """Return the ids of rows of a theme that it added, by store."""
        new = [key for key in self.after if key not in self.before.rows]
        return ids_by_theme(new)[theme]


def find_change(conn: DeadlineConnection, before: RowImages, after: RowImages) -> RowChange:
    """Return the difference between images of rows taken before and after a change within this transaction."""
    now = one(conn, _query("moment"))
    log = None if has_own_themes(conn) else conn.execute(_query("log_end")).fetchone()  # not for a confined role
    marks = {key: mark for key, mark in before.marks.items() if after.marks[key] != mark}
    return RowChange(
        RowImages(_other_than(before.rows, after.rows), marks, _lacking_in(before.texts, after.texts)),
        {key: _checksum(image) for key, image in _other_than(after.rows, before.rows).items()},
        {key: _checksums(after.marks[key]) for key in marks},
        now.at,
        0 if log is None else log.id,
    )


def _other_than(these: Mapping[_K, _V], those: Mapping[_K, _V]) -> dict[_K, _V]:
    return {key: value for key, value in these.items() if those.get(key) != value}


def _lacking_in(these: Mapping[_K, _V], those: Mapping[_K, _V]) -> dict[_K, _V]:
    return {key: value for key, value in these.items() if key not in those}


def _checksum(image: str) -> str:
    return hashlib.sha256(image.encode()).hexdigest()


def _checksums(mark: tuple[str, str]) -> tuple[str, str]:
    return _checksum(mark[0]), _checksum(mark[1])


def put_back(
    conn: DeadlineConnection, change: RowChange, who: Mapping[str, Any], *, keep_texts: bool
) -> list[PendingRow]:
    """Undo a change; raise InvalidArgument if the rows are not as the change left them.

    `who` is for the history; with `keep_texts` it keeps the texts that the rows had in between. Return the rows that
    now lack a vector.
    """
    now = take_images(conn, change.touched(), change.before.marks)
    _check_log(conn, change)
    _check_as_left(now, change)
    note_actor(conn, who)
    for theme in change.themes():
        _put_back_rows(conn, theme, change, now)
        _put_back_marks(conn, theme, change, now)
        _put_back_texts(conn, theme, now, change)
        if not keep_texts:
            ids = ids_by_theme(change.touched())[theme]["memories"]
            conn.execute(query("forget_old_texts"), {"theme": theme, "ids": ids})
    if take_images(conn, change.touched()).rows != change.before.rows:
        raise InvalidArgument(f"something else has taken the place of what stood there since; {_NOTHING_DONE}")
    undone = {"undone": change.at.isoformat()}
    record_change(conn, who["verb"], change.themes(), undone, {"rows": len(change.touched())})
    return [row for store in STORES for theme in change.themes() for row in _lacking(conn, store, theme, change)]


def _check_log(conn: DeadlineConnection, change: RowChange) -> None:
    """Raise InvalidArgument if what would come back was since renamed, deleted or forgotten as part of more."""
    if not change.log_end:
        return
    asked = {
        "themes": change.themes(), "sessions": change.sessions(), "log_end": change.log_end,
        "refs": [str(key.ref) for key in change.before.rows],
    }  # fmt: skip
    row = conn.execute(_query("done_since"), asked).fetchone()
    if row is not None:
        what = {
            "theme": f"the theme {row.name!r} is gone since",
            "session": f"the session {row.name!r} was forgotten since",
            "texts": "what it said before was forgotten since",
        }[row.kind]
        raise InvalidArgument(f"{what}, so this can no longer be undone; {_NOTHING_DONE}")


def _check_as_left(now: RowImages, change: RowChange) -> None:
    left = {key: _checksum(image) for key, image in now.rows.items()}
    changed = [str(key.ref) for key in change.touched() if left.get(key) != change.after.get(key)]
    if changed:
        names = first_of(changed, _NAMED)
        raise InvalidArgument(f"changed since, so that this cannot be undone now: {names}; {_NOTHING_DONE}")
    if any(_is_buried_anew(now.marks[key][0], left) for key, (left, _) in change.marked.items()):
        raise InvalidArgument(f"a text of it was forgotten again since, so it does not come back; {_NOTHING_DONE}")


def _is_buried_anew(tombstones: str, left: str) -> bool:
    return json.loads(tombstones) != [] and _checksum(tombstones) != left


def _put_back_rows(conn: DeadlineConnection, theme: str, change: RowChange, now: RowImages) -> None:
    """Delete added rows, insert deleted ones, then restore the content of the others, in the order of `before`."""
    new = change.added(theme)
    conn.execute(_query("delete_memories"), {"theme": theme, "ids": new["memories"]})
    conn.execute(query("delete_turns"), {"theme": theme, "ids": new["turns"]})
    before, there = change.before.of_theme(theme), now.of_theme(theme)
    _check_unsaid(conn, theme, [image for ref, image in before.items() if ref.store == "memories"])
    gone = _lacking_in(before, there)
    for store in STORES:
        images = [image for ref, image in gone.items() if ref.store == store]
        conn.execute(_query(f"insert_{store}_images"), {"theme": theme, "images": images})
    for ref, image in _lacking_in(before, gone).items():
        row = {"theme": theme, "id": ref.id, "image": image}
        conn.execute(_query("put_back_text"), row)
        conn.execute(_query("put_back_memory"), row)


def _check_unsaid(conn: DeadlineConnection, theme: str, images: Sequence[str]) -> None:
    row = conn.execute(_query("says_it_already"), {"theme": theme, "images": list(images)}).fetchone()
    if row is not None:
        name = Ref("memories", row.id)
        raise InvalidArgument(f"{name} says that already, so this cannot be undone now; {_NOTHING_DONE}")


def _put_back_marks(conn: DeadlineConnection, theme: str, change: RowChange, now: RowImages) -> None:
    """Restore tombstones and the recorded content of memory files, unless a file was read again since."""
    marks = {
        key: mark
        for key, mark in change.before.marks.items()
        if key.theme == theme and _checksums(now.marks[key]) == change.marked[key]
    }
    row = text_names(marks) | {"theme": theme}
    row |= {name: [mark[at] for mark in marks.values()] for at, name in enumerate(("tombstones", "mirrored"))}
    for statement in ("drop_tombstones", "drop_mirrored", "put_back_tombstones", "put_back_mirrored"):
        conn.execute(_query(statement), row)


def _put_back_texts(conn: DeadlineConnection, theme: str, now: RowImages, change: RowChange) -> None:
    """Restore texts that the change removed from the history, and those recorded for rows that are deleted again."""
    texts = [(id, *text) for (of, id), text in {**now.texts, **change.before.texts}.items() if of == theme]
    if texts:
        ids, contents, rows = (list(each) for each in zip(*texts, strict=True))
        conn.execute(_query("put_back_history"), {"theme": theme, "ids": ids, "contents": contents, "rows": rows})


def _lacking(conn: DeadlineConnection, store: Store, theme: str, change: RowChange) -> list[PendingRow]:
    ids = ids_by_theme(change.before.rows)[theme][store]
    rows = conn.execute(_query(f"lacking_vectors_{store}"), {"theme": theme, "ids": ids})
    return [PendingRow(store, row.id, theme, row.content) for row in rows]
