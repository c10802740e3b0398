"""Metrics for Prometheus of what `status` knows, through its own client library.

No metric has a theme or a process as a label: their number is unbounded, and a theme's name may be a person's.
"""

from __future__ import annotations

import math
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

from prometheus_client import CollectorRegistry, generate_latest, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ...domain.errors import ConfigurationError, WrongUsage
from ...domain.files import replace_text
from ...store.vectors import STORES
from .report import WORK, Status, numbers

PREFIX = "hermes_pgvector_"
_PATIENCE_S = 10.0  # with who connects and sends nothing, for each of whom the library has a thread


class MetricKind(NamedTuple):
    """One metric; a counter is shown with `_total` after its name. `labels` have bounded sets of values."""

    name: str
    kind: Literal["gauge", "counter"]
    help: str
    labels: tuple[str, ...] = ()


_STORE = ("store",)
METRICS = tuple(
    MetricKind(PREFIX + name, kind, about, labels)  # type: ignore[arg-type]
    for name, kind, about, labels in (
        ("up", "gauge", "1 when Postgres answered this scrape, else 0", ()),
        ("answer_seconds", "gauge", "How long Postgres took for the queries of this scrape", ()),
        ("rows", "gauge", "Rows; an estimate above 50,000", _STORE),
        ("pending_rows", "gauge", "Rows that wait for their vector; an estimate above 50,000", _STORE),
        ("rows_last_day", "gauge", "Rows whose own time is within the last day", _STORE),
        ("rows_last_week", "gauge", "Rows whose own time is within the last week", _STORE),
        ("themes", "gauge", "Themes that hold rows", ()),
        ("database_bytes", "gauge", "Size of the whole database", ()),
        ("table_bytes", "gauge", "Size of a table without its indexes", ("table",)),
        ("index_bytes", "gauge", "Size of all indexes of a table", ("table",)),
        ("processes", "gauge", "Agent processes that run, by how they find Postgres", ("postgres",)),
        ("endpoints_failing", "gauge", "Agent processes whose embedding endpoint is paused after failures", ()),
        ("replicas_failing", "gauge", "Agent processes whose replica cannot be used", ()),
        ("replica_lag_seconds", "gauge", "Replication lag, as seen by the process that sees the largest", ()),
        ("spool_writes", "gauge", "Accepted writes that are not in Postgres yet", ()),
        ("spool_bytes", "gauge", "Size on disk of the accepted writes that are not in Postgres yet", ()),
        ("spool_limit_bytes", "gauge", "Size of its spool from which a process loses writes", ()),
        ("spool_oldest_seconds", "gauge", "How long the oldest write that is not in Postgres yet has waited", ()),
        ("set_aside_writes", "gauge", "Writes that Postgres rejected for their content", ()),
        ("latency_seconds", "gauge", "Recent durations, of the slowest process", ("work", "quantile")),
        ("written", "counter", "Writes that reached Postgres", ()),
        ("lost_writes", "counter", "Lost writes: refused, or accepted into a spool file that was destroyed", ()),
        ("write_retries", "counter", "Attempts to write that failed and were repeated", ()),
        ("turns_skipped", "counter", "Turns that were left out on purpose", ()),
        ("secrets_masked", "counter", "Secrets that were masked before something was stored", ()),
        ("searches", "counter", "Searches of the store", ()),
        ("replica_reads", "counter", "Searches where a replica is set, by the server that answered", ("server",)),
        ("recalls", "counter", "Recalls, before a turn (prefetch) and by tools, by whether they had something to give",
         ("kind", "found")),
        ("recall_failures", "counter", "Recalls before a turn that failed or came too late", ()),
        ("vector_failures", "counter", "Searches by words alone, because the vectors failed or came too late", ()),
        ("embed_failures", "counter", "Embedding requests that failed", ()),
        ("rerank_failures", "counter", "Rerank requests that failed or came too late", ()),
    )
)  # fmt: skip

