"""What starting and asking cost."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import close_all
from tests.conftest import DIMS, MakeProvider
from tests.integration.conftest import command_environment
from tests.support.limits import NOT_WAITED_S
from tests.support.memory import called, landed, write_entries
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

_TABLE_WRITES = """
SELECT relname || ':' || n_tup_ins || ':' || n_tup_upd || ':' || n_tup_del
  FROM pg_stat_user_tables ORDER BY relname
"""
# What a first question can do without, and takes milliseconds each to import.
_SPARED = ("numpy", "onnxruntime", "rich", "difflib", "statistics", "hermes_memory_pgvector.embed.onnx")
_ASK_ONCE = f"""
import json, sys
from hermes_memory_pgvector import PgvectorMemoryProvider
provider = PgvectorMemoryProvider(json.loads(sys.argv[1]))
provider.initialize("first", hermes_home=sys.argv[2], platform="api_server", gateway_session_key="harbour")
answer = provider.prefetch("What of the harbour crane?")
imported = [name for name in sys.modules if name in {_SPARED} or ".admin" in name]
print(json.dumps([answer, imported]))
"""


def test_trap_11_initialize_does_not_wait_for_embeddings(
    make_provider: MakeProvider, home: Path, dsn: str, embedder: ScriptedEmbedder
) -> None:
    embedder.latency_ms = 4000
    write_entries(home, *(f"Fact {number} about the Atlas project" for number in range(100)))
    started = time.monotonic()
    provider = make_provider({"embed_url": embedder.url})
    took_s = time.monotonic() - started
    assert took_s < NOT_WAITED_S
    embedder.latency_ms = 0
    landed(provider)
    assert Database(dsn).column("SELECT count(*) FROM memory_entries WHERE embedding IS NOT NULL") == [100]
    assert embedder.requests <= 10, "entries are embedded in batches"


def test_the_model_is_measured_while_nobody_waits(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> None:
    """Once a process, when its first session starts; and only where what is put before a turn asks for it."""
    for quiet in ({"min_similarity": 0.5}, {"prefetch_limit": 0}):
        make_provider({"embed_url": embedder.url, **quiet})
    assert embedder.requests == 0
    embedder.latency_ms = 4000
    started = time.monotonic()
    for number in range(3):
        make_provider({"embed_url": embedder.url}, session_id=f"session-{number}")
    assert time.monotonic() - started < NOT_WAITED_S
    embedder.latency_ms = 0
    until(lambda: embedder.requests == 2, what="the texts and the questions")
    measured = len(embedder.texts)
    make_provider({"embed_url": embedder.url}, session_id="another")
    assert (embedder.requests, len(embedder.texts)) == (2, measured) and measured >= 48


def test_a_new_process_of_a_home_embeds_one_text_more_than_its_question(
    make_provider: MakeProvider, embedder: ScriptedEmbedder, home: Path
) -> None:
    config = {"embed_url": embedder.url, "prefetch_deadline_s": 8.0}
    first = make_provider(config)
    first.on_memory_write("add", "memory", "The harbour crane was painted green")
    landed(first)
    shown = first.prefetch("How does the harbour crane look?")
    assert "painted green" in shown
    until((home / "pgvector" / "measured.json").exists, what="the measurement to be kept")
    close_all()
    asked = len(embedder.texts)
    assert make_provider(config, session_id="next").prefetch("How does the harbour crane look?") == shown
    assert len(embedder.texts) == asked + 2


def test_trap_11_recalls_write_no_rows(
    make_provider: MakeProvider, direct_dsn: str, embedder: ScriptedEmbedder
) -> None:
    database = Database(direct_dsn)
    config = {"dsn": direct_dsn, "embed_url": embedder.url}  # a pooler would keep connections open
    provider = make_provider(config)
    for number in range(10):
        provider.on_memory_write("add", "memory", f"Fact {number} about the Atlas project")
        provider.sync_turn(
            f"What is fact {number} of the Atlas project about, again?", f"It is about part {number} of it."
        )
    landed(provider)
    assert database.column("SELECT count(*) FROM conversations WHERE embedding IS NULL") == [0]
    before = _writes_once_quiet(database, provider)
    provider = make_provider(config)
    for number in range(30):
        provider.on_session_switch(f"session-{number + 2}", reset=True)
        assert provider.prefetch(f"What do we know about fact {number} of the Atlas project?")
        assert called(provider, "recall_memory", {"query": f"atlas fact {number}"})["count"]
        assert called(provider, "recall_conversation", {"query": "atlas project", "scope": "all"})["count"]
    assert _writes_once_quiet(database, provider) == before


def test_the_first_question_of_a_process_imports_little(
    make_provider: MakeProvider, home: Path, dsn: str, embedder: ScriptedEmbedder
) -> None:
    config = {"dsn": dsn, "dims": DIMS, "embed_url": embedder.url, "prefetch_deadline_s": 8.0}
    provider = make_provider(config, gateway_session_key="harbour")
    provider.on_memory_write("add", "memory", "The harbour crane is greased on Mondays")
    landed(provider)
    asked = [sys.executable, "-P", "-c", _ASK_ONCE, json.dumps(config), str(home)]
    done = subprocess.run(asked, env=command_environment(home), capture_output=True, text=True, check=True)
    answer, imported = json.loads(done.stdout)
    assert "greased on Mondays" in answer
    assert imported == []


def test_a_command_that_only_reads_imports_no_spool() -> None:
    loaded = "import sys, hermes_memory_pgvector.admin.common.command_context; print('sqlite3' in sys.modules)"
    done = subprocess.run([sys.executable, "-P", "-c", loaded], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def _writes_once_quiet(database: Database, provider: PgvectorMemoryProvider) -> list[str]:
    """Rows written by table; connections hand their counts in when they end."""
    provider.shutdown()
    until(lambda: database.client_connections() == 0, what="the end of every connection")
    return [str(line) for line in database.column(_TABLE_WRITES)]
