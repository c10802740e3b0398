"""The two products: how each is installed, set up and configured. Nothing else here knows them apart."""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from hermes_memory_pgvector.admin.common.migrations import migrate

INCUMBENT = "hermes-memory-pgvector==1.0.0"
HOST = "hermes-agent==0.19.0"  # in both environments: its base class and helpers are part of a hook
DIMS = 768
MODEL = "made-up-768"


@dataclass(frozen=True)
class Product:
    """A product as the benchmark drives it; `admin` is the command that migrates, with the database after it.

    `graphs`: questions about one theme may be answered from the HNSW graph of the table.
    """

    name: str
    python: Path
    provider: str
    graphs: bool
    admin: tuple[str, ...] = ()

    def migrate(self, admin_dsn: str) -> None:
        """Make the tables and indexes as the product itself makes them. Raises: CalledProcessError."""
        if self.admin:
            subprocess.run([*self.admin, admin_dsn], check=True, capture_output=True)
        else:
            migrate(admin_dsn, dims=DIMS, runtime_role="hermes")

    def config(self, dsn: str, embed_base: str, **more: Any) -> dict[str, Any]:
        """Its defaults, with where Postgres and the endpoint are; the same protocol for both."""
        config: dict[str, Any] = {"dsn": dsn, "embed_url": embed_base, "embed_model": MODEL}
        if not self.admin:
            config |= {"embed_url": f"{embed_base}/v1/embeddings", "dims": DIMS}
        return config | more


def ours() -> Product:
    """This package, in the environment of this process."""
    return Product("ours", Path(sys.executable), "hermes_memory_pgvector:PgvectorMemoryProvider", graphs=False)


def theirs(cache: Path) -> Product:
    """The incumbent, in an environment of its own that is made at the first run: both have one distribution name."""
    venv = cache / "incumbent-1.0.0"
    if not (venv / "complete").exists():
        shutil.rmtree(venv, ignore_errors=True)
        subprocess.run([sys.executable, "-m", "venv", str(venv)], check=True)
        pip = [str(venv / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check", "install"]
        # The same driver and pool as ours, so that nothing but the products differs.
        same = [f"{name}=={version(name)}" for name in ("psycopg", "psycopg-binary", "psycopg-pool")]
        subprocess.run([*pip, INCUMBENT, HOST, *same], check=True)
        (venv / "complete").touch()
    migrate = (str(venv / "bin" / "hermes-pgvector"), "migrate", "--runtime-role", "hermes", "--admin-dsn")
    return Product("theirs", venv / "bin" / "python", "hermes_pgvector:PgvectorMemoryProvider", True, migrate)
