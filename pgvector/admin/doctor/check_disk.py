"""What is on disk: waiting writes, and free space."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path

from ...capture.spool_directory import Destination, destination_of, spool_folder
from ...capture.spool_format import RejectedWrite
from ...config.settings import Settings
from ...domain.format import plural
from ..common.embedded_server import embedded_server
from ..common.spool_views import SpoolView, deleted_spools, inspect_spools, last_error, persists, short_id
from .check import Check, DoctorContext, fail, note, ok

MANY_WAITING = 1000  # a burst is stored in seconds; more than this shows that something delays the drain
LONG_WAIT_S = 600.0
NEARLY_FULL = 0.8
SPARE_BYTES = 100_000_000  # with less than this, SQLite or Postgres stop at the next burst
ROOMY_BYTES = 1_000_000_000
TOLD_EACH = 10  # rejected writes listed one by one; the others are only counted
_REJECTED_FIX = "hermes-pgvector spool list, then spool retry or spool drop"


def check_disk(context: DoctorContext) -> Iterator[Check]:
    """Yield the state of the spool, and the free space for it and for the embedded Postgres."""
    folder = spool_folder(context.home)
    there = _existing(folder)
    if not os.access(there, os.W_OK):
        yield fail(
            "spool",
            f"{folder} cannot be written: writes are kept elsewhere on this machine, or in memory only",
            f"make {there} writable for this user",
        )
    else:
        yield from _deleted(context.home)
        yield from _spools(
            inspect_spools(context.home), folder, context.settings, destination_of(context.settings, context.home)
        )
    yield _room("the spool", there, context.settings.spool_max_mb * 1_000_000)
    if not context.settings.dsn:
        root = embedded_server(context.settings).root
        yield _room("the embedded Postgres", _existing(root), ROOMY_BYTES)


def _spools(views: list[SpoolView], folder: Path, settings: Settings, here: Destination) -> Iterator[Check]:
    max_bytes = settings.spool_max_mb * 1_000_000
    for view in views:
        if view.problem:
            yield fail("spool", view.problem, f"its writes are kept in {view.path}")
    yield from _rejected([item for view in views for item in view.rejected])
    delayed = [*_left_behind(views, here), *_delayed(views, max_bytes)]
    yield from delayed
    if not delayed:
        waiting, size = sum(view.waiting for view in views), sum(view.size_bytes for view in views)
        whose = "its" if waiting == 1 else "their"
        yield ok(
            "spool",
            f"{folder}, {plural(waiting, 'write')} on {whose} way, {size / 1e6:.1f} of {settings.spool_max_mb} MB",
        )


def _deleted(home: Path) -> Iterator[Check]:
    for path in deleted_spools(home):
        yield fail(
            "spool",
            f"the file {path} was deleted while process {path.name.split('-')[0]} writes to it: what that accepts is "
            "lost if it is killed",
            "restart that agent",
        )


def _delayed(views: list[SpoolView], max_bytes: int) -> Iterator[Check]:
    for view in views:
        if view.living:
            yield from _held_up(view, max_bytes)


def _rejected(items: list[RejectedWrite]) -> Iterator[Check]:
    for item in items[:TOLD_EACH]:
        op = item.operation
        yield fail(
            "spool",
            f"Postgres rejected write {short_id(item)} ({op.kind}, theme {op.theme}): {item.error}",
            _REJECTED_FIX,
        )
    if len(items) > TOLD_EACH:
        yield fail("spool", f"Postgres rejected {len(items) - TOLD_EACH} more writes", _REJECTED_FIX)


def _left_behind(views: list[SpoolView], here: Destination) -> Iterator[Check]:
    """Yield the writes that stopped processes left behind, for this database and for others."""
    stopped = [view for view in views if not view.living]
    for view in stopped:
        if not view.is_for(here):
            yield note(
                "spool",
                f"{plural(view.waiting, 'write')} of a stopped process, accepted for another database ({view.place})",
                "hermes-pgvector spool send --yes sends them to the one that this home names",
            )
    orphaned = [view for view in stopped if view.waiting and view.is_for(here)]
    if waiting := sum(view.waiting for view in orphaned):
        yield note(
            "spool",
            f"{plural(waiting, 'write')} of stopped processes {'waits' if waiting == 1 else 'wait'}{_why(orphaned)}",
            "they follow when an agent starts",
            "deliver",
        )


def _why(orphaned: list[SpoolView]) -> str:
    """Return the newest error that kept stopped processes from delivering, if one could tell of it."""
    told = [view.report for view in orphaned if persists(view.report)]
    last = max(told, key=lambda report: str(report.get("last_error_at") or ""), default=None)
    return f"; {last_error(last)}" if last is not None else ""


def _held_up(view: SpoolView, max_bytes: int) -> Iterator[Check]:
    """Yield a warning if a running process has too many waiting writes, an old one, or hardly any room for more."""
    said = str(view.report["last_error"] if persists(view.report) else "the drain does not keep up")
    if view.size_bytes > NEARLY_FULL * max_bytes:
        yield fail(
            "spool",
            f"the spool of process {view.pid} is {view.size_bytes / max_bytes:.0%} full, and writes are lost once that "
            f"is 100%: {said}",
            "bring Postgres back, or raise plugins.pgvector.spool_max_mb",
        )
    elif view.waiting > MANY_WAITING:
        yield note("spool", f"{view.waiting} writes wait in process {view.pid}: {said}", "hermes-pgvector status")
    elif view.oldest_at and time.time() - view.oldest_at > LONG_WAIT_S:
        minutes = (time.time() - view.oldest_at) / 60
        yield note(
            "spool",
            f"the oldest of {plural(view.waiting, 'write')} in process {view.pid} has waited for {minutes:.0f} min: "
            f"{said}",
            "hermes-pgvector status",
        )


def _room(whose: str, place: Path, wanted: int) -> Check:
    name, free = "disk", shutil.disk_usage(place).free
    said = f"{free / 1e9:,.1f} GB free for {whose} in {place}"
    if free < SPARE_BYTES:
        return fail(name, said, "free some space: writes stop when there is none left")
    if free < min(wanted, ROOMY_BYTES):
        return note(name, said, "free some space")
    if free < wanted:
        return note(
            name,
            f"{said}; the setting spool_max_mb allows {wanted / 1e9:,.1f} GB",
            "lower plugins.pgvector.spool_max_mb, or free some space",
        )
    return ok(name, said)


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())
