"""Recall by meaning gives what an exact scan gives, however small the theme's share of the rows."""

from __future__ import annotations

import random
from collections.abc import Iterator

import psycopg
import pytest
from pgvector import Vector
from pgvector.psycopg import register_vector

from hermes_memory_pgvector.domain.types import Filters, Scope
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.candidates import vector_candidates
from tests.support.memory import called, landed, runtime_of
from tests.support.scripted_embedder import ScriptedEmbedder, hash_vector
from tests.support.stored import Database

from .conftest import DIMS

SIZES = {"rare": 25, "most": 2050, "others": 925}  # 1 %, a large theme of two thirds, and the rest
WORDS = [
    f"{first}{second}" for first in ("ka", "lo", "mi", "tu", "re", "zo") for second in ("ban", "dir", "fel", "gus")
]
QUESTIONS = 10
_EXACT = """
SELECT id FROM conversations WHERE agent_identity = %(theme)s
 ORDER BY (embedding <=> %(vector)s) + 0 LIMIT 10
"""


def _sentence(dice: random.Random) -> str:
    return " ".join(dice.choices(WORDS, k=8))


@pytest.fixture
def fleet(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, admin_dsn: str
) -> Iterator[dict[str, PgvectorMemoryProvider]]:
    """Three themes of very different size, 3,000 turns in all, written and embedded by the provider."""
    dice = random.Random(7)
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        # As for any bulk load: the index is built once, over all rows.
        definition = admin.execute(
            "SELECT indexdef FROM pg_indexes WHERE indexname = 'conversations_embedding_idx'"
        ).fetchone()
        assert definition is not None
        admin.execute("DROP INDEX conversations_embedding_idx")
        config = {"embed_url": embedder.url, "turn_min_chars": 1, "recall_deadline_s": 60}
        themes = {name: make_provider(config, gateway_session_key=name) for name in SIZES}
        for name, size in SIZES.items():
            for _ in range(size):
                themes[name].sync_turn(_sentence(dice), None, session_id="s")
        for provider in themes.values():
            landed(provider)
        admin.execute(definition[0])
        admin.execute("VACUUM ANALYZE conversations")
    yield themes


def test_need_13_a_theme_of_any_share_gives_what_an_exact_scan_gives(
    fleet: dict[str, PgvectorMemoryProvider], direct_dsn: str
) -> None:
    stored = "SELECT agent_identity || ':' || count(*) FROM conversations WHERE sig IS NOT NULL GROUP BY agent_identity"
    assert sorted(Database(direct_dsn).column(stored)) == sorted(f"{name}:{size}" for name, size in SIZES.items())
    dice = random.Random(8)
    found, wanted = 0, 0
    with psycopg.connect(direct_dsn, autocommit=True) as plain:
        register_vector(plain)
        backend = runtime_of(fleet["rare"]).backend
        for theme in ("rare", "most"):
            for _ in range(QUESTIONS):
                vector = hash_vector(_sentence(dice), DIMS)
                exact = [row[0] for row in plain.execute(_EXACT, {"theme": theme, "vector": Vector(vector)})]
                with backend.connection(60) as conn:
                    near = vector_candidates(conn, "turns", Scope("theme", theme), Filters(), vector, limit=10)
                assert len(near) == 10
                assert [hit.score for hit in near] == sorted((hit.score for hit in near), reverse=True)
                if theme == "rare":
                    assert [hit.id for hit in near] == exact
                found += len({hit.id for hit in near} & set(exact))
                wanted += 10
    assert found / wanted >= 0.99
    for theme in SIZES:
        for limit in (1, 10, 25):
            args = {"query": _sentence(dice), "limit": limit}
            answer = called(fleet[theme], "recall_conversation", args)
            assert (answer["count"], answer["mode"]) == (limit, "hybrid")
            assert answer["theme"] == theme
            assert called(fleet[theme], "recall_conversation", args | {"scope": "all"})["count"] == limit


def test_need_14_an_exact_duplicate_ranks_first_with_similarity_one(
    make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    provider = make_provider({"embed_url": embedder.url})
    dice = random.Random(9)
    texts = [_sentence(dice) for _ in range(40)]
    for text in texts:
        provider.on_memory_write("add", "memory", text)
        provider.sync_turn(text, "Noted, and kept in mind for later, as you wish.")
    landed(provider)
    for tool in ("recall_memory", "recall_conversation"):
        for text in texts[:10]:
            results = called(provider, tool, {"query": text, "limit": 5})["results"]
            assert results[0]["content"] == text
            assert results[0]["similarity"] == pytest.approx(1.0, abs=0.001)
            assert all(-1 <= hit["similarity"] <= 1 for hit in results)
            assert all(hit["similarity"] < 0.999 for hit in results[1:] if hit["content"] != text)
