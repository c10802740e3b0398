"""Secrets are not archived, and none of ours gets out: passwords of a DSN, keys of endpoints, the admin's DSN."""

from __future__ import annotations

import json
import logging
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from psycopg.conninfo import make_conninfo

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import DIMS, MakeProvider
from tests.support.forked_cli import forked
from tests.support.memory import called, landed, recalled, runtime_of, write_entries
from tests.support.stored import Database
from tests.support.waiting import until

TOKEN = "gh" + "p_a1B2c3D4e5F6g7H8i9J0a1B2c3D4e5F6g7H8"
PASSWORD = "hunter2-of-the-staging-box"
SAID = f"The staging database is postgres://atlas:{PASSWORD}@db.example/atlas, and the token is {TOKEN}."
KEPT = "The staging database is postgres://atlas:[masked-password]@db.example/atlas, and the token is "


@pytest.fixture
def everything(dsn: str) -> Callable[[], str]:
    """All rows of all our tables, as one text."""
    tables = ("memory_entries", "conversations", "hermes_operations", "hermes_tombstones", "hermes_mirror")
    union = " UNION ALL ".join(f"SELECT '{name}' || t::text FROM {name} AS t" for name in tables)
    return lambda: "\n".join(Database(dsn).column(union))


def spooled(home: Path) -> bytes:
    """All bytes of the queue on disk."""
    return b"".join(path.read_bytes() for path in (home / "pgvector" / "spool").rglob("*") if path.is_file())


def test_need_22_secrets_reach_neither_the_spool_nor_the_database(
    make_provider: MakeProvider,
    dsn: str,
    home: Path,
    everything: Callable[[], str],
    records: Callable[[int], list[str]],
) -> None:
    write_entries(home, f"From the file: {SAID}")
    with Database(dsn).writes_blocked():
        provider = make_provider()
        provider.on_memory_write("add", "memory", SAID, {"note": f"token={TOKEN}", "deep": [{"x": SAID}]})
        provider.sync_turn(SAID, f"Thanks, I use {TOKEN} with {PASSWORD[:0]}password={PASSWORD} from now on.")
        provider.on_delegation(f"Try {SAID}", f"It works: {SAID}", child_session_id="child")
        waiting = spooled(home)
        assert b"staging database" in waiting
        for secret in (TOKEN, PASSWORD):
            assert secret.encode() not in waiting
    landed(provider)
    stored = everything()
    assert KEPT in stored and "From the file" in stored and "It works" in stored
    for secret in (TOKEN, PASSWORD):
        assert secret not in stored
        assert secret not in "\n".join(records(logging.DEBUG))
    # The file, the memory, its metadata, the turn, the delegation.
    assert runtime_of(provider).stats()["secrets_masked"] == 2 + 2 + 3 + 4 + 4


