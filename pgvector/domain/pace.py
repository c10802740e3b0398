"""Keeping long work in the background from holding the interpreter against the agent."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")
# Long enough for a waiting thread to be woken and to take the interpreter; a sleep of zero mostly gets it back itself.
_BREATH_S = 50e-6


def breathe() -> None:
    """Let other threads run now, rather than after the interpreter's switch interval of 5 ms."""
    time.sleep(_BREATH_S)


def paced(items: Iterable[_T], every: int) -> Iterator[_T]:
    """The items, with a breath after each `every` of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % every == 0:
            breathe()
