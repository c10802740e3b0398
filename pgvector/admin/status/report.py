"""How it goes: the counters of every process of a home, and what Postgres holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ...capture.destination import destination_of
from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.errors import HermesPgvectorError, StoreMisconfigured
from ...domain.format import format_bytes
from ...domain.last_error import when
from ...store.backend import Backend
from ..common.holdings import held_removals, holdings
from ..common.retention_report import described, retention_state
from ..common.spool_views import SpoolView, inspect_spools, short_id

Status = dict[str, Any]
WORK = ("embed", "embed_query", "write", "search", "rerank")  # what is timed
_ENDPOINT = {"closed": "up", "open": "failing, left alone for a while", "half-open": "failing, just tried again"}

_POSTGRES = {"reconnecting": "is being connected to again", "was up": "was up a moment ago"}
_MAIN = ("conversations", "memory_entries")
_STALE_S = 60.0  # a living process tells its counters every five seconds
_DATABASE_S = 8.0  # of a scrape that may take ten


class Watcher:
    """Looks at one home, as often as asked, over one connection that is kept."""

    def __init__(self, settings: Settings, home: Path, locate: Callable[[], str]) -> None:
        self._home = home
        self._settings = settings
        self._limit_bytes = settings.spool_max_mb * 1_000_000
        self._backend = Backend(
            lambda: settings.dsn or locate(), dims=settings.dims, pool_max_size=1, pooler=settings.pooler
        )

    def look(self) -> Status:
        """Totals, one entry a process, recall's success, and what the database holds or its problem."""
        views = inspect_spools(self._home)
        here = destination_of(self._settings, self._home)
        oldest = min((view.oldest_at for view in views if view.oldest_at), default=None)
        reports = [view.report for view in views if view.living]
        return {
            "waiting": sum(view.waiting for view in views),
            "spool_bytes": sum(view.size_bytes for view in views),
            "spool_limit_bytes": self._limit_bytes,
            "oldest_waiting_s": 0.0 if oldest is None else round(max(0.0, time.time() - oldest), 1),
            "set_aside": sum(len(view.aside) for view in views),
            "waiting_for_another": sum(view.waiting for view in views if not view.living and not view.is_for(here)),
            "recall": _recall(reports),
            "processes": [_process(view) for view in views],
            "database": self._database(),
        }

    def _database(self) -> dict[str, Any]:
        try:
            self._backend.bring_up(quietly=True)
            started = time.monotonic()
            with self._backend.connection(_DATABASE_S) as conn:
                held = holdings(conn) | {"retention": retention_state(conn, self._settings)}
                held["removals_held"] = sum(each.count for each in held_removals(conn))
            return held | {"state": "up", "answered_in_ms": round((time.monotonic() - started) * 1000, 1)}
        except HermesPgvectorError as exc:
            return {"problem": str(exc), "state": "unusable" if isinstance(exc, StoreMisconfigured) else "down"}

    def close(self) -> None:
        """Let go of the connection."""
        self._backend.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def collect(settings: Settings, home: Path, locate: Callable[[], str]) -> Status:
    """One look, see `Watcher.look`."""
    with Watcher(settings, home, locate) as watcher:
        return watcher.look()


def _process(view: SpoolView) -> dict[str, Any]:
    return {
        "name": view.path.stem,
        "pid": view.pid,
        "living": view.living,
        "waiting": view.waiting,
        "spool_bytes": view.size_bytes,
        "set_aside": [{"id": short_id(item), "error": item.error} for item in view.aside],
        "report_age_s": None if view.report_age_s is None else round(view.report_age_s, 1),
        "report": view.report,
        "problem": view.problem,
    }


