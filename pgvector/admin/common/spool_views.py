"""The spools of all processes of a home, as an operator sees them: what waits, what was set aside, how it goes."""

from __future__ import annotations

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from ...capture.destination import Destination, destination_of
from ...capture.forgetting import Spare, change_kept, said, without_texts
from ...capture.spool import OPERATOR_PATIENCE_MS, Spool
from ...capture.spool_directory import is_held
from ...capture.spool_format import SetAside
from ...capture.spool_locations import is_private, spool_folder, spool_folders
from ...config.settings import Settings
from ...domain.errors import InvalidArgument, SpoolError, SpoolGone
from ...domain.types import Operation

_TEXT_SHOWN = 200
_UNBOUNDED = 1 << 62  # nothing is appended here, so no bound applies


@dataclass(frozen=True)
class SpoolView:
    """One process's spool. `living`: the process is still there; `report_age_s`: since it last told its counters.

    `oldest_at` is when (seconds since the epoch) what waits longest was accepted, None when nothing waits.
    """

    path: Path
    living: bool
    waiting: int
    size_bytes: int
    aside: tuple[SetAside, ...]
    report: dict[str, Any]
    report_age_s: float | None
    problem: str = ""
    oldest_at: float | None = None
    place: str = ""  # for which database its writes were accepted, and what tells that from others
    database: str = ""

    def is_for(self, here: Destination) -> bool:
        """Return whether what waits in it may go to that database."""
        return not self.waiting or here.takes(self.place, self.database)

    @property
    def pid(self) -> str:
        """Return the process id in the file's name."""
        return self.path.name.split("-")[0]


def send(settings: Settings, home: Path, *, really: bool) -> list[SpoolView]:
    """Have writes of stopped processes that were accepted for another database go to that of the settings; returns the
    files meant, changed if `really`."""
    here = destination_of(settings, home)
    meant = [view for view in inspect_spools(home) if not view.living and not view.is_for(here)]
    for view in meant if really else ():
        with _unless_gone(view.path), _opened(view.path) as spool:
            spool.label(here.place, here.database)
    return meant


def spool_paths(home: Path) -> list[Path]:
    """Return the spool files of all processes of the home, wherever they lie."""
    folders = [folder for folder in spool_folders(home) if folder == spool_folder(home) or is_private(folder)]
    return [path for folder in folders for path in sorted(folder.glob("*.db"))]


def inspect_spools(home: Path) -> list[SpoolView]:
    """Return every spool of the home, read without disturbing the process that uses it."""
    views = []
    for path in spool_paths(home):
        living = is_held(path)
        try:
            with _opened(path) as spool:
                spool.must_be_whole()
                at, report = spool.report()
                age = time.time() - at if at else None
                oldest = next((op.at for op in spool.take(1)), None)
                aside = tuple(spool.aside())
                view = SpoolView(path, living, spool.depth(), spool.size_bytes(), aside, report, age, "", oldest)
                place, database = spool.accepted_for()
                views.append(replace(view, place=place, database=database))
        except SpoolError as exc:
            with contextlib.suppress(FileNotFoundError):  # what was in it has arrived meanwhile
                views.append(SpoolView(path, living, 0, path.stat().st_size, (), {}, None, str(exc)))
    return views


def render_aside(items: list[SetAside], *, as_json: bool) -> str:
    """Set-aside writes for people or machines."""
    if as_json:
        return json.dumps([_as_dict(item) for item in items], indent=2)
    if not items:
        return "no write was set aside"
    return "\n".join(
        f"{short_id(item)}  {entry['at']}  {entry['kind']}  theme {entry['theme']}\n"
        f"          refused: {entry['error']}\n          text: {entry['text']}"
        for item in items
        for entry in [_as_dict(item)]
    )


def _as_dict(item: SetAside) -> dict[str, str]:
    op = item.operation
    text = str(op.payload.get("content") or op.payload.get("old_text") or op.payload.get("messages") or "")
    return {
        "id": op.op_id.hex,
        "at": _date(op.at),
        "kind": op.kind,
        "theme": op.theme,
        "error": item.error,
        "text": text if len(text) <= _TEXT_SHOWN else text[:_TEXT_SHOWN] + "…",
    }


def _date(at: float) -> str:
    try:
        return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds")
    except (ValueError, OverflowError, OSError):  # what was set aside may be wrong in every part
        return "unknown time"


def short_id(item: SetAside) -> str:
    """Return what an operator names a set-aside write by."""
    return item.operation.op_id.hex[:8]


def change_aside(
    home: Path, action: Literal["retry", "drop"], ids: list[str], *, everything: bool, really: bool
) -> list[SetAside]:
    """Retry or drop set-aside writes, named by the first digits of their ids; returns those meant, changed if `really`.

    Raises InvalidArgument for an id that names none.
    """
    prefixes = ("",) if everything else tuple(ids)
    meant: list[SetAside] = []
    for view in inspect_spools(home):
        chosen = [item for item in view.aside if item.operation.op_id.hex.startswith(prefixes)]
        meant += chosen
        if really and chosen:
            with _unless_gone(view.path), _opened(view.path) as spool:
                change = spool.retry if action == "retry" else spool.drop
                change([item.operation for item in chosen])
    _check_named(ids, [item.operation.op_id.hex for item in meant])
    return meant


def _check_named(ids: list[str], found: list[str]) -> None:
    for each in ids:
        if not any(op_id.startswith(each) for op_id in found):
            raise InvalidArgument(
                f"no set-aside write has an id that begins with {each!r}; see: hermes-pgvector spool list"
            )


@contextmanager
def _unless_gone(path: Path) -> Iterator[None]:
    """Forgive that the file is gone: what was in it has arrived."""
    try:
        yield
    except SpoolError:
        if path.exists():
            raise


@contextmanager
def _opened(path: Path) -> Iterator[Spool]:
    if not path.exists():  # SQLite would make one
        raise SpoolGone(f"the spool {path} is no longer there")
    spool = Spool(path, max_bytes=_UNBOUNDED, patience_ms=OPERATOR_PATIENCE_MS)
    try:
        yield spool
    finally:
        spool.close()


def drop_copies(home: Path, texts: Collection[tuple[str, str]]) -> tuple[int, int]:
    """Drop the writes set aside that hold one of these themes' texts; how many, and how many more of them wait.

    Of acknowledged writes, which are kept a while, the texts go as well.
    """
    wanted: defaultdict[str, set[str]] = defaultdict(set)
    for theme, text in texts:
        wanted[theme].add(text)
    dropped, waiting = 0, 0
    for path in spool_paths(home) if wanted else []:
        with contextlib.suppress(SpoolError), _opened(path) as spool:
            aside = [item.operation for item in spool.aside() if _is_meant(item.operation, wanted)]
            dropped += len(aside)
            spool.drop(aside)
            waiting += sum(_is_meant(op, wanted) for op in spool.take(_UNBOUNDED // 2))
            for theme, meant in wanted.items():
                change_kept(spool, theme, without_texts(meant))
    return dropped, waiting


def _is_meant(op: Operation, wanted: Mapping[str, set[str]]) -> bool:
    return bool(said(op) & wanted.get(op.theme, set()))


def drop_kept(home: Path, theme: str, spare: Spare) -> None:
    """Leave of the acknowledged writes of a theme what `spare` leaves, in all files of the home that can be had."""
    for path in spool_paths(home):
        with contextlib.suppress(SpoolError), _opened(path) as spool:
            change_kept(spool, theme, spare)
