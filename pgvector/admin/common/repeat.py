"""How verbs end: those that go on until they are ended, and any other before its time."""

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
def ended_as_by_ctrl_c() -> Iterator[None]:
    """Raise KeyboardInterrupt in the block at a SIGTERM, and when the terminal is closed, unless those are ignored.

    What is cleaned up and told at Ctrl-C is then cleaned up and told when a service manager, a container or the end of
    an SSH session stops a verb as well.
    """

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = {}
    if threading.current_thread() is threading.main_thread():
        ours = [number for name in ("SIGTERM", "SIGHUP") if (number := getattr(signal, name, None))]
        before = {each: signal.signal(each, end) for each in ours if signal.getsignal(each) is signal.SIG_DFL}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
