"""Keeping long work in the background from holding the interpreter against the agent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

_T = TypeVar("_T")
# Long enough for a waiting thread to be woken and to take the interpreter; a sleep of zero mostly gets it back itself.
_BREATH_S = 50e-6
# Work between two breaths. A hook may have to wait for some of them, a breath in vain costs about 0.1 ms.
_STRIDE_S, _STRIDE_BESIDE_HOOKS_S = 400e-6, 150e-6
_LATELY_S = 0.05


class _Hooks:
    """When a hook last wrote, and when the agent last did anything."""

    last = float("-inf")
    seen = time.perf_counter()


def note_hook() -> None:
    """Say that the agent is at work: for the next 50 ms the background works in shorter steps."""
    _Hooks.last = _Hooks.seen = time.perf_counter()


def note_recall() -> None:
    """Say that the agent has asked for something."""
    _Hooks.seen = time.perf_counter()


def quiet_for_s() -> float:
    """For how long the agent has neither written nor asked, in seconds; at first since this module was loaded."""
    return time.perf_counter() - _Hooks.seen


def breathe() -> None:
    """Let other threads run now, rather than after the interpreter's switch interval of 5 ms."""
    time.sleep(_BREATH_S)


class Pace:
    """Of one piece of background work, on one thread."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def step(self) -> None:
        """Breathe if it is time; to be called at least every 0.1 ms or so."""
        now = time.perf_counter()
        stride_s = _STRIDE_BESIDE_HOOKS_S if now - _Hooks.last < _LATELY_S else _STRIDE_S
        if now - self._since >= stride_s:
            breathe()
            self._since = time.perf_counter()


def paced(items: Iterable[_T]) -> Iterator[_T]:
    """The items, with a breath between two of them whenever it is time."""
    pace = Pace()
    for item in items:
        yield item
        pace.step()


def in_slices(items: Sequence[_T], size: int) -> Iterator[Sequence[_T]]:
    """The items in pieces of `size`, with a breath between two of them."""
    for first in range(0, len(items), size):
        if first:
            breathe()
        yield items[first : first + size]
