"""Images of rows at one moment, with what is recorded about their texts elsewhere.

Every function works inside the caller's transaction.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

from ...domain.text import digest
from ...store.connection import DeadlineConnection
from ...store.memories import lock_themes
from ...store.sql import query
from ...store.vectors import STORES
from ..common.refs import Ref

_query = partial(query, package=__package__)


class RowKey(NamedTuple):
    """A row of a theme."""

    theme: str
    ref: Ref


class TextKey(NamedTuple):
    """A memory of a theme, identified by its text: the records about the text outlast the row."""

    theme: str
    target: str
    digest: bytes

    @classmethod
    def of(cls, theme: str, target: str, content: str) -> TextKey:
        """Return the key of a text."""
        return cls(theme, target, digest(content))


@dataclass
class RowImages:
    """The state of rows at one moment, as JSON that Postgres wrote and can read; vectors are left out.

    `marks`: tombstones and content of memory files, by text; `texts`: earlier texts in the history, by theme and by the
    entry's number, as the text and the rest of what restores a removed memory.
    """

    rows: dict[RowKey, str] = field(default_factory=dict)
    marks: dict[TextKey, tuple[str, str]] = field(default_factory=dict)
    texts: dict[tuple[str, int], tuple[str, str | None]] = field(default_factory=dict)

    def of_theme(self, theme: str) -> dict[Ref, str]:
        """Return the rows of one theme."""
        return {key.ref: image for key, image in self.rows.items() if key.theme == theme}

    def chars(self) -> int:
        """Return how many characters the images take."""
        marks = sum(len(each) for pair in self.marks.values() for each in pair)
        texts = sum(len(text) + len(row or "") for text, row in self.texts.values())
        return sum(map(len, self.rows.values())) + marks + texts


def find_themes(conn: DeadlineConnection, refs: Collection[Ref]) -> list[RowKey]:
    """Return these rows with their themes; removed memories are included if the history knows their theme."""
    found = []
    for store in STORES:
        if ids := [ref.id for ref in refs if ref.store == store]:
            rows = conn.execute(_query(f"themes_of_{store}"), {"ids": ids})
            found += [RowKey(row.theme, Ref(store, row.id)) for row in rows]
    return found


def find_session(conn: DeadlineConnection, theme: str, session_id: str) -> list[RowKey]:
    """Return the keys of the turns of a session of a theme."""
    rows = conn.execute(_query("turns_of_session"), {"theme": theme, "session_id": session_id})
    return [RowKey(theme, Ref("turns", row.id)) for row in rows]


def find_subjects(
    conn: DeadlineConnection, theme: str, subjects: Collection[str], ids: Collection[int]
) -> list[RowKey]:
    """Return active memories of some subjects and of the memories' own, also in scopes: they may be superseded."""
    asked = {"theme": theme, "subjects": [each.lower() for each in subjects], "ids": list(ids)}
    return [RowKey(theme, Ref("memories", row.id)) for row in conn.execute(_query("actives_of_subjects"), asked)]


def take_images(conn: DeadlineConnection, keys: Iterable[RowKey], texts: Iterable[TextKey] = ()) -> RowImages:
    """Return images of rows, with the records of their texts and of `texts`; lock the themes' memories from here on."""
    images, noted = RowImages(), set(texts)
    by_theme = ids_by_theme(keys)
    lock_themes(conn, by_theme.keys() | {each.theme for each in noted})
    for theme, ids in by_theme.items():
        noted |= _take_rows(conn, theme, ids, images)
    for theme in by_theme.keys() | {each.theme for each in noted}:
        _take_noted(conn, theme, [each for each in noted if each.theme == theme], by_theme[theme], images)
    return images


def ids_by_theme(keys: Iterable[RowKey]) -> defaultdict[str, dict[str, list[int]]]:
    """Return the ids of rows by theme and store."""
    found: defaultdict[str, dict[str, list[int]]] = defaultdict(lambda: {store: [] for store in STORES})
    for theme, ref in keys:
        found[theme][ref.store].append(ref.id)
    return found


def _take_rows(
    conn: DeadlineConnection, theme: str, ids: Mapping[str, Sequence[int]], images: RowImages
) -> set[TextKey]:
    found = {row.id: row for row in conn.execute(_query("memory_images"), {"theme": theme, "ids": ids["memories"]})}
    for id in filter(found.__contains__, ids["memories"]):
        images.rows[RowKey(theme, Ref("memories", id))] = found[id].image
    if ids["turns"]:
        for row in conn.execute(_query("turn_images"), {"theme": theme, "ids": ids["turns"]}):
            images.rows[RowKey(theme, Ref("turns", row.id))] = row.image
    return {TextKey(theme, row.target, bytes(row.digest)) for row in found.values()}


def _take_noted(
    conn: DeadlineConnection,
    theme: str,
    noted: Sequence[TextKey],
    ids: Mapping[str, Sequence[int]],
    images: RowImages,
) -> None:
    asked = text_names(noted) | {"theme": theme, "ids": ids["memories"]}
    for row in conn.execute(_query("mark_images"), asked):
        images.marks[TextKey(theme, row.target, bytes(row.digest))] = (row.tombstones, row.mirrored)
    for row in conn.execute(_query("history_images"), asked):
        images.texts[theme, row.id] = (row.old_content, row.old_row)


def text_names(noted: Iterable[TextKey]) -> dict[str, list[Any]]:
    """Return the parameters that identify texts of a theme."""
    some = list(noted)
    return {"targets": [each.target for each in some], "digests": [each.digest for each in some]}
