"""The host's own memory files: what a reading of them changes, and removals that wait for confirmation.

A file that vanished, was emptied or damaged, or lost much at once removes nothing by itself: its entries stay, and are
held until somebody confirms or dismisses their removal, or the file holds them again. Every function works inside the
caller's transaction.
"""

from __future__ import annotations

import logging
import math
from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final

from ..domain.gil import yielding_gil
from ..domain.operations import ReconcileFile
from ..domain.types import MEMORY_FILES
from .connection import DeadlineConnection
from .memories import StoreWriter, of_file
from .sql import query

logger = logging.getLogger(__name__)

WHY: Final = {"missing": "is missing", "empty": "is empty", "damaged": "is damaged", "shorter": "lost much at once"}
_MANY = 3  # losing so many entries at once, and half of the file or more, is no edit by hand
_ALIKE = 0.5  # share of common pairs of characters from which a new entry is an edited old one
_COMPARED_CHARS = 2000
LONG = 500  # entries that one transaction imports; on a busy server one with thousands would time out again and again


def reconcile(write: StoreWriter, op: ReconcileFile) -> None:
    """Apply a reading of one file: import new entries, drop those taken out, hold those lost at once."""
    row, changes = _difference(write, op)
    for change in changes["buried"]:
        # Record it as seen; otherwise it would count as new when somebody edits another line of this file.
        write.conn.execute(query("note_mirrored"), _entry(write, op, change))
        write.counts["memories_kept_removed"] += 1
    for change in changes["theirs"]:
        write.conn.execute(query("note_mirrored"), _entry(write, op, change) | {"theme": change.theme})
    if back := changes["back"]:
        write.conn.execute(query("withdraw_removals"), row | {"digests": [each.digest for each in back]})
        write.counts["removals_withdrawn"] += len(back)
    if moved := changes["moved"]:
        write.conn.execute(query("keep_relieved"), row | _of_themes(moved))
    # Before the import: a line that a new one takes the place of is not superseded, so it is current if it comes back.
    if changes["gone"]:
        _part_with_gone(write, op, row, changes)
    for change in _in_order(op, changes["new"]):
        _import(write, op, change)


def import_ahead(write: StoreWriter, op: ReconcileFile) -> bool:
    """Import the first new entries of a long file; return False if what is left fits into one transaction.

    Nothing is dropped: that needs the whole file, and is done when the operation is applied.
    """
    _, changes = _difference(write, op)
    if len(new := _in_order(op, changes["new"])) <= LONG:
        return False
    for change in new[:LONG]:
        _import(write, op, change)
    return True


def _difference(write: StoreWriter, op: ReconcileFile) -> tuple[dict[str, Any], dict[str, list[Any]]]:
    """Return the file as query parameters, and by kind how its entries differ from what was read from it before."""
    row = of_file(op) | {
        "contents": list(op.contents),
        "file_time": datetime.fromtimestamp(op.file_time, UTC),
        "had": list(op.had),
        "copied_from": op.copied_from,
        "profile": op.metadata.get("profile", ""),
    }
    if op.formerly:
        former = row | {"formerly": op.formerly, "until": datetime.fromtimestamp(op.formerly_until, UTC)}
        for statement in ("inherit_mirrored", "forget_inherited"):
            write.conn.execute(query(statement), former)
    changes: dict[str, list[Any]] = defaultdict(list)
    for change in write.conn.execute(query("mirror_difference"), row).fetchall():
        changes[change.kind].append(change)
    return row, changes


def _of_themes(changes: Sequence[Any]) -> dict[str, list[Any]]:
    return {"themes": [each.theme for each in changes], "digests": [each.digest for each in changes]}


def _in_order(op: ReconcileFile, new: Sequence[Any]) -> list[Any]:
    """Return new entries in the order of the file: of two lines about one subject, the lower one is current."""
    places = {content: place for place, content in enumerate(op.contents)}
    return sorted(new, key=lambda each: places[each.content])


def _entry(write: StoreWriter, op: ReconcileFile, change: Any) -> dict[str, Any]:
    said = write.content(op, change.content)
    # A file may be old: what was said of a subject after it was written stays current.
    at = min(op.at, op.file_time) if said["structure"].subject is not None else op.at
    return of_file(op) | said | {"at": datetime.fromtimestamp(at, UTC), "announced": False, "anew": False}


def _import(write: StoreWriter, op: ReconcileFile, change: Any) -> None:
    """Store an entry of the file. One that this file dropped before is restored as it was, in the theme it had."""
    entry = _entry(write, op, change)
    restored = None
    if change.removal is not None:
        back = {"removal": change.removal, "owners": [], "in_file": True}
        restored = write.conn.execute(query("restore_memory"), back).fetchone()
    if restored is None:
        write.store(entry)
    else:
        entry["theme"] = restored.theme
    write.note_in_file(entry)
    write.counts["memories_imported"] += 1


