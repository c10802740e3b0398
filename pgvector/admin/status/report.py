"""The counters of every process of a home, and what Postgres holds."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import Any

from ...capture.spool_directory import Destination, destination_of
from ...config.settings import Settings
from ...domain.commandline import typed
from ...domain.errors import HermesPgvectorError, StoreMisconfigured, StoreUnavailable
from ...domain.format import format_bytes, format_duration, plural
from ...domain.text import harmless
from ...host.session_context import Policy
from ...runtime.parts import backend_of
from ...store.backend import NO_ANSWER_YET
from ...store.connection import DeadlineConnection
from ..common.file_fill import fills
from ..common.holdings import held_removals, holdings
from ..common.outcome import counted
from ..common.retention_report import described, retention_state
from ..common.row_security import missing_theme, own_themes
from ..common.spool_views import SpoolView, inspect_spools, last_error, persists, short_id
from ..common.theme_names import own_theme
from .detail import detail
from .hot_report import hot_lines, hot_themes

Status = dict[str, Any]
WORK = ("embed", "embed_query", "write", "search", "rerank")  # work that is timed
_ENDPOINT = {"closed": "up", "open": "failing, not asked for a while", "half-open": "failing, just tried again"}

_POSTGRES = {"reconnecting": "is being connected to again", "was up": "was up a moment ago"}
_MAIN = ("conversations", "memory_entries")
_TOTALLED = ("spool_bytes", "set_aside")  # over all spools, including those of ended processes
_TIMING = re.compile(r"_p50_|_p95_|^replica_lag_s$")
_STALE_S = 60.0  # a living process publishes its counters every five seconds
_DATABASE_S = 8.0  # within a scrape that may take ten
_VERBOSE_S = 300.0
_LEAST_S = 0.1  # for a connection, even past the deadline


class Watcher:
    """Examines one home as often as asked, over one connection that stays open; `verbose`: count every row too.

    If `patient`, a look waits for an embedded server that starts, however long that takes. Otherwise the look says
    after some seconds that it is out of reach, and a later one finds it up.
    """

    def __init__(
        self,
        settings: Settings,
        home: Path,
        locate: Callable[[], str],
        *,
        verbose: bool = False,
        patient: bool = True,
    ) -> None:
        self._verbose = verbose
        self._patient = patient
        self._home = home
        self._settings = settings
        self._backend = backend_of(settings, lambda: settings.dsn or locate(), connections=1, replica=False)
        self._attempt = threading.Thread()  # not started

    def look(self) -> Status:
        """Return the status, see the function `look`."""
        return look(self._settings, self._home, self._connection, verbose=self._verbose)

    @contextmanager
    def _connection(self) -> Iterator[DeadlineConnection]:
        left_s = _VERBOSE_S if self._verbose else _DATABASE_S
        if self._patient:
            self._backend.bring_up()
        else:
            left_s = self._await_attempt(left_s)
        with self._backend.connection(left_s) as conn:
            yield conn

    def _await_attempt(self, most_s: float) -> float:
        """Bring the database up on a thread; return how much of `most_s` is left.

        Raises StoreUnavailable if the thread is still at it by then.
        """
        ends = time.monotonic() + most_s
        if not self._attempt.is_alive():
            self._attempt = threading.Thread(target=self._try_to_bring_up, daemon=True)
            self._attempt.start()
        self._attempt.join(most_s)
        if self._attempt.is_alive():
            raise StoreUnavailable(NO_ANSWER_YET)
        return max(_LEAST_S, ends - time.monotonic())

    def _try_to_bring_up(self) -> None:
        with suppress(HermesPgvectorError):  # whoever asks for a connection is told
            self._backend.bring_up()

    def close(self) -> None:
        """Close the connection."""
        self._backend.close()


def look(
    settings: Settings,
    home: Path,
    connection: Callable[[], AbstractContextManager[DeadlineConnection]],
    *,
    verbose: bool = False,
) -> Status:
    """Return totals, an entry for each process, recall's success, and what the database holds or its problem."""
    views, here = inspect_spools(home), destination_of(settings, home)
    return _spooled(views, settings, here) | {
        "recall": _recall([view.report for view in views if view.living]),
        "processes": [
            {
                "name": view.path.stem,
                "pid": view.pid,
                "living": view.living,
                "waiting": view.waiting,
                "spool_bytes": view.size_bytes,
                "set_aside": [{"id": short_id(item), "error": item.error} for item in view.rejected],
                "report_age_s": None if view.report_age_s is None else round(view.report_age_s, 1),
                "report": view.report,
                "problem": view.problem,
                "elsewhere": view.place if view.living and not view.leads_to(here) else "",
                "outdated": view.is_outdated(home),
                "other_version": view.other_version(),
            }
            for view in views
        ],
        "database": _database(settings, home, connection, verbose=verbose),
        "memory_files": [each.row() | {"nearly_full": each.nearly_full} for each in fills(home)],
    }