def test_need_22_a_secret_is_known_by_the_name_that_metadata_gives_it(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider({"tools": ["remember"]})
    given = {
        "server": {"host": "db.example", "port": 5432, "DB_PASSWORD": PASSWORD},
        "password": 'two "odd"\nwords',
        "pass_code": {"password": 482913057},
        f"of {TOKEN}": "prod",
        "max_tokens": 4096,
        "category": "security",
    }
    called(provider, "remember", {"content": "The staging database is db.example", "metadata": given})
    landed(provider)
    (stored,) = Database(dsn).column("SELECT metadata FROM memory_entries")
    assert {name: stored[name] for name in stored if name not in ("platform", "profile", "session_id", "source")} == {
        "server": {"host": "db.example", "port": 5432, "DB_PASSWORD": "[masked-password]"},
        "password": "[masked-password]",
        "pass_code": {"password": "[masked-password]"},
        "of [masked-github-token]": "prod",
        "max_tokens": 4096,
        "category": "security",
    }
    assert runtime_of(provider).stats()["secrets_masked"] == 4


def test_need_22_a_masked_memory_is_replaced_and_removed_by_its_own_words(
    make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", SAID)
    provider.on_memory_write("add", "memory", f"Billing: api_key={TOKEN}")
    provider.on_memory_write("replace", "memory", SAID.replace("staging", "test"), {"old_text": SAID[4:90]})
    provider.on_memory_write("remove", "memory", "", {"old_text": f"Billing: api_key={TOKEN}"})
    landed(provider)
    (left,) = Database(dsn).column("SELECT content FROM memory_entries")
    assert left.startswith(KEPT.replace("staging", "test"))
    stats = runtime_of(provider).stats()
    assert (stats["memories_replaced"], stats["memories_removed"]) == (1, 1)


def test_need_22_the_mirror_of_a_file_with_secrets_is_stable(make_provider: MakeProvider, home: Path, dsn: str) -> None:
    first = make_provider(gateway_session_key="")
    write_entries(home, SAID)
    first.on_memory_write("add", "memory", SAID)
    landed(first)
    for age_s in (20.0, 10.0):
        write_entries(home, SAID, age_s=age_s)
        landed(make_provider(gateway_session_key="", session_id=f"session-{age_s}"))
    assert len(Database(dsn).column("SELECT content FROM memory_entries")) == 1
    write_entries(home, "nothing of it")
    landed(make_provider(gateway_session_key="", session_id="session-2"))
    assert Database(dsn).column("SELECT content FROM memory_entries") == ["nothing of it"]


def test_need_22_masking_can_be_switched_off_and_extended(make_provider: MakeProvider, dsn: str) -> None:
    plain = make_provider({"mask_secrets": False}, gateway_session_key="plain")
    own = make_provider({"mask_patterns": [r"CUST-\d{4}"]}, gateway_session_key="own")
    for provider in (plain, own):
        provider.on_memory_write("add", "memory", f"{SAID} Ask CUST-4711.")
        landed(provider)
    assert recalled(plain, "staging database") == [f"{SAID} Ask CUST-4711."]
    (kept,) = recalled(own, "staging database")
    assert kept.startswith(KEPT) and kept.endswith("Ask [masked-secret].")
    assert "secrets_masked" not in runtime_of(plain).stats()


# -- what leaves us

DSN_PASSWORD, API_KEY, IDENTITY_KEY = "Xq7-dsn-secret", "Xq7-endpoint-secret", "Xq7-identity-secret"


@pytest.fixture(params=["nobody", "hermes"], ids=["Postgres refuses", "the endpoint is away"])
def leaky_home(request: pytest.FixtureRequest, home: Path, dsn: str) -> Path:
    """A home whose settings are full of secrets that do not work."""
    away = make_conninfo(dsn, user=request.param, password=DSN_PASSWORD)
    (home / "config.yaml").write_text(
        json.dumps(
            {
                "memory": {"provider": "pgvector"},
                "plugins": {
                    "pgvector": {
                        "dsn": away,
                        "dims": DIMS,
                        "embed_url": f"http://user:{API_KEY}@127.0.0.1:9/?api_key={API_KEY}",
                        "embed_api": "openai",
                        "identity_key": IDENTITY_KEY,
                        "no_such_setting": DSN_PASSWORD,
                        "scope_default": away,
                    }
                },
            }
        )
    )
    (home / ".env").write_text(f"HERMES_PGVECTOR_EMBED_API_KEY={API_KEY}\nHERMES_PGVECTOR_ADMIN_DSN={away}\n")
    return home


@pytest.fixture
def leaky(leaky_home: Path) -> Iterator[PgvectorMemoryProvider]:
    provider = PgvectorMemoryProvider()
    provider.initialize("session-1", hermes_home=str(leaky_home), platform="cli", agent_identity="coder")
    yield provider
    provider.shutdown()


def test_need_22_no_hook_log_or_answer_holds_a_password_or_a_key(
    leaky: PgvectorMemoryProvider,
    leaky_home: Path,
    records: Callable[[int], list[str]],
    caplog: pytest.LogCaptureFixture,
) -> None:
    leaky.on_memory_write("add", "memory", "Atlas is blue")
    leaky.sync_turn("Which colour did we choose for the Atlas project?", "It is blue, as ever since last May.")
    until(lambda: bool(runtime_of(leaky).stats()["last_error"]), 20, "an error")
    answers = [
        leaky.prefetch("What colour has the Atlas?"),
        *(
            json.dumps(called(leaky, tool, {"query": "atlas", "scope": scope}))
            for tool in ("recall_memory", "recall_conversation")
            for scope in (None, "all", 7, "")
        ),
        json.dumps(leaky.get_status_config({})),
        json.dumps(leaky.get_config_schema()),
        json.dumps(runtime_of(leaky).stats()),
        repr(runtime_of(leaky).settings),
        leaky.system_prompt_block(),
    ]
    assert_clean([*answers, *(record.getMessage() for record in caplog.records), caplog.text])
    assert b"Xq7" not in spooled(leaky_home)


@pytest.mark.parametrize(
    "command",
    [["doctor"], ["doctor", "--json"], ["status"], ["status", "--json"], ["stats"], ["spool", "list"],
     ["migrate"], ["migrate", "--admin-dsn", f"postgresql://nobody:{DSN_PASSWORD}@127.0.0.1:9/x"]],
    ids=" ".join,
)  # fmt: skip
def test_need_22_no_command_prints_a_password_or_a_key(leaky_home: Path, command: list[str]) -> None:
    done = subprocess.run(
        forked(*command, "--hermes-home", str(leaky_home)),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.stdout or done.stderr
    assert "unrecognized arguments" not in done.stderr, done.stderr
    assert_clean([done.stdout, done.stderr])


def assert_clean(texts: list[str]) -> None:
    assert [text for text in texts if "Xq7" in text] == []
