"""Delivery of writes that stopped processes left behind, by a command."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

from ...capture.spool_directory import Destination, destination_of
from ...config.settings import Settings
from ...runtime.process import Runtime, acquire
from ..common.spool_views import inspect_spools

_LOOK_S = 0.2
_STALLED_S = 20.0  # without any write arriving


class _Holder:
    """Keeps a runtime acquired while a command runs."""


def deliver_left(settings: Settings, home: Path, environ: Mapping[str, str]) -> int:
    """Adopt the spools of stopped processes and wait while their writes arrive; return how many are left."""
    holder, pause = _Holder(), threading.Event()
    runtime: Runtime = acquire(settings, home, environ, holder)
    try:
        here = destination_of(settings, home)
        left, moved = _waiting(home, here), time.monotonic()
        while left and time.monotonic() - moved < _STALLED_S and runtime.backend.problem is None:
            pause.wait(_LOOK_S)
            now = _waiting(home, here)
            if now != left:
                left, moved = now, time.monotonic()
        return left
    finally:
        runtime.leave(holder, settings.shutdown_timeout_s)


def _waiting(home: Path, here: Destination) -> int:
    return sum(view.waiting for view in inspect_spools(home) if not view.living and view.is_for(here))
