"""What the products stand on: one Postgres with a database for each, one embedding endpoint that can misbehave."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import facts
import httpx
import numpy as np
import population
import psycopg
from products import DIMS, POSTGRES, Product
from psycopg.conninfo import make_conninfo
from worker import Worker

from hermes_memory_pgvector.server.cluster import EmbeddedServer

SETTINGS = {
    "max_connections": "200",
    "shared_buffers": "1GB",
    "max_wal_size": "4GB",
    "dynamic_shared_memory_type": "posix",  # as Postgres has it: in files, parallel builds and scans wait for the disk
}
SEED = 20260101
POOL = 8192  # vectors; where many rows had one and the same, an HNSW index would have less to do
_TOPICS = 200
_POLL_S = 0.005
_POLL_SHARE = 10  # times as long as the count itself took


class Endpoint:
    """embedder.py, on one port for as long as the block lasts, however often it is stopped and started."""

    def __init__(self, scratch: Path, known: Sequence[Path]) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self._port = probe.getsockname()[1]
        self._files = [str(_pool(scratch)), *map(str, known)]
        self._process: subprocess.Popen[str] | None = None
        self.base = f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Answer again, at once."""
        if self._process is None:
            script = str(Path(__file__).with_name("embedder.py"))
            command = [sys.executable, "-P", script, str(self._port), *self._files]
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            assert self._process.stdout is not None
            self._process.stdout.readline()

    def stop(self) -> None:
        """Refuse connections."""
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            assert self._process.stdout is not None
            self._process.stdout.close()
            self._process = None

    def be(self, mode: str, latency_s: float = 0.0, *, mixed: bool = False) -> None:
        """Get into a mood (see embedder.py), or be `down`. What hung before is cut."""
        if mode == "down":
            self.stop()
            return
        self.stop()
        self.start()
        mood = {"mode": mode, "latency_s": latency_s, "mixed": mixed}
        httpx.post(f"{self.base}/mood", json=mood).raise_for_status()


def _pool(folder: Path) -> Path:
    """A file of vectors such as sentences have, each as a line of JSON."""
    dice = np.random.default_rng(SEED)
    vectors = population.Mixture(DIMS).sample(dice.integers(0, _TOPICS, POOL), dice)
    path = folder / "pool.jsonl"
    path.write_text("".join(f"{json.dumps(each)}\n" for each in vectors.round(6).astype(float).round(6).tolist()))
    return path


class Kept(ABC):
    """Where a product's rows are; `dsn` is what its configuration says of it."""

    dsn: str

    @abstractmethod
    def counting(self) -> contextlib.AbstractContextManager[Callable[[], tuple[int, int]]]:
        """What counts rows of turns and memories together, and those that have an embedding."""

    @abstractmethod
    def texts(self, table: str, theme: str) -> dict[int, str]:
        """Every text of a theme by the id that a tool returns."""

    def wait_for(self, rows: int, *, embedded: int, still_s: float, at_most_s: float) -> tuple[int, int]:
        """Wait for so many rows and embeddings, until nothing has changed for `still_s`; the counts then."""
        with self.counting() as look:
            begun = changed = now = time.monotonic()
            before = look()
            while before[0] < rows or before[1] < embedded:
                # Counting costs a core as well: little of it, however many rows there are.
                time.sleep(max(_POLL_S, _POLL_SHARE * (time.monotonic() - now)))
                now = time.monotonic()
                seen = look()
                if seen != before:
                    before, changed = seen, now
                if now - changed > still_s or now - begun > at_most_s:
                    break
            return before


@dataclass
class Database(Kept):
    """A product's own database."""

    admin: str
    dsn: str

    def ask(self, statement: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...]:
        """The first row of a statement's answer."""
        with psycopg.connect(self.admin, autocommit=True) as conn:
            row = conn.execute(statement.encode(), parameters).fetchone()
            assert row is not None
            return tuple(row)

    @contextlib.contextmanager
    def counting(self) -> Iterator[Callable[[], tuple[int, int]]]:
        """Over one connection."""
        count = "SELECT count(*), count(embedding) FROM conversations"
        memories = "SELECT count(*), count(embedding) FROM memory_entries"
        with psycopg.connect(self.admin, autocommit=True) as conn:

            def look() -> tuple[int, int]:
                turns, entries = (conn.execute(each.encode()).fetchone() for each in (count, memories))
                assert turns is not None and entries is not None
                return turns[0] + entries[0], turns[1] + entries[1]

            yield look

    def texts(self, table: str, theme: str) -> dict[int, str]:
        """From Postgres."""
        with psycopg.connect(self.admin) as conn:
            asked = f"SELECT id, content FROM {table} WHERE agent_identity = %s"
            return dict(conn.execute(asked.encode(), (theme,)).fetchall())


@dataclass
class Files(Kept):
    """A folder with a SQLite file for each theme."""

    folder: Path

    @property
    def dsn(self) -> str:  # type: ignore[override]
        """The file of a theme, whose number the driver puts in."""
        return str(self.folder / "{theme}.db")

    @contextlib.contextmanager
    def counting(self) -> Iterator[Callable[[], tuple[int, int]]]:
        """Over all files."""
        yield lambda: facts.counted(self.folder)

    def texts(self, table: str, theme: str) -> dict[int, str]:
        """Of its facts, whatever they were."""
        return facts.texts(self.folder, theme)


