"""Progress of long work: one line that is rewritten on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TextIO

from ...domain.format import format_duration
from .console import abandon

_ON_TERMINAL_S, _ELSEWHERE_S = 0.2, 10.0
_TOLD_FROM = 5000  # rows; fewer are done before anybody wonders


class ProgressLine:
    """Reports on stderr how many of `total` are done, how fast, and how long the rest will take."""

    def __init__(self, what: str, total: int, *, done: int = 0, stream: TextIO | None = None) -> None:
        self._what = what
        self._stream = sys.stderr if stream is None else stream
        self._terminal = self._stream.isatty()
        self.total = total
        self.done = done
        self._began = time.monotonic()
        self._done_at_first = done
        self._told_at = self._began
        self._open = False
        self._shown: int | None = None  # the figure that the last line tells

    def advance(self, count: int) -> None:
        """Note that `count` more are done, and report it when it is time."""
        self.done += count
        now = time.monotonic()
        if now - self._told_at >= (_ON_TERMINAL_S if self._terminal else _ELSEWHERE_S):
            self._told_at = now
            self._tell()

    def say(self, line: str) -> None:
        """Print a line of its own."""
        self.clear()
        self._write(line + "\n")

    def clear(self) -> None:
        """Erase the line on a terminal."""
        if self._open:
            self._write("\r\033[K")
            self._open, self._shown = False, None

    def finish(self) -> None:
        """Print the final figure, unless it is there already or there was nothing to do."""
        if (self.total or self.done) and self._shown != self.done:
            self._tell()
        if self._open:
            self._write("\n")
            self._open = False

    def _tell(self) -> None:
        self._shown = self.done
        line = f"{self._what}: {describe(self.done, self.total, self._rate())}"
        if self._terminal:
            self._write("\r\033[K" + line)
            self._open = True
        else:
            self._write(line + "\n")

    def _write(self, text: str) -> None:
        """Print the text; if it is not read any more, or the disk it goes to is full, the work goes on without it."""
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            abandon(self._stream)

    def _rate(self) -> float:
        return (self.done - self._done_at_first) / max(time.monotonic() - self._began, 1e-3)


@contextmanager
def progress(what: str, total: int, *, told_from: int = _TOLD_FROM) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with how many more are done; progress is reported only from `told_from` on."""
    if total < told_from:
        yield lambda count: None
        return
    line = ProgressLine(what, total)
    try:
        yield line.advance
    finally:
        line.finish()


@contextmanager
def building() -> Iterator[Callable[[str, int, int], None]]:
    """Yield a function that reports which index is being built and how much of its table is done."""
    lines: dict[str, ProgressLine] = {}

    def tell(index: str, done: int, total: int) -> None:
        line = lines.get(index)
        if line is None:
            line = lines[index] = ProgressLine(f"building {index}", total)
            line.say(f"building {index}; agents go on meanwhile")
        line.total = max(total, line.total)
        line.advance(max(0, done - line.done))

    yield tell
    for line in lines.values():
        line.clear()


def describe(done: int, total: int, per_s: float) -> str:
    """Return `12,300 of 1,000,000 (1.2 %), 210/s, about 1 h 18 min left`; what came on the way is part of the total."""
    total = max(done, total)
    share = 100.0 * done / total if total else 100.0
    text = f"{done:,} of {total:,} ({share:.1f} %)"
    if per_s > 0:
        text += f", {per_s:,.0f}/s" if per_s >= 10 else f", {per_s:.1f}/s"
        if done < total:
            text += f", about {format_duration((total - done) / per_s)} left"
    return text
