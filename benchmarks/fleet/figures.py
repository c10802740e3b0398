"""What the runs of a fleet look at while they last: processes, the server, and whether a figure stays flat."""

from __future__ import annotations

import contextlib
import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
from tables import percentile, short

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")

_CONNECTIONS = """
SELECT count(*), count(*) FILTER (WHERE state <> 'idle')
  FROM pg_stat_activity WHERE datname = current_database() AND usename = 'hermes'"""
_TABLES = """
SELECT sum(n_live_tup), sum(n_dead_tup), sum(autovacuum_count), sum(autoanalyze_count),
       sum(pg_total_relation_size(relid)), pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')
  FROM pg_stat_user_tables"""
_INDEXES = """
SELECT amname, sum(pg_relation_size(c.oid))
  FROM pg_class AS c JOIN pg_am AS a ON a.oid = c.relam
 WHERE c.relkind = 'i' AND c.relnamespace = 'public'::regnamespace GROUP BY 1"""
_ROWS = "SELECT (SELECT count(*) FROM conversations) + (SELECT count(*) FROM memory_entries)"


def of_process(pid: int) -> dict[str, float]:
    """Resident memory, threads, and CPU seconds so far."""
    words = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
    ticks, threads, pages = int(words[11]) + int(words[12]), int(words[17]), int(words[21])
    return {"rss_mb": pages * _PAGE / 1e6, "threads": threads, "cpu_s": ticks * _TICK_S}


def busy_and_all() -> tuple[float, float]:
    """CPU seconds of the machine so far: those in which it worked, and all."""
    words = Path("/proc/stat").read_text(encoding="ascii").splitlines()[0].split()[1:9]
    ticks = [int(word) for word in words]
    return (sum(ticks) - ticks[3] - ticks[4]) * _TICK_S, sum(ticks) * _TICK_S


def on_disk(folder: Path) -> int:
    """Bytes of the files in a folder."""
    total = 0
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            total += path.stat().st_size
    return total


class Watched:
    """A database while it is worked on."""

    def __init__(self, admin: str) -> None:
        self._conn = psycopg.connect(admin, autocommit=True)

    def look(self) -> dict[str, float]:
        """Connections, rows, dead rows, runs of the autovacuum, bytes of WAL, tables and indexes, all as of now."""
        # Within the same session the statistics would be those of its last look.
        self._conn.execute("SELECT pg_stat_clear_snapshot()")
        connections, active = self._row(_CONNECTIONS)
        live, dead, vacuums, analyzes, size, wal = (float(value or 0) for value in self._row(_TABLES))
        (rows,) = self._row(_ROWS)
        found = self._conn.execute(_INDEXES.encode()).fetchall()
        indexes = {f"{method}_bytes": float(size) for method, size in found}
        return {
            "connections": connections,
            "connections_active": active,
            "rows": rows,
            "live_rows": live,
            "dead_rows": dead,
            "autovacuums": vacuums,
            "autoanalyzes": analyzes,
            "database_bytes": size,
            "wal_bytes": wal,
            **indexes,
        }

    def connections(self) -> int:
        """How many the agents have."""
        return int(self._row(_CONNECTIONS)[0])

    def close(self) -> None:
        """Let go of the connection."""
        self._conn.close()

    def _row(self, statement: str) -> tuple[Any, ...]:
        row = self._conn.execute(statement.encode()).fetchone()
        assert row is not None
        return tuple(row)


def memory_of_server(pidfile: Path) -> float:
    """MB of the server and its backends, each shared page counted once."""
    postmaster = int(pidfile.read_text(encoding="ascii").split("\n")[0])
    total = 0
    for status in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            words = status.read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
            if int(words[1]) != postmaster and int(status.parent.name) != postmaster:
                continue
            for line in (status.parent / "smaps_rollup").read_text(encoding="ascii").splitlines():
                if line.startswith("Pss:"):
                    total += int(line.split()[1])
    return total / 1e3


def thirds(values: Sequence[float]) -> tuple[float, float]:
    """The medians of the first third and of the last third."""
    size = max(1, len(values) // 3)
    return statistics.median(values[:size]), statistics.median(values[-size:])


def flat(figures: Mapping[str, Sequence[float]], limits: Mapping[str, float]) -> list[dict[str, Any]]:
    """A row for each figure: both thirds, their ratio, the greatest value, and a verdict where there is a limit.

    `limits` are greatest ratios of the last third to the first.
    """
    rows = []
    for name, values in figures.items():
        if not values:
            continue
        (first, last), limit = thirds(values), limits.get(name)
        verdict = "" if limit is None else f"flat (<= {limit:g})" if last <= first * limit else f"grows (> {limit:g})"
        rows.append(
            {
                "figure": name,
                "first third": short(first),
                "last third": short(last),
                "last / first": f"{last / first:.2f}" if first else "-",
                "greatest": short(max(values)),
                "verdict": verdict,
            }
        )
    return rows


def p50_p99(values: Sequence[float]) -> tuple[float, float]:
    """The median and the 99th percentile."""
    return statistics.median(values), percentile(values, 0.99)