# The counters of processes, by the metric that they add to: the labels' values, and the counters' names.
_COUNTED: dict[str, dict[tuple[str, ...], tuple[str, ...]]] = {
    "written": {(): ("operations",)},
    "lost_writes": {(): ("refused", "lost")},  # not accepted, or accepted into a file that was destroyed
    "write_retries": {(): ("retries",)},
    "secrets_masked": {(): ("secrets_masked",)},
    "searches": {(): ("searches",)},
    "replica_reads": {("replica",): ("reads_replica",), ("primary",): ("reads_primary",)},
    "recall_failures": {(): ("prefetch_failures",)},
    "vector_failures": {(): ("vector_leg_failures", "query_embed_failures", "query_embed_late")},
    "embed_failures": {(): ("embed_errors",)},
    "rerank_failures": {(): ("rerank_late", "rerank_failures")},
}
_SKIPPED = "turns_skipped_"
_STATES = ("up", "down", "starting")


class CounterTotals:
    """Sums the counters of processes that start and end: the counts of an ended process are kept.

    It counts from its creation; earlier counts are included as far as their processes still run.
    """

    def __init__(self) -> None:
        self._last: dict[str, dict[str, float]] = {}
        self._sums: dict[str, float] = {}

    def take(self, processes: Iterable[Mapping[str, Any]]) -> Mapping[str, float]:
        """Add what the processes have reported by now; return the sums."""
        seen = {}
        for process in processes:
            if not process["living"]:
                continue
            name, now = process["name"], _finite(process["report"])
            before = self._last.get(name, {})
            for key, value in now.items():
                self._sums[key] = self._sums.get(key, 0.0) + max(0.0, value - before.get(key, 0.0))
            # A report that could not be read this time does not restart the count.
            seen[name] = before | now
        self._last = seen
        return self._sums


class StatusCollector(Collector):
    """Examines the home at each scrape, one scrape at a time. `look` is a Watcher's."""

    def __init__(self, look: Callable[[], Status]) -> None:
        self._look = look
        self._totals = CounterTotals()
        self._lock = threading.Lock()

    def collect(self) -> Iterable[Metric]:
        """Yield every metric that has a value."""
        with self._lock:
            status = self._look()
            sums = dict(self._totals.take(status["processes"]))
        values = _gauges(status) | _counters(sums)
        for known in METRICS:
            found = values.get(known.name.removeprefix(PREFIX))
            if found is None:
                continue
            family: Metric
            if known.kind == "counter":
                family = CounterMetricFamily(known.name, known.help, labels=known.labels)
            else:
                family = GaugeMetricFamily(known.name, known.help, labels=known.labels)
            for labels, value in found.items():
                family.add_metric(labels, value)
            yield family


Values = dict[str, dict[tuple[str, ...], float]]


def _gauges(status: Status) -> Values:
    database, processes = status["database"], [each for each in status["processes"] if each["living"]]
    up = "problem" not in database
    reports = [process["report"] for process in processes]
    states = Counter(report.get("postgres") for report in reports)
    found: Values = {
        "up": {(): float(up)},
        "processes": {(state,): states[state] for state in _STATES},
        "endpoints_failing": {(): sum(report.get("endpoint") in ("open", "half-open") for report in reports)},
        "replicas_failing": {(): sum(report.get("replica") == "away" for report in reports)},
        "replica_lag_seconds": {(): max((report.get("replica_lag_s", 0.0) for report in reports), default=0.0)},
        "spool_writes": {(): status["waiting"]},
        "spool_bytes": {(): status["spool_bytes"]},
        "spool_limit_bytes": {(): status["spool_limit_bytes"]},
        "spool_oldest_seconds": {(): status["oldest_waiting_s"]},
        "set_aside_writes": {(): status["set_aside"]},
        "latency_seconds": dict(_latencies(reports)),
    }
    return found | (_held(database) if up else {})


def _latencies(reports: Sequence[Mapping[str, Any]]) -> Iterator[tuple[tuple[str, ...], float]]:
    for work in WORK:
        for percent in (50, 95):
            key = f"{work}_p{percent}_ms"
            if times := [report[key] for report in reports if key in report]:
                yield (work, f"{percent / 100:g}"), max(times) / 1000