def _part_with_gone(
    write: StoreWriter, op: ReconcileFile, row: dict[str, object], changes: dict[str, list[Any]]
) -> None:
    gone = changes["gone"]
    row["digests"] = [each.digest for each in gone]
    if why := _why_held(op, gone, len(changes["stays"]), changes["new"] + changes["ahead"]):
        _hold(write, op, row, gone, why)
    else:
        _let_go(write, op, row, gone)


def _hold(write: StoreWriter, op: ReconcileFile, row: dict[str, object], gone: Sequence[Any], why: str) -> None:
    """Keep the entries that are gone until somebody decides."""
    write.conn.execute(query("hold_removals"), row | {"why": why})
    lost = sum(each.id is not None for each in gone)
    write.counts["removals_held"] += lost
    if lost:
        logger.warning(
            "hermes-pgvector: %s %s: what it held stays in memory until somebody decides (%d entries); put the file "
            "back, or see: hermes-pgvector removals list",
            MEMORY_FILES[op.target],
            WHY[why],
            lost,
        )


def _let_go(write: StoreWriter, op: ReconcileFile, row: dict[str, object], gone: Sequence[Any]) -> None:
    for change in gone:
        if change.id is not None:
            write.conn.execute(query("let_go_of_memory"), row | {"theme": change.theme, "id": change.id})
            write.counts["memories_removed"] += 1
    write.conn.execute(query("forget_mirrored"), row | _of_themes([each for each in gone if each.id is None]))
    if removed := sum(bool(change.files_own) for change in gone):
        logger.info(
            "hermes-pgvector: %s lacks %s that it held, removed from memory as well; where that was not intended: "
            "hermes-pgvector restore",
            MEMORY_FILES[op.target],
            "1 entry" if removed == 1 else f"{removed:,} entries",
        )


def _why_held(op: ReconcileFile, gone: Sequence[Any], staying: int, new: Sequence[Any]) -> str:
    """Return what is wrong with the file that lacks the entries `gone`; "" if somebody simply took them out."""
    if not op.contents:
        return "empty" if op.file_time else "missing"
    if op.damaged:
        return "damaged"
    known = [each.content for each in gone if each.content is not None]
    many, fresh = max(_MANY, math.ceil((len(known) + staying) / 2)), [each.content for each in new]
    return "shorter" if _lost_many(known, fresh, many) or _is_cut(op.contents[-1], known, fresh) else ""


def _is_cut(last: str, gone: Sequence[str], new: Sequence[str]) -> bool:
    """Return whether a file ends with the beginning of a text that is gone, and another one is lost with that."""
    whole = next((text for text in gone if text.startswith(last)), None)
    if whole is None or last not in new:
        return False
    return _lost_many([text for text in gone if text != whole], [text for text in new if text != last], 1)


def _lost_many(gone: Sequence[str], new: Sequence[str], many: int) -> bool:
    """Return whether at least `many` of the texts that are gone have no edited form among the new ones."""
    if len(gone) < many:
        return False
    numbers: dict[str, int] = {}
    left = [_pairs(text, numbers) for text in yielding_gil(new)]
    may_match = len(gone) - many  # so many may match, and `many` of them are still lost
    for text in yielding_gil(gone):
        pairs, count = _pairs(text, numbers)
        for at, (others, others_count) in enumerate(left):
            if 2 * (pairs & others).bit_count() >= _ALIKE * (count + others_count):
                del left[at]
                may_match -= 1
                break
        else:
            many -= 1
        if not many or may_match < 0:
            break
    return not many


def _pairs(text: str, numbers: dict[str, int]) -> tuple[int, int]:
    """Return the pairs of characters of a text as bits of a number, and how many there are; extends `numbers`.

    Thousands of texts are compared with each other while a transaction waits; with sets it would take far longer.
    """
    text = text[:_COMPARED_CHARS].casefold()
    places = {numbers.setdefault(text[at : at + 2], len(numbers)) for at in range(max(1, len(text) - 1))}
    bits = bytearray(len(numbers) // 8 + 1)
    for place in places:
        bits[place // 8] |= 1 << place % 8
    return int.from_bytes(bits, "little"), len(places)


def own_kept(conn: DeadlineConnection, kept: Sequence[Any]) -> int:
    """Give these memories the owner `kept`, so that no file drops them; return how many."""
    if not kept:
        return 0
    row = {
        "themes": [each.theme for each in kept],
        "targets": [each.target for each in kept],
        "digests": [each.digest for each in kept],
    }
    return conn.execute(query("own_kept"), row).rowcount
