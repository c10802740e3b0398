"""The replica that recall reads from, if one is set."""

from __future__ import annotations

import time
from collections.abc import Iterator

from ...domain.errors import HermesPgvectorError
from ...domain.redaction import mask_dsn
from ...store.connection import DeadlineConnection, translated
from ...store.pool import connect
from ...store.replica import about_replica, check_replica, look_at_primary, replayed
from .check import Check, DoctorContext, fail, note, ok

_DEADLINE_S = 10.0
_CATCH_UP_S = 2.0
_LOOK_AGAIN_S = 0.02


def check_read_replica(context: DoctorContext) -> Iterator[Check]:
    """Yield whether the replica follows the primary, and how long it takes to receive what is written there."""
    settings = context.settings
    if not settings.read_dsn:
        return
    where = mask_dsn(settings.read_dsn)
    try:
        with connect(settings.dsn) as primary, translated():
            primary.deadline = time.monotonic() + _DEADLINE_S
            place = look_at_primary(primary)
    except HermesPgvectorError:
        yield note("replica", f"{where}: not looked at, since the primary does not answer")
        return
    try:
        with connect(settings.read_dsn, as_is=True) as conn, translated():
            conn.deadline = time.monotonic() + _DEADLINE_S
            started = time.monotonic()
            missing = place.position - check_replica(conn, place)
            yield _followed(conn, place.position, missing, started, where, settings.read_max_lag_s)
    except HermesPgvectorError as exc:
        yield fail(
            "replica",
            f"{where}: {about_replica(exc)}; the primary answers instead",
            "mend that, or leave plugins.pgvector.read_dsn out",
        )


def _followed(
    conn: DeadlineConnection, position: int, missing: int, started: float, where: str, max_lag_s: float
) -> Check:
    while replayed(conn) < position:
        if time.monotonic() > started + _CATCH_UP_S:
            return fail(
                "replica",
                f"{where}: it lacks {max(0, missing) / 1e6:.1f} MB of what the primary has written, and did not catch "
                f"up in {_CATCH_UP_S:.0f} s; past {max_lag_s:g} s the primary answers instead",
                "see on the primary whether it is connected (pg_stat_replication), and there whether replay is paused",
            )
        time.sleep(_LOOK_AGAIN_S)
    took_ms = (time.monotonic() - started) * 1000
    return ok("replica", f"{where}, follows the primary and had everything within {took_ms:.0f} ms")