def _spooled(views: Sequence[SpoolView], settings: Settings, here: Destination) -> dict[str, Any]:
    oldest = min((view.oldest_at for view in views if view.oldest_at), default=None)
    return {
        "waiting": sum(view.waiting for view in views),
        "spool_bytes": sum(view.size_bytes for view in views),
        "spool_limit_bytes": settings.spool_max_mb * 1_000_000,
        "oldest_waiting_s": 0.0 if oldest is None else round(max(0.0, time.time() - oldest), 1),
        "set_aside": sum(len(view.rejected) for view in views),
        "waiting_for_another": sum(view.waiting for view in views if not view.living and not view.is_for(here)),
    }


def _database(
    settings: Settings,
    home: Path,
    connection: Callable[[], AbstractContextManager[DeadlineConnection]],
    *,
    verbose: bool,
) -> dict[str, Any]:
    try:
        with connection() as conn:
            started = time.monotonic()
            held = holdings(conn) | {"retention": retention_state(conn, settings)}
            held["removals_held"] = sum(each.count for each in held_removals(conn))
            held["hot"] = hot_themes(conn, settings)
            held["not_granted"] = missing_theme(own_themes(conn), own_theme(Policy.of(settings).rules, home))
            held["by_meaning"] = bool(settings.embed_url.strip())
            if verbose:
                held["detail"] = detail(conn)
        return held | {"state": "up", "answered_in_ms": round((time.monotonic() - started) * 1000, 1)}
    except HermesPgvectorError as exc:
        return {"problem": str(exc), "state": "unusable" if isinstance(exc, StoreMisconfigured) else "down"}


def _recall(reports: list[dict[str, Any]]) -> dict[str, Any]:
    """Return how often recall was used by prefetch and by tools, and how often it found something."""
    sums = {
        name: sum(int(report.get(name, 0)) for report in reports)
        for name in ("prefetches", "prefetches_found", "tool_recalls", "tool_recalls_found")
    }
    return sums | {
        f"{kind}_hit_rate": round(sums[f"{asked}_found"] / sums[asked], 3) if sums[asked] else None
        for kind, asked in (("prefetch", "prefetches"), ("tool", "tool_recalls"))
    }


def render_status(status: Status) -> str:
    """Return the status as text for people."""
    lines = _database_lines(status["database"])
    oldest = (
        f", the oldest for {format_duration(status['oldest_waiting_s'])}" if status["oldest_waiting_s"] >= 1 else ""
    )
    lines.append(
        f"waiting    {counted_writes(status['waiting'])} in {format_bytes(status['spool_bytes'])} of spool{oldest}"
    )
    if status["waiting_for_another"]:
        lines.append(
            f"elsewhere  {status['waiting_for_another']} of them were accepted for another database: "
            "hermes-pgvector spool send"
        )
    if status["set_aside"]:
        lines.append(
            typed(f"rejected   {counted_writes(status['set_aside'])}; look at them: hermes-pgvector spool list")
        )
    lines += [*_recall_lines(status["recall"]), *_full_lines(status["memory_files"])]
    told = [each for each in status["processes"] if _is_worth_telling(each)]
    runs = any(process["living"] for process in told)
    for process in told:
        lines += _process_lines(process, agent_runs=runs)
    if not told:
        lines.append("processes  no agent of this home runs, and none has left writes behind")
    return "\n".join(map(harmless, lines))