def _recall(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """How often recall was asked, unasked (prefetch) and by the tools, and how often it had something to give."""
    sums = {
        name: sum(int(report.get(name, 0)) for report in reports)
        for name in ("prefetches", "prefetches_found", "tool_recalls", "tool_recalls_found")
    }
    return sums | {
        f"{kind}_hit_rate": round(sums[f"{asked}_found"] / sums[asked], 3) if sums[asked] else None
        for kind, asked in (("prefetch", "prefetches"), ("tool", "tool_recalls"))
    }


def render_status(status: Status) -> str:
    """The state for people."""
    lines = _database_lines(status["database"])
    oldest = f", the oldest for {status['oldest_waiting_s']:,.0f} s" if status["oldest_waiting_s"] >= 1 else ""
    lines.append(f"waiting    {status['waiting']} writes in {format_bytes(status['spool_bytes'])} of spool{oldest}")
    if status["waiting_for_another"]:
        lines.append(
            f"elsewhere  {status['waiting_for_another']} of them were accepted for another database: "
            "hermes-pgvector spool send"
        )
    if status["set_aside"]:
        lines.append(typed(f"set aside  {status['set_aside']} writes; look at them: hermes-pgvector spool list"))
    recall = status["recall"]
    rates = [
        f"{name} found something in {recall[f'{kind}_hit_rate']:.0%} of {recall[asked]}"
        for name, kind, asked in (("prefetch", "prefetch", "prefetches"), ("tools", "tool", "tool_recalls"))
        if recall[asked]
    ]
    if rates:
        lines.append("recall     " + ", ".join(rates))
    for process in status["processes"]:
        lines += _process_lines(process)
    if not status["processes"]:
        lines.append("processes  none runs or left anything behind")
    return "\n".join(lines)


def _database_lines(database: Mapping[str, Any]) -> list[str]:
    if "problem" in database:
        said = "out of reach" if database["state"] == "down" else "cannot be used"
        return [f"database   {said}: {database['problem']}"]

    def told(name: str) -> str:
        return ("about " if name in database["about"] else "") + f"{database[name]:,}"

    waiting = database["pending_memories"] + database["pending_turns"]
    about = "about " if any(name.startswith("pending") for name in database["about"]) else ""
    largest = ", ".join(
        f"{table['name']} {format_bytes(table['table_bytes'])} + {format_bytes(table['index_bytes'])} of indexes"
        for table in database["tables"]
        if table["name"] in _MAIN
    )
    lines = [
        f"database   {told('memories')} memories, {told('turns')} turns in {told('themes')} themes; "
        f"{about}{waiting:,} still without an embedding",
        f"growth     {told('turns_last_day')} turns and {told('memories_last_day')} memories of the last day, "
        f"{told('turns_last_week')} and {told('memories_last_week')} of the last week",
        f"size       {format_bytes(database['database_bytes'])} ({largest}); "
        f"answered in {database['answered_in_ms']:.0f} ms",
        f"retention  {described(database['retention'])}",
    ]
    if held := database["removals_held"]:
        lines.append(
            f"removals   {held:,} wait for a decision, as a memory file was lost; see: hermes-pgvector removals list"
        )
    return lines


def _process_lines(process: dict[str, Any]) -> list[str]:
    report = process["report"]
    state = "runs" if process["living"] else "is gone; what waits follows when an agent starts"
    lines = [f"process    {process['pid']} {state}: {process['waiting']} waiting"]
    if process["problem"]:
        lines.append(f"           {process['problem']}")
    if process["living"] and report:
        stale = (process["report_age_s"] or 0) > _STALE_S
        lines.append(
            f"           Postgres {_POSTGRES.get(str(report.get('postgres')), report.get('postgres'))}, "
            f"endpoint {_ENDPOINT.get(str(report.get('endpoint')), report.get('endpoint'))}, "
            f"{report.get('operations', 0)} written, {report.get('operations_per_s', 0)}/s, "
            f"{report.get('retries', 0)} retries"
            + (f", {report['refused']} LOST" if report.get("refused") else "")
            + (" (not heard of for a minute)" if stale else "")
        )
        timings = [
            f"{kind} {report[f'{kind}_p50_ms']}/{report[f'{kind}_p95_ms']} ms"
            for kind in WORK
            if f"{kind}_p50_ms" in report
        ]
        if timings:
            lines.append("           p50/p95: " + ", ".join(timings))
        if "replica" in report:
            lines.append("           " + _replica_line(report))
        if report.get("last_error"):
            lines.append("           " + last_error(report))
    return lines


def last_error(report: Mapping[str, Any]) -> str:
    """The last error of a process with its time, and since when it is over."""
    at, over_at = (str(report.get(name) or "") for name in ("last_error_at", "last_error_over_at"))
    over = f", over since {when(over_at)}" if over_at else ""
    return f"last error at {when(at)}{over}: {report['last_error']}"


def agreed(status: Status) -> Status:
    """The same where processes, which tell of themselves every few seconds, say nothing else than our own look.

    Who was connected at its last report is that no more when the database is out of reach now, and the other way round.
    """
    there = "problem" not in status["database"]
    told = {"down": "reconnecting"} if there else {"up": "was up"}
    processes = [
        process | {"report": process["report"] | {"postgres": told.get(state, state)}}
        if process["living"] and (state := process["report"].get("postgres"))
        else process
        for process in status["processes"]
    ]
    return status | {"processes": processes}


def _replica_line(report: Mapping[str, Any]) -> str:
    states = {"up": f"up, {report.get('replica_lag_s', 0)} s behind", "starting": "not looked at yet"}
    state = states.get(str(report["replica"]), f"left alone ({report.get('replica_problem')})")
    return (
        f"replica {state}; it answered {report.get('reads_replica', 0)} questions, "
        f"the primary {report.get('reads_primary', 0)}"
    )


def flat(status: Status) -> dict[str, int | float]:
    """Numbers only, over all living processes: counters are summed, timings and lags are the slowest process's."""
    totals: dict[str, int | float] = {
        "processes": sum(process["living"] for process in status["processes"]),
        **{key: value for key, value in status.items() if _is_number(value)},
        **{key: value for key, value in status["database"].items() if _is_number(value)},
    }
    for process in status["processes"]:
        for key, value in process["report"].items() if process["living"] else ():
            if not _is_number(value) or key in ("spool_bytes", "set_aside"):
                continue
            slowest = "_p50_" in key or "_p95_" in key or key == "replica_lag_s"
            totals[key] = max(totals.get(key, 0), value) if slowest else totals.get(key, 0) + value
    rates = {key: value for key, value in status["recall"].items() if key.endswith("_rate") and value is not None}
    return totals | rates


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
