"""A change of the model that somebody gives up while a worker, on this host or another, is at it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml

from hermes_memory_pgvector.admin.common import new_vectors
from hermes_memory_pgvector.domain.types import EmbeddingSpace
from tests.conftest import MakeProvider
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

from .conftest import Run
from .test_reembed import NEW_DIMS, Start, arguments, configured, new_model, settings, written

__all__ = ["arguments", "new_model", "settings"]


def test_need_18_a_worker_stores_nothing_in_the_change_to_another_model(
    make_provider: MakeProvider, settings: dict[str, object], home: Path, admin_dsn: str, dsn: str, cli: Run,
    start_cli: Start, arguments: list[str], new_model: ScriptedEmbedder,
) -> None:  # fmt: skip
    """Vectors of two models of one length cannot be told apart afterwards."""
    written(make_provider, settings, dsn, turns=300)  # more than is embedded before the change is given up
    configured(home, dsn, settings)
    new_model.latency_ms = 1000
    worker = start_cli(*arguments, "--yes")
    until(_requested(new_model, 3), 60, "a part of the work")
    given_up = cli("reembed", "--abort", "--admin-dsn", admin_dsn, "--yes")
    assert given_up.returncode == 0, given_up.stderr
    with new_vectors.admin_connection(admin_dsn) as conn:
        new_vectors.begin(conn, EmbeddingSpace("newest", NEW_DIMS))

    out, err = worker.communicate(timeout=150)

    assert worker.returncode == 1 and "the change to newer was given up" in err, out + err
    stored = "SELECT (SELECT count(embedding_next) FROM conversations) + count(*) FROM conversation_chunks_next"
    assert Database(admin_dsn).column(stored) == [0]
    assert yaml.safe_load((home / "config.yaml").read_text())["plugins"]["pgvector"]["embed_model"] == "older"


def _requested(model: ScriptedEmbedder, times: int) -> Callable[[], bool]:
    return lambda: model.requests >= times