def _held(database: Mapping[str, Any]) -> Values:
    return {
        "answer_seconds": {(): database["answered_in_ms"] / 1000},
        "rows": {(store,): database[store] for store in STORES},
        "pending_rows": {(store,): database[f"pending_{store}"] for store in STORES},
        "rows_last_day": {(store,): database[f"{store}_last_day"] for store in STORES},
        "rows_last_week": {(store,): database[f"{store}_last_week"] for store in STORES},
        "themes": {(): database["themes"]},
        "database_bytes": {(): database["database_bytes"]},
        "table_bytes": {(table["name"],): table["table_bytes"] for table in database["tables"]},
        "index_bytes": {(table["name"],): table["index_bytes"] for table in database["tables"]},
    }


def _counters(sums: Mapping[str, float]) -> Values:
    found: Values = {
        name: {labels: sum(sums.get(key, 0.0) for key in keys) for labels, keys in by_labels.items()}
        for name, by_labels in _COUNTED.items()
    }
    found["turns_skipped"] = {(): sum(value for key, value in sums.items() if key.startswith(_SKIPPED))}
    found["recalls"] = {}
    for kind, asked in (("prefetch", "prefetches"), ("tool", "tool_recalls")):
        had = sums.get(f"{asked}_found", 0.0)
        found["recalls"] |= {(kind, "yes"): had, (kind, "no"): max(0.0, sums.get(asked, 0.0) - had)}
    return found


def _finite(report: Mapping[str, Any]) -> dict[str, float]:
    return {key: float(value) for key, value in numbers(report).items() if math.isfinite(value)}


def registry_of(look: Callable[[], Status]) -> CollectorRegistry:
    """Return a registry with our metrics and nothing else."""
    registry = CollectorRegistry()
    registry.register(StatusCollector(look))
    return registry


def as_text(registry: CollectorRegistry) -> str:
    """Return the metrics in the exposition format."""
    return generate_latest(registry).decode()


def as_json(registry: CollectorRegistry) -> list[dict[str, Any]]:
    """Return every value with its labels."""
    return [
        {"name": sample.name, "labels": sample.labels, "value": sample.value}
        for family in registry.collect()
        for sample in family.samples
    ]


def parse_address(text: str) -> tuple[str, int]:
    """Return the host and port of `127.0.0.1:9187`, `[::1]:9187`, `9187` (this host only) or `:9187` (every address).

    Raises WrongUsage.
    """
    host, colon, port = text.strip().rpartition(":")
    bracketed = host.startswith("[") and host.endswith("]")
    if not (port.isascii() and port.isdigit() and int(port) < 65536) or (":" in host and not bracketed):
        raise WrongUsage(f"--listen {text!r} is no address: write HOST:PORT, as 127.0.0.1:9187 or [::1]:9187")
    return host.strip("[]") or ("0.0.0.0" if colon else "127.0.0.1"), int(port)


@contextmanager
def listen(registry: CollectorRegistry, address: str) -> Iterator[str]:
    """Serve the metrics in the background while the block runs; yield their URL.

    Raises WrongUsage for text that is no address, ConfigurationError for an address that cannot be used.
    """
    host, port = parse_address(address)
    try:
        server, thread = start_http_server(port, addr=host, registry=registry)
        handler = server.RequestHandlerClass
        assert isinstance(handler, type)
        server.RequestHandlerClass = type("ImpatientHandler", (handler,), {"timeout": _PATIENCE_S})
    except socket.gaierror as exc:
        raise ConfigurationError(f"--listen {address}: there is no host {host!r} ({exc.strerror})") from exc
    except OSError as exc:
        raise ConfigurationError(
            f"--listen {address}: {exc.strerror or exc}; choose another port or address, or end what listens there"
        ) from exc
    try:
        yield f"http://{f'[{host}]' if ':' in host else host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def write_textfile(registry: CollectorRegistry, path: Path) -> None:
    """Write the metrics into a file in one step, so that no reader sees a part. Raises ConfigurationError."""
    try:
        replace_text(path, generate_latest(registry).decode(), mode=0o644)  # for the exporter's own user
    except OSError as exc:
        raise ConfigurationError(f"--textfile {path} cannot be written ({exc.strerror or exc})") from exc
