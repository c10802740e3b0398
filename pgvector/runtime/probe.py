"""Whether a server can be used, as far as that can be told in a moment."""

from __future__ import annotations

import threading
import time

from ..domain.errors import HermesPgvectorError
from ..domain.settings import Settings
from ..store.pool import connect
from ..store.schema import ensure_schema
from .process import running

_probes: dict[tuple[str, int], _Probe] = {}
_PROBE_KEPT_S = 30.0


class _Probe:
    """Looks once, in the background, whether a server can be used with these settings."""

    def __init__(self, settings: Settings) -> None:
        self.made_at = time.monotonic()
        self.done = threading.Event()
        self.problem: HermesPgvectorError | None = None
        threading.Thread(target=self._look, args=(settings,), name="hermes-pgvector-probe", daemon=True).start()

    def _look(self, settings: Settings) -> None:
        try:
            with connect(settings.dsn) as conn:
                conn.deadline = time.monotonic() + 5.0
                ensure_schema(conn, dims=settings.dims)
        except HermesPgvectorError as exc:
            self.problem = exc
        finally:
            self.done.set()


def known_problem(settings: Settings, *, wait_s: float) -> HermesPgvectorError | None:
    """What is wrong with the server of `settings.dsn`, as far as can be told within `wait_s`; None when nothing is.

    A running runtime knows; otherwise the server is looked at once in 30 s, in the background.
    """
    runtime = running(settings)
    if runtime is not None:
        return runtime.backend.problem
    if not settings.dsn:
        return None
    key = (settings.dsn, settings.dims)
    probe = _probes.get(key)
    if probe is None or time.monotonic() - probe.made_at > _PROBE_KEPT_S:
        probe = _probes[key] = _Probe(settings)
    probe.done.wait(wait_s)
    return probe.problem
