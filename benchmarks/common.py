"""What the benchmarks share: a private Postgres, an embedding endpoint in a process of its own, figures."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.admin.common.migrations import migrate
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.server.cluster import EmbeddedServer

SEED = 20260101


def parser(doc: str | None) -> argparse.ArgumentParser:
    """A parser with the options every benchmark has."""
    made = argparse.ArgumentParser(description=doc)
    made.add_argument("--json", type=Path, metavar="FILE", help="write every figure there")
    return made


class Postgres:
    """A private server; `database()` gives the runtime conninfo of a new, migrated database."""

    def __init__(self, server: EmbeddedServer) -> None:
        self.server = server
        self._made = 0

    def database(self, dims: int, *, trigrams: bool = False) -> str:
        """A new, migrated database; with `trigrams` misspelt words find what was meant, as in the product's own."""
        admin = self.server.ensure().admin
        self._made += 1
        name = f"bench_{self._made}"
        with psycopg.connect(admin, autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        if trigrams:
            with psycopg.connect(make_conninfo(admin, dbname=name)) as connection:
                connection.execute("CREATE EXTENSION pg_trgm")
        migrate(make_conninfo(admin, dbname=name), dims=dims, runtime_role="hermes")
        return make_conninfo(admin, dbname=name, user="hermes")


@contextmanager
def postgres(settings: Mapping[str, str] | None = None) -> Iterator[Postgres]:
    """A private server for the length of the block; its settings are the product's own and `settings`."""
    place = Path(tempfile.mkdtemp(prefix="hermes-bench-", dir="/tmp"))
    place.chmod(0o755)
    server = EmbeddedServer(place / "pg", settings=settings)
    try:
        server.ensure()
        yield Postgres(server)
    finally:
        server.stop()
        server.release()
        shutil.rmtree(place)


@contextmanager
def endpoint(dims: int, latency_ms: float, *options: str) -> Iterator[str]:
    """The URL of an Ollama-like endpoint in a process of its own, which answers any batch after `latency_ms`."""
    script = str(Path(__file__).with_name("endpoint.py"))
    command = [sys.executable, "-P", script, str(dims), str(latency_ms), *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait(10)


@contextmanager
def provider(config: dict[str, Any], theme: str = "bench") -> Iterator[PgvectorMemoryProvider]:
    """An initialised provider with a home of its own."""
    home = Path(tempfile.mkdtemp(prefix="hermes-bench-home-"))
    made = PgvectorMemoryProvider({"timezone": "UTC"} | config)  # as the times of corpora
    made.initialize("session", hermes_home=str(home), platform="api_server", gateway_session_key=theme)
    try:
        yield made
    finally:
        made.shutdown()
        shutil.rmtree(home, ignore_errors=True)


def turn(number: int) -> tuple[str, str]:
    """A user's and an assistant's text of everyday length, different for each number."""
    return (
        f"What is the status of ticket {number} in the queue of the platform team, and who looks after it today?",
        f"Ticket {number} waits for a review of its second draft; Robin looks after it and expects to be done by noon.",
    )


def spread(values: Sequence[float]) -> dict[str, float]:
    """p50, p99 and maximum."""
    ordered = sorted(values)
    return {
        "p50": round(statistics.median(ordered), 2),
        "p99": round(ordered[int(len(ordered) * 0.99)], 2),
        "max": round(ordered[-1], 2),
    }


def described(benchmark: str, about: str, *packages: str) -> dict[str, Any]:
    """How results of several tables begin: which they are, of which machine, with which versions of `packages`."""
    versions = {name: version(name) for name in packages}
    return {"benchmark": benchmark, "about": about, "machine": _machine(), "versions": versions}


def _machine() -> dict[str, Any]:
    """What a figure depends on before all."""
    release = ".".join(platform.release().split(".")[:2])
    return {
        "cpus": os.cpu_count(),
        "system": f"{platform.system()} {release}",
        "python": platform.python_version(),
    }


def report(name: str, parameters: dict[str, Any], rows: list[dict[str, Any]], to: Path | None) -> None:
    """Print the rows as a table; write all there is to know to `to`."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = [columns, *[[str(row.get(column, "")) for column in columns] for row in rows]]
    widths = [max(len(line[index]) for line in table) for index in range(len(columns))]
    for line in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    if to is not None:
        body = {"benchmark": name, "machine": _machine(), "seed": SEED, "parameters": parameters, "rows": rows}
        save(body, to)


def save(results: dict[str, Any], to: Path) -> None:
    """Write results as JSON with a table's row on each line, so that a difference shows the rows that changed."""
    to.write_text(_laid_out(results) + "\n", encoding="utf-8")


def _laid_out(value: Any, margin: str = "\n") -> str:
    nested = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    if not any(isinstance(each, dict | list) for each in nested):
        return json.dumps(value)
    inner = margin + " "
    if isinstance(value, dict):
        parts = [f"{json.dumps(key)}: {_laid_out(each, inner)}" for key, each in value.items()]
        return f"{{{inner}{f',{inner}'.join(parts)}{margin}}}"
    return f"[{inner}{f',{inner}'.join(_laid_out(each, inner) for each in value)}{margin}]"