def _recall_lines(recall: Mapping[str, Any]) -> list[str]:
    rates = [
        f"{name} found something in {recall[f'{kind}_hit_rate']:.0%} of {recall[asked]}"
        for name, kind, asked in (("prefetch", "prefetch", "prefetches"), ("tools", "tool", "tool_recalls"))
        if recall[asked]
    ]
    return ["recall     " + ", ".join(rates)] if rates else []


def _full_lines(files: Sequence[Mapping[str, Any]]) -> list[str]:
    return [
        typed(
            f"full       {each['file']} {each['chars']:,} of {each['limit']:,} characters; see: hermes-pgvector relieve"
        )
        for each in files
        if each["nearly_full"]
    ]


def counted_writes(count: int) -> str:
    """Return text such as `3 writes`."""
    return counted({"writes": count}, also_none=True)


def _database_lines(database: Mapping[str, Any]) -> list[str]:
    if "problem" in database:
        said = "out of reach" if database["state"] == "down" else "cannot be used"
        return [f"database   {said}: {database['problem']}"]

    def told(name: str, of: str = "") -> str:
        about = "about " if name in database["about"] else ""
        return about + counted({of or name: database[name]}, also_none=True)

    largest = ", ".join(
        f"{table['name']} {format_bytes(table['table_bytes'])} + {format_bytes(table['index_bytes'])} of indexes"
        for table in database["tables"]
        if table["name"] in _MAIN
    )
    lines = [
        f"database   {told('memories')}, {told('turns')} in {told('themes')}; {_without_embedding(database)}",
        f"growth     {told('turns_last_day', 'turns')} and {told('memories_last_day', 'memories')} of the last day, "
        f"{told('turns_last_week', 'turns')} and {told('memories_last_week', 'memories')} of the last week",
        f"size       {format_bytes(database['database_bytes'])} ({largest}); "
        f"answered in {database['answered_in_ms']:.0f} ms",
        f"retention  {described(database['retention'])}",
        *hot_lines(database["hot"]),
    ]
    if missing := database["not_granted"]:
        lines.insert(1, typed(f"refused    {missing}; as an admin: hermes-pgvector tenants grant ROLE THEME"))
    if held := database["removals_held"]:
        lines.append(
            f"removals   {held:,} wait{'s' if held == 1 else ''} for a decision, as a memory file was lost; "
            "see: hermes-pgvector removals list"
        )
    return lines


def _without_embedding(database: Mapping[str, Any]) -> str:
    if not database["by_meaning"]:
        return "found by words, as no embedding model is set"
    waiting = database["pending_memories"] + database["pending_turns"]
    about = "about " if any(name.startswith("pending") for name in database["about"]) else ""
    return f"{about}{waiting:,} still without an embedding"


def _is_worth_telling(process: Mapping[str, Any]) -> bool:
    """Return False for a process that is gone and whose file only keeps what Postgres has (`spool_keep_s`)."""
    return bool(process["living"] or process["waiting"] or process["set_aside"] or process["problem"])


def _process_lines(process: Mapping[str, Any], *, agent_runs: bool) -> list[str]:
    report = process["report"]
    kind = f", as MCP server with {plural(report.get('mcp_calls', 0), 'call')}" if report.get("mcp_servers") else ""
    first = f"process    {process['pid']} {_state(process, agent_runs=agent_runs)}{kind}: {process['waiting']} waiting"
    return [first, *(f"           {line}" for line in _process_details(process))]


def _state(process: Mapping[str, Any], *, agent_runs: bool) -> str:
    if process["living"]:
        return "runs"
    if not process["waiting"]:
        return "is gone"
    if agent_runs:
        return "is gone; an agent that runs takes over what waits"
    return "is gone; what waits follows when an agent starts"


