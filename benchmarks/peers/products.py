"""The products: how each is installed, set up and configured, and what it lacks. Nothing else here knows them apart."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psycopg

from hermes_memory_pgvector.admin.common.migrations import migrate

INCUMBENT = "hermes-memory-pgvector==1.0.0"
HEXUS = "hexus==0.9.2"
HOST = "hermes-agent==0.19.0"  # in every environment: its base class and helpers are part of a hook
DIMS = 768
MODEL = "made-up"

# What a product may lack, and what a table says then instead of a figure.
TURNS, ENDPOINT, POSTGRES, QUEUE = "turns", "endpoint", "Postgres", "queue_prefetch"
_WORDS = {TURNS: "keeps no turns", ENDPOINT: "no endpoint", POSTGRES: "no Postgres", QUEUE: "no such hook"}


@dataclass(frozen=True)
class Product:
    """A product as the benchmark drives it, in an environment and a process of its own.

    `dims`: floats in its embeddings. `tools`: what its tools that recall are called with beside question and limit.
    `graphs`: questions about one theme may be answered from the HNSW graph of the table.
    """

    name: str
    python: Path
    provider: str
    dims: int = DIMS
    lacks: frozenset[str] = frozenset()
    graphs: bool = True
    notes: tuple[str, ...] = ()  # what a reader of its figures must know
    tools: Mapping[str, Mapping[str, Any]] = field(
        default_factory=lambda: {"recall_memory": {}, "recall_conversation": {}}
    )

    def without(self, *needed: str) -> str:
        """What a table says where the product lacks one of these; empty when it has them all."""
        return next((_WORDS[each] for each in needed if each in self.lacks), "")

    def migrate(self, admin_dsn: str) -> None:
        """Make the tables and indexes as the product itself makes them. Raises: CalledProcessError."""
        raise NotImplementedError

    def config(self, dsn: str, embed_base: str, **more: Any) -> dict[str, Any]:
        """Its defaults, with where its data and the endpoint are; the same protocol for all."""
        raise NotImplementedError


class _Ours(Product):
    def migrate(self, admin_dsn: str) -> None:
        migrate(admin_dsn, dims=self.dims, runtime_role="hermes")

    def config(self, dsn: str, embed_base: str, **more: Any) -> dict[str, Any]:
        url = f"{embed_base}/{self.dims}/v1/embeddings"
        return {"dsn": dsn, "embed_url": url, "embed_model": MODEL, "dims": self.dims} | more


class _Incumbent(Product):
    def migrate(self, admin_dsn: str) -> None:
        command = str(self.python.with_name("hermes-pgvector"))
        asked = [command, "migrate", "--runtime-role", "hermes", "--admin-dsn", admin_dsn]
        subprocess.run(asked, check=True, capture_output=True)

    def config(self, dsn: str, embed_base: str, **more: Any) -> dict[str, Any]:
        return {"dsn": dsn, "embed_url": f"{embed_base}/{self.dims}", "embed_model": MODEL} | more


class _Hexus(_Incumbent):
    def migrate(self, admin_dsn: str) -> None:
        made = "import sys; from hexus.store import MemoryStore; dsn = sys.argv[1]"
        script = f"{made}; MemoryStore(dsn).apply_migration_as_admin(admin_dsn=dsn)"
        subprocess.run([str(self.python), "-P", "-c", script, admin_dsn], check=True, capture_output=True)
        with psycopg.connect(admin_dsn, autocommit=True) as conn:  # its migrations leave this to the administrator
            conn.execute("GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO hermes")
            conn.execute("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO hermes")


class _Holographic(Product):
    def config(self, dsn: str, embed_base: str, **more: Any) -> dict[str, Any]:
        return {"db_path": dsn}


def ours(dims: int = DIMS) -> Product:
    """This package, in the environment of this process."""
    provider = "hermes_memory_pgvector:PgvectorMemoryProvider"
    return _Ours("ours", Path(sys.executable), provider, dims=dims, graphs=False)


def incumbent(cache: Path) -> Product:
    """The other package of the same distribution name."""
    python = _environment(
        cache / "incumbent-1.0.0", INCUMBENT, HOST, *_same("psycopg", "psycopg-binary", "psycopg-pool")
    )
    return _Incumbent("incumbent", python, "hermes_pgvector:PgvectorMemoryProvider")


def hexus(cache: Path) -> Product:
    """A fork of an early incumbent, without torch and the model that it loads unless an endpoint is configured."""
    needs = _same("psycopg", "psycopg-binary", "psycopg-pool", "numpy")
    python = _environment(cache / "hexus-0.9.2", HOST, *needs, alone=[HEXUS])
    return _Hexus(
        "hexus",
        python,
        "hexus:HexusMemoryProvider",
        dims=384,
        lacks=frozenset({QUEUE}),
        notes=(
            "hexus has columns of 384 dimensions, half as wide as the others', and is given the endpoint, so that "
            "nothing but the products differs. By default it embeds in the agent's process, with torch.",
        ),
    )


def holographic() -> Product:
    """The provider that the host brings: facts in a SQLite file of each home. In the environment of this process."""
    return _Holographic(
        "holographic",
        Path(sys.executable),
        "plugins.memory.holographic:HolographicMemoryProvider",
        dims=0,
        lacks=frozenset({TURNS, ENDPOINT, POSTGRES, QUEUE}),
        tools={"recall_memory": {"tool": "fact_store", "action": "search"}},
        notes=(
            "Holographic keeps facts in a SQLite file, finds them by words, and has no themes: here each theme has a "
            "file of its own, as a profile of the host has. numpy is installed, so that it makes its vectors of words.",
        ),
    )


def chosen(names: Sequence[str], cache: Path, our_dims: int = DIMS) -> tuple[Product, ...]:
    """The products of those names."""
    made = {
        "ours": lambda: ours(our_dims),
        "incumbent": lambda: incumbent(cache),
        "hexus": lambda: hexus(cache),
        "holographic": holographic,
    }
    return tuple(made[name]() for name in names)


def _same(*names: str) -> list[str]:
    """The versions that ours has, so that nothing but the products differs."""
    return [f"{name}=={version(name)}" for name in names]


def _environment(venv: Path, *packages: str, alone: Sequence[str] = ()) -> Path:
    """The Python of an environment that is made at the first run; `alone` comes without what it depends on."""
    python = venv / "bin" / "python"
    if not (venv / "complete").exists():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        subprocess.run([*pip, *packages], check=True)
        if alone:
            subprocess.run([*pip, "--no-deps", *alone], check=True)
        (venv / "complete").touch()
    return python
