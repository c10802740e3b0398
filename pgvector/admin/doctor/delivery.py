"""Delivery of writes that stopped processes left behind, by a command."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from ...capture.spool_directory import Destination, destination_of
from ...config.settings import Settings
from ...runtime.process import Runtime, acquire
from ..common.spool_views import inspect_spools, persists

_LOOK_S = 0.2
_STALLED_S = 20.0  # without any write arriving


class _Holder:
    """Keeps a runtime acquired while a command runs."""


def deliver_left(settings: Settings, home: Path, environ: Mapping[str, str]) -> tuple[int, str]:
    """Adopt the spools of stopped processes and wait while their writes arrive.

    Return how many are left, and the error that keeps them; "" if none is known.
    """
    holder, pause = _Holder(), threading.Event()
    runtime: Runtime = acquire(settings, home, environ, holder)
    try:
        here = destination_of(settings, home)
        left, moved = _left(home, here, runtime), time.monotonic()
        while left and time.monotonic() - moved < _STALLED_S and runtime.backend.problem is None:
            pause.wait(_LOOK_S)
            now = _left(home, here, runtime)
            if now != left:
                left, moved = now, time.monotonic()
        told = runtime.stats()
        return left, str(runtime.backend.problem or (told["last_error"] if persists(told) else ""))
    finally:
        runtime.leave(holder, settings.shutdown_timeout_s)


def _left(home: Path, here: Destination, runtime: Runtime) -> int:
    stopped = sum(view.waiting for view in inspect_spools(home) if not view.living and view.is_for(here))
    # What a process of our own number has left looks like ours once it is adopted, as in containers.
    return max(stopped, runtime.writer.depth())
