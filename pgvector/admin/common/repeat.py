"""Verbs that go on until they are ended."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

from .commands import EXIT_OK

_LEAST_S, _MOST_S = 0.1, 86_400.0


def seconds(text: str) -> float:
    """Return the seconds of an option that says how often."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not _LEAST_S <= value <= _MOST_S:
        raise argparse.ArgumentTypeError(f"seconds, from {_LEAST_S} to {_MOST_S:.0f}, not {text!r}")
    return value


@contextmanager
def until_ended() -> Iterator[None]:
    """End in good order at a SIGTERM, as at Ctrl-C, with what the block cleans up cleaned up."""

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(EXIT_OK)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def repeatedly(every_s: float) -> Iterator[None]:
    """Yield at once and then every so often, without end."""
    never = threading.Event()
    yield
    while True:
        never.wait(every_s)
        yield
