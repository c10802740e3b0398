"""How verbs end: those that run until they are stopped, and any verb that is stopped early."""

from __future__ import annotations

import argparse
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from types import FrameType

from psycopg.errors import QueryCanceled

from ...domain.errors import DeadlineExceeded
from ...store.connection import stop_sign
from .commands import EXIT_OK

_LEAST_S, _MOST_S = 0.1, 86_400.0


def seconds(text: str) -> float:
    """Return the interval in seconds that an option gives."""
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

    So the clean-up and the messages of Ctrl-C also happen when a service manager, a container or the end of an SSH
    session stops a verb. A server that handles SIGTERM itself ends that way in each case.
    """

    def as_sigterm(number: int, frame: FrameType | None) -> None:
        # An exception raised here would interrupt a server's event loop, which would then wait for the unfinished work.
        if signal.getsignal(signal.SIGTERM) is signal.SIG_IGN:
            raise KeyboardInterrupt
        signal.raise_signal(signal.SIGTERM)

    with _raised_at(_at_default("SIGTERM"), KeyboardInterrupt), _handled(_at_default("SIGHUP"), as_sigterm):
        yield


def _at_default(name: str) -> list[signal.Signals]:
    """Return the signal of this name if it has its default effect; nothing in other threads, or on Windows."""
    number = getattr(signal, name, None)
    in_main = threading.current_thread() is threading.main_thread()
    return [number] if in_main and number is not None and signal.getsignal(number) is signal.SIG_DFL else []


@contextmanager
def until_ended() -> Iterator[None]:
    """End normally at a SIGTERM, as at Ctrl-C, with the clean-up of the block done."""

    with _raised_at([signal.SIGTERM], partial(SystemExit, EXIT_OK)):
        yield


def _raised_at(signals: Iterable[signal.Signals], end: Callable[[], BaseException]) -> AbstractContextManager[None]:
    """Raise what `end` returns in the block at one of these signals, whatever their handlers were."""

    def handle(number: int, frame: FrameType | None) -> None:
        raise end()

    return _handled(signals, handle)


@contextmanager
def _handled(signals: Iterable[signal.Signals], handle: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Have `handle` called in the block at one of these signals, whatever their handlers were."""
    before = {each: signal.signal(each, handle) for each in signals}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def ctrl_c_left_to_others() -> AbstractContextManager[None]:
    """Leave Ctrl-C in the block to a program that has the terminal meanwhile: for editors it is a key like others."""
    return _handled([signal.SIGINT] if callable(signal.getsignal(signal.SIGINT)) else [], lambda number, frame: None)


@contextmanager
def held_back() -> Iterator[None]:
    """Hold Ctrl-C, and a signal that ends the verb, back until the block is done; then raise KeyboardInterrupt.

    For a transaction and what is noted of it: psycopg may be anywhere when a signal raises an exception, and then
    neither what was committed is known, nor is the connection of use any more. The statement that waits is cancelled,
    so the block ends soon. Also for files that change together. A second signal has its usual effect at once. In a
    block that is held back already, that one decides.
    """
    if threading.current_thread() is not threading.main_thread() or stop_sign.get() is not None:
        yield
        return
    asked = threading.Event()
    usual = {each: signal.getsignal(each) for each in (signal.SIGINT, signal.SIGTERM)}

    def hold(number: int, frame: FrameType | None) -> None:
        if asked.is_set() and callable(again := usual[signal.Signals(number)]):
            again(number, frame)
        asked.set()

    token = stop_sign.set(asked)
    try:
        with _handled([each for each, handler in usual.items() if callable(handler)], hold):
            yield
    except (QueryCanceled, DeadlineExceeded):
        if not asked.is_set():
            raise
    except Exception as exc:
        if asked.is_set():  # else a verb that goes on after this error would never end
            raise KeyboardInterrupt from exc
        raise
    finally:
        stop_sign.reset(token)
    if asked.is_set():
        raise KeyboardInterrupt


def repeatedly(every_s: float) -> Iterator[None]:
    """Yield at once and then every `every_s` seconds, without end."""
    never = threading.Event()
    yield
    while True:
        never.wait(every_s)
        yield