def _process_details(process: Mapping[str, Any]) -> Iterator[str]:
    if process["problem"]:
        yield process["problem"]
    if process["elsewhere"]:
        yield f"writes to {process['elsewhere']}, not to the database that the settings name: restart it"
    elif process["outdated"] and process["report"]["postgres"] == "reconnecting":
        yield "began before the settings were changed: restart it, unless it connects within seconds"
    if process["other_version"]:
        yield f"{process['other_version']}: restart it"
    yield from _told(process)


def _told(process: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a process told of itself: of one that is gone, why its writes wait."""
    if process["living"] and process["report"]:
        stale = " (not heard of for a minute)" if (process["report_age_s"] or 0) > _STALE_S else ""
        yield from _report_lines(process["report"], stale)
    elif process["waiting"] and persists(process["report"]):
        yield last_error(process["report"])


def _report_lines(report: Mapping[str, Any], stale: str) -> Iterator[str]:
    gone = report.get("refused", 0) + report.get("lost", 0)
    lost = f", {gone} LOST" if gone else ""
    yield (
        f"Postgres {_POSTGRES.get(str(report.get('postgres')), report.get('postgres'))}, "
        f"endpoint {_ENDPOINT.get(str(report.get('endpoint')), report.get('endpoint'))}, "
        f"{report.get('operations', 0)} written, {report.get('operations_per_s', 0)}/s, "
        f"{plural(report.get('retries', 0), 'retry', 'retries')}{lost}{stale}"
    )
    if report.get("vectors") == "incomparable":
        yield typed(
            f"recalls by words only: {report['embed_model']}, which it uses, is not the model of the database; restart "
            "it, or see: hermes-pgvector doctor"
        )
    timed = [kind for kind in WORK if f"{kind}_p50_ms" in report]
    if timed:
        told = (f"{kind} {report[f'{kind}_p50_ms']}/{report[f'{kind}_p95_ms']} ms" for kind in timed)
        yield "p50/p95: " + ", ".join(told)
    if "replica" in report:
        states = {"up": f"up, {report.get('replica_lag_s', 0)} s behind", "starting": "not looked at yet"}
        state = states.get(str(report["replica"]), f"not used ({report.get('replica_problem')})")
        yield (
            f"replica {state}; it answered {plural(report.get('reads_replica', 0), 'question')}, "
            f"the primary {report.get('reads_primary', 0)}"
        )
    if report.get("last_error"):
        yield last_error(report)


def agreed(status: Status) -> Status:
    """Return the status with processes' reports, which are a few seconds old, made consistent with our own check.

    A process that reported a connection is not shown as connected if the database is unreachable now, and the other way
    round. One that uses another database keeps its report.
    """
    there = "problem" not in status["database"]
    told = {"down": "reconnecting"} if there else {"up": "was up"}
    processes = [
        process | {"report": process["report"] | {"postgres": told.get(state, state)}}
        if process["living"] and not process["elsewhere"] and (state := process["report"].get("postgres"))
        else process
        for process in status["processes"]
    ]
    return status | {"processes": processes}


def flat(status: Status) -> dict[str, int | float]:
    """Return numbers only, over living processes: counters are summed, timings and lags are the slowest process's."""
    living = [process["report"] for process in status["processes"] if process["living"]]
    up = int("problem" not in status["database"])
    totals = {"up": up, "processes": len(living)} | numbers(status) | numbers(status["database"])
    counters = [(key, value) for report in living for key, value in numbers(report).items() if key not in _TOTALLED]
    for key, value in counters:
        slowest = _TIMING.search(key) is not None
        totals[key] = max(totals.get(key, 0), value) if slowest else totals.get(key, 0) + value
    return totals | {key: rate for key, rate in numbers(status["recall"]).items() if key.endswith("_rate")}


def numbers(known: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the values that are numbers."""
    return {
        key: value for key, value in known.items() if isinstance(value, (int, float)) and not isinstance(value, bool)
    }