@dataclass
class Stage:
    """Server, endpoint and products; a new database and a new process for whoever asks."""

    server: EmbeddedServer
    endpoint: Endpoint
    products: tuple[Product, ...]
    scratch: Path
    kept: Path
    _made: dict[str, int] = field(default_factory=dict)

    def place(self, product: Product, name: str = "") -> Kept:
        """A new, empty place for the product's rows."""
        return self.database(product, name) if not product.without(POSTGRES) else Files(self._folder(product, name))

    def _folder(self, product: Product, name: str) -> Path:
        folder = self.kept / name if name else Path(tempfile.mkdtemp(prefix=f"{product.name}-", dir=self.scratch))
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def database(self, product: Product, name: str = "") -> Database:
        """A new database with the product's own tables and indexes."""
        admin = self.server.ensure().admin
        self._made[product.name] = self._made.get(product.name, 0) + 1
        name = name or f"{product.name}_{self._made[product.name]}"
        with psycopg.connect(admin, autocommit=True) as conn:
            conn.execute(f"CREATE DATABASE {name} TEMPLATE template0".encode())
        made = self._named(name)
        product.migrate(made.admin)
        return made

    def _named(self, name: str) -> Database:
        admin = make_conninfo(self.server.ensure().admin, dbname=name)
        return Database(admin, make_conninfo(admin, user="hermes"))

    def loaded(self, product: Product, name: str, load: Callable[[Kept], None]) -> Kept:
        """A place filled by `load`, or the one that an earlier run over the same data directory has filled."""
        name = f"{product.name}_{name}"
        if product.without(POSTGRES):
            files = Files(self.kept / name)
            if not (files.folder / "complete").exists():
                shutil.rmtree(files.folder, ignore_errors=True)
                load(self.place(product, name))
                (files.folder / "complete").touch()
            return files
        with psycopg.connect(self.server.ensure().admin, autocommit=True) as conn:
            if conn.execute("SELECT FROM pg_database WHERE datname = %s", (name,)).fetchone() is None:
                conn.execute(f"DROP DATABASE IF EXISTS {name}_unfinished".encode())
                load(self.database(product, f"{name}_unfinished"))
                conn.execute(f"ALTER DATABASE {name}_unfinished RENAME TO {name}".encode())
        return self._named(name)

    def read_all(self, place: Kept) -> None:
        """Read every file of a place once, so that no product's first questions wait for the disk."""
        folder = place.folder if isinstance(place, Files) else self._data_of(place)
        for path in folder.iterdir():
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                while file.read(1 << 20):
                    pass

    def _data_of(self, place: Kept) -> Path:
        assert isinstance(place, Database)
        (oid,) = place.ask("SELECT oid FROM pg_database WHERE datname = current_database()")
        return self.server.root / "data" / "base" / str(oid)

    def home(self) -> Path:
        """A new, empty home of the agent."""
        return Path(tempfile.mkdtemp(prefix="home-", dir=self.scratch))

    @contextlib.contextmanager
    def worker(
        self, product: Product, place: Kept, themes: Sequence[str], home: Path | None = None, **config: Any
    ) -> Iterator[Worker]:
        """The product in a process of its own with an instance for each theme, wherever its data goes."""
        home = home or self.home()
        with Worker(product.python, product.provider, home) as worker:
            chosen = product.config(place.dsn, self.endpoint.base, **config)
            worker.ask("open", config=chosen, home=str(home), themes=list(themes))
            yield worker

    def kill_postgres(self) -> None:
        """End the server as the kernel does when memory is short."""
        os.kill(int((self.server.root / "data" / "postmaster.pid").read_text().split("\n")[0]), signal.SIGKILL)
        until(lambda: not self.server.running(), 30)

    def stop_postgres(self) -> None:
        """End the server in good order."""
        self.server.stop()

    def start_postgres(self) -> None:
        """Start it on the same data; fine when it runs."""
        self.server.ensure()


def in_turn(products: Sequence[Product], turn: int) -> Sequence[Product]:
    """All of them, in the other order each time: none is always the one that comes last."""
    return products if turn % 2 == 0 else products[::-1]


def until(holds: Callable[[], bool], timeout_s: float) -> None:
    """Wait until something holds. Raises: TimeoutError."""
    end = time.monotonic() + timeout_s
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {timeout_s} s")
        time.sleep(0.02)


@contextlib.contextmanager
def stage(
    products: tuple[Product, ...],
    known: Sequence[Path] = (),
    settings: Mapping[str, str] | None = None,
    kept: Path | None = None,
) -> Iterator[Stage]:
    """A stage for the length of the block; with `kept`, its databases are in that directory and stay there."""
    place = Path(tempfile.mkdtemp(prefix="hermes-bench-", dir="/tmp"))
    place.chmod(0o755)
    server = EmbeddedServer(kept or place / "pg", settings=SETTINGS | dict(settings or {}))
    endpoint = Endpoint(place, known)
    try:
        server.ensure()
        endpoint.start()
        yield Stage(server, endpoint, products, place, (kept or place) / "files")
    finally:
        endpoint.stop()
        server.stop()
        server.release()
        shutil.rmtree(place)
