"""Keeping long work in the background from holding Python's global interpreter lock (GIL) against the agent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")
# Long enough for a waiting thread to be woken and to take the GIL; a sleep of zero mostly gets it back itself.
_PAUSE_S = 50e-6
# Work between two yields. A hook may have to wait for several such intervals; a needless yield costs about 0.1 ms.
_INTERVAL_S, _INTERVAL_BESIDE_HOOKS_S = 400e-6, 150e-6
_LATELY_S = 0.05
SHORT_SLICE = 16  # rows of a spool file that are written while a hook may have to wait


class _Hooks:
    """When a hook last wrote, and when the agent last did anything."""

    last = float("-inf")
    seen = time.perf_counter()


def note_hook() -> None:
    """Note that the agent is at work: for the next 50 ms the background works in shorter steps."""
    _Hooks.last = _Hooks.seen = time.perf_counter()


def note_recall() -> None:
    """Note that the agent has asked for something."""
    _Hooks.seen = time.perf_counter()


def quiet_for_s() -> float:
    """Return for how long the agent has neither written nor asked, in seconds; at first since this module's import."""
    return time.perf_counter() - _Hooks.seen


def yield_gil() -> None:
    """Let other threads run now, rather than after the interpreter's switch interval of 5 ms."""
    time.sleep(_PAUSE_S)


class GilYield:
    """Yields the GIL periodically during one piece of background work, on one thread."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def step(self) -> None:
        """Yield if it is time; to be called at least every 0.1 ms or so."""
        now = time.perf_counter()
        interval_s = _INTERVAL_BESIDE_HOOKS_S if now - _Hooks.last < _LATELY_S else _INTERVAL_S
        if now - self._since >= interval_s:
            yield_gil()
            self._since = time.perf_counter()


def yielding_gil(items: Iterable[_T]) -> Iterator[_T]:
    """Return the items, yielding the GIL between two of them whenever it is time."""
    gil = GilYield()
    for item in items:
        yield item
        gil.step()


def in_slices(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """Return the items in pieces of `size`, yielding the GIL between two of them."""
    for first in range(0, len(items), size):
        if first:
            yield_gil()
        yield items[first : first + size]
