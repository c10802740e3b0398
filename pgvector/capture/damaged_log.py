"""The write-ahead log of a dead process's spool file, damaged in the middle by a power cut or by another program.

SQLite reads such a log up to the damage, takes the rest for the end of an old one, and deletes it. But each frame is a
whole page with a checksum of its own, and later ones repeat most of what an earlier one held. So the file is mended
before SQLite opens it: every frame that can be read is written to its place, as a checkpoint does.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import shutil
import struct
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from ..domain.files import make_marker
from ..domain.gil import yielding_gil
from .spool_format import FAULTS, PAGE_BYTES, connect, delete_files, maker_of

logger = logging.getLogger(__name__)

_HEADER, _FRAME = struct.Struct(">8I"), struct.Struct(">6I")  # both end with the two numbers of a checksum
_MAGIC = 0x377F0682  # the last bit is set where the checksums are made of big-endian words
_WORD = 0xFFFFFFFF
_PAGE_SIZES = [1 << power for power in range(9, 16)]
_Sum = tuple[int, int]


class _Frame(NamedTuple):
    """One page as a transaction left it; `size` is the number of pages after it, 0 within a transaction."""

    page: int
    size: int
    content: bytes
    whole: bool


def is_damaged(path: Path) -> bool:
    """Return whether the log of a file is damaged, so that SQLite would not read all of it. Raises OSError."""
    return _look(path)[1]


def mend(path: Path) -> None:
    """Write what can be read of a damaged log into its file, and delete the log; log what was found.

    To be called before SQLite opens the file, by the holder of its lock. It can be repeated. Raises OSError.
    """
    frames, damaged = _look(path)
    if damaged:
        _write_pages(path, frames)
        logger.error(
            "hermes-pgvector: the log of the spool %s was damaged, by a power cut or by another program; the writes in "
            "it that can still be read are sent, the others are lost",
            path,
        )
    elif not path.stat().st_size:
        logger.warning(
            "hermes-pgvector: the spool %s is empty: its process ended while it began, or a power cut or another "
            "program took what was in it",
            path,
        )


def _write_pages(path: Path, frames: Sequence[_Frame]) -> None:
    """Put the frames into the file: all, or where that breaks it those before the damage, if more can be read then."""
    before = list(itertools.takewhile(lambda frame: frame.whole, frames))
    mended, other = Path(f"{path}.mended"), Path(f"{path}.other")
    try:
        _write(path, frames, mended)
        if not _is_sound(mended):
            _write(path, before, other)
            if _count(other) > _count(mended):
                os.replace(other, mended)
        os.replace(mended, path)
        for suffix in ("-wal", "-shm"):
            Path(f"{path}{suffix}").unlink(missing_ok=True)
    finally:
        delete_files(mended)
        delete_files(other)


def _write(path: Path, frames: Sequence[_Frame], into: Path) -> None:
    """Write the file with the frames up to the last commit into another one."""
    ends = [number for number, frame in enumerate(frames) if frame.whole and frame.size]
    delete_files(into)  # of a process that was killed here
    make_marker(into, anew=True)
    with open(path, "rb") as before, open(into, "r+b") as file:
        shutil.copyfileobj(before, file)
        for frame in frames[: ends[-1] + 1] if ends else ():
            if frame.whole and 0 < frame.page <= frames[ends[-1]].size:
                file.seek((frame.page - 1) * len(frame.content))
                file.write(frame.content)
        if ends:
            file.truncate(frames[ends[-1]].size * len(frames[ends[-1]].content))
        file.flush()
        os.fsync(file.fileno())


def _is_sound(path: Path) -> bool:
    """Return whether all pages of a file fit each other: then it is what the last commit left, but for what is lost."""
    with contextlib.suppress(*FAULTS), contextlib.closing(connect(path)) as conn:
        return bool(conn.execute("PRAGMA quick_check(1)").fetchall() == [("ok",)])
    return False


def _count(path: Path) -> int:
    """Return how many writes can be read in a file, of those that wait and those that do not wait any more."""
    found: set[bytes] = set()
    for table in ("operations", "aside", "kept"):
        with contextlib.suppress(*FAULTS), contextlib.closing(connect(path)) as conn:
            found.update(op_id for (op_id,) in conn.execute(f"SELECT op_id FROM {table}"))
    return len(found)


def _look(path: Path) -> tuple[list[_Frame], bool]:
    """Return the frames of the log, and whether it is damaged.

    It is not where only its end is missing or wrong: the process may have died while it wrote that. A file of another
    program is none of ours, and that program may be writing to it.
    """
    if not maker_of(path).isdigit():
        return [], False
    try:
        log = Path(f"{path}-wal").read_bytes()
    except FileNotFoundError:
        return [], False
    page_bytes = _page_bytes(path, log)
    frames = list(yielding_gil(_frames(log, page_bytes)))
    return frames, _would_lose(log, frames, page_bytes, beside_nothing=not path.stat().st_size)


def _would_lose(log: bytes, frames: Sequence[_Frame], page_bytes: int, *, beside_nothing: bool) -> bool:
    """Return whether SQLite would not read all of the log, which it deletes beside an empty file.

    Behind the last commit may be the rest of a transaction that failed, or whose process was killed.
    """
    count = max((number for number, frame in enumerate(frames, 1) if frame.whole and frame.size), default=0)
    if len(log) >= _HEADER.size and not _is_header(log):
        return True
    if count and (beside_nothing or not all(frame.whole for frame in frames[:count])):
        return True
    return _has_zeros(log, count, page_bytes)


def _has_zeros(log: bytes, after: int, page_bytes: int) -> bool:
    """Return whether a frame after so many is blank: SQLite leaves none so, but content may not reach the disk."""
    step = _FRAME.size + page_bytes
    return not all(any(log[at : at + _FRAME.size]) for at in range(_HEADER.size + after * step, len(log), step))


def _page_bytes(path: Path, log: bytes) -> int:
    """Return the size of a page: other versions made larger ones."""
    if _is_header(log):
        return int(_HEADER.unpack_from(log)[2])
    with open(path, "rb") as file:
        told = int.from_bytes(file.read(18)[16:])
    return told if told in _PAGE_SIZES else PAGE_BYTES


def _frames(log: bytes, page_bytes: int) -> Iterator[_Frame]:
    """Yield the frames of the log, whole only if of its last generation."""
    step = _FRAME.size + page_bytes
    if len(log) < _HEADER.size + step:
        return
    magic, *_ = header = _HEADER.unpack_from(log)
    big = magic & 1 if magic | 1 == _MAGIC | 1 else sys.byteorder == "big"
    # Every frame repeats the two numbers that tell this generation from the one before it, which is longer at times.
    salts = header[4:6] if _is_header(log) else _salts(log, step)
    previous: _Sum | None = header[6:8] if _is_header(log) else None  # None: unreadable, so the next one is believed
    for at in range(_HEADER.size, len(log) - step + 1, step):
        page, size, *mine = _FRAME.unpack_from(log, at)
        content = log[at + _FRAME.size : at + step]
        told: _Sum = (mine[2], mine[3])
        ours = tuple(mine[:2]) == salts
        summed = previous and _sum(log[at : at + 8] + content, previous, big=bool(big))
        yield _Frame(page, size, content, ours and summed in (None, told))
        previous = told if ours else None


def _salts(log: bytes, step: int) -> tuple[int, ...]:
    """Return those of the first frames that agree: a lost header may have taken frames behind it along."""
    each = [_FRAME.unpack_from(log, at)[2:4] for at in range(_HEADER.size, len(log) - step + 1, step)]
    return next((one for one, other in itertools.pairwise(each) if one == other and any(one)), each[0])


def _is_header(log: bytes) -> bool:
    if len(log) < _HEADER.size:
        return False
    magic, *_, first, second = _HEADER.unpack_from(log)
    return magic | 1 == _MAGIC | 1 and _sum(log[:24], (0, 0), big=bool(magic & 1)) == (first, second)


def _sum(data: bytes, start: _Sum, *, big: bool) -> _Sum:
    first, second = start
    words = iter(struct.unpack(f"{'>' if big else '<'}{len(data) // 4}I", data))
    for one, other in zip(words, words, strict=True):
        first = (first + one + second) & _WORD
        second = (second + other + first) & _WORD
    return first, second
