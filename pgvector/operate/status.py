"""How it goes: the counters of every process of a home, and what Postgres holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..domain.errors import HermesPgvectorError
from ..domain.settings import Settings
from ..store.backend import Backend
from .spools import SpoolView, inspect_spools, short_id

_STALE_S = 60.0  # a living process tells its counters every five seconds


def collect(settings: Settings, home: Path, locate: Callable[[], str]) -> dict[str, Any]:
    """Everything `status` and `stats` show: totals, one entry a process, and the database's counts or its problem."""
    views = inspect_spools(home)
    return {
        "waiting": sum(view.waiting for view in views),
        "spool_bytes": sum(view.size_bytes for view in views),
        "set_aside": sum(len(view.aside) for view in views),
        "processes": [_process(view) for view in views],
        "database": _database(settings, locate),
    }


def _process(view: SpoolView) -> dict[str, Any]:
    return {
        "pid": view.pid,
        "living": view.living,
        "waiting": view.waiting,
        "spool_bytes": view.size_bytes,
        "set_aside": [{"id": short_id(item), "error": item.error} for item in view.aside],
        "report_age_s": None if view.report_age_s is None else round(view.report_age_s, 1),
        "report": view.report,
        "problem": view.problem,
    }


def _database(settings: Settings, locate: Callable[[], str]) -> dict[str, Any]:
    backend = Backend(lambda: settings.dsn or locate(), dims=settings.dims, pool_max_size=1)
    try:
        started = time.monotonic()
        backend.bring_up(quietly=True)
        counts: dict[str, Any] = dict(backend.counts())
        return counts | {"answered_in_ms": round((time.monotonic() - started) * 1000, 1)}
    except HermesPgvectorError as exc:
        return {"problem": str(exc)}
    finally:
        backend.close()


def render_status(status: dict[str, Any]) -> str:
    """The state for people."""
    database = status["database"]
    if "problem" in database:
        lines = [f"database   out of reach: {database['problem']}"]
    else:
        lines = [
            f"database   {database['memories']} memories, {database['turns']} turns; "
            f"{database['pending_memories'] + database['pending_turns']} still without an embedding"
        ]
    lines.append(f"waiting    {status['waiting']} writes in {_size(status['spool_bytes'])} of spool")
    if status["set_aside"]:
        lines.append(f"set aside  {status['set_aside']} writes; look at them: hermes-pgvector spool list")
    for process in status["processes"]:
        lines += _process_lines(process)
    if not status["processes"]:
        lines.append("processes  none runs or left anything behind")
    return "\n".join(lines)


def _process_lines(process: dict[str, Any]) -> list[str]:
    report = process["report"]
    state = "runs" if process["living"] else "is gone; what waits follows when an agent starts"
    lines = [f"process    {process['pid']} {state}: {process['waiting']} waiting"]
    if process["problem"]:
        lines.append(f"           {process['problem']}")
    if process["living"] and report:
        stale = (process["report_age_s"] or 0) > _STALE_S
        lines.append(
            f"           Postgres {report.get('postgres')}, endpoint {report.get('endpoint')}, "
            f"{report.get('operations', 0)} written, {report.get('operations_per_s', 0)}/s, "
            f"{report.get('retries', 0)} retries" + (" (not heard of for a minute)" if stale else "")
        )
        timings = [
            f"{kind} {report[f'{kind}_p50_ms']}/{report[f'{kind}_p95_ms']} ms"
            for kind in ("embed", "embed_query", "write", "search", "rerank")
            if f"{kind}_p50_ms" in report
        ]
        if timings:
            lines.append("           p50/p95: " + ", ".join(timings))
        if report.get("last_error"):
            lines.append(f"           last error: {report['last_error']}")
    return lines


def _size(count: float) -> str:
    for unit in ("bytes", "KB", "MB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "bytes" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} GB"


def flat(status: dict[str, Any]) -> dict[str, int | float]:
    """Numbers only, over all living processes: counters are summed, timings are the slowest process's."""
    totals: dict[str, int | float] = {
        "processes": sum(process["living"] for process in status["processes"]),
        "waiting": status["waiting"],
        "spool_bytes": status["spool_bytes"],
        "set_aside": status["set_aside"],
    }
    totals |= {key: value for key, value in status["database"].items() if isinstance(value, (int, float))}
    for process in status["processes"]:
        for key, value in process["report"].items() if process["living"] else ():
            if isinstance(value, bool) or not isinstance(value, (int, float)) or key in ("spool_bytes", "set_aside"):
                continue
            slowest = "_p50_" in key or "_p95_" in key
            totals[key] = max(totals.get(key, 0), value) if slowest else totals.get(key, 0) + value
    return totals
