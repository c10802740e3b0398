"""Facts where clocks, hosts and hands are at odds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, write_entries
from tests.support.row_security import tenant_of

from .test_facts import STRUCTURED, fetched, found, remember, rows


def states(dsn: str) -> dict[str, str | None]:
    return {content: row[3] for content, row in rows(dsn).items()}


def put_off(dsn: str, by: str) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute("UPDATE memory_entries SET updated_at = updated_at + %s::interval", (by,))


def test_what_a_wrong_clock_said_in_the_future_is_replaced(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, "V[srv]: nine.example")
    put_off(dsn, "1 year")
    remember(provider, "V[srv]: ten.example")
    assert states(dsn) == {"V[srv]: nine.example": "superseded", "V[srv]: ten.example": "active"}


@pytest.mark.parametrize(
    ("times", "current"),
    [
        (("2026-01-01", "2199-01-01"), 0),
        (("2199-01-01", "2026-01-01"), 0),
        (("2199-01-01", "2199-01-02"), 1),
        (("2199-01-02", "2199-01-01"), 0),
    ],
)
def test_need_43_of_facts_that_come_at_once_one_is_current_though_a_clock_was_wrong(
    dsn: str, times: tuple[str, str], current: int
) -> None:
    with psycopg.connect(dsn) as connection:
        connection.execute(
            "INSERT INTO memory_entries "
            "(agent_identity, target, content, kind, subject, state, created_at, updated_at) "
            "SELECT 'sales', 'memory', number - 1, 'value', 'srv', 'active', at, at "
            "FROM unnest(%s::timestamptz[]) WITH ORDINALITY AS said (at, number)",
            [list(times)],
        )
    assert {text for text, state in states(dsn).items() if state == "active"} == {str(current)}


def test_what_replaces_by_number_is_current_though_the_old_one_seems_later(
    make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(STRUCTURED)
    old = remember(provider, "V[srv]: nine.example")["id"]
    put_off(dsn, "1 minute")
    remember(provider, "V[srv]: ten.example", replaces=old)
    assert rows(dsn) == {
        "V[srv]: nine.example": ("value", "srv", None, "superseded", None),
        "V[srv]: ten.example": ("value", "srv", None, "active", old),
    }


def test_a_chain_a_ring_and_a_memory_that_replaces_itself(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    last = remember(provider, "The lamp is in room 0")["id"]
    remember(provider, "The lamp is in room 0", replaces=last)
    assert states(dsn) == {"The lamp is in room 0": None}
    first = last
    for number in range(1, 10):
        last = remember(provider, f"The lamp is in room {number}", replaces=last)["id"]
    (hit,) = found(provider, "lamp room")
    assert hit["id"] == last and hit["replaced"]["content"] == "The lamp is in room 8"
    remember(provider, "The lamp is in room 0", replaces=last)
    (hit,) = found(provider, "lamp room")
    assert hit["id"] == first and hit["replaced"]["content"] == "The lamp is in room 9"


def test_an_obsolete_fact_of_a_scope_is_replaced_there(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, "Tokens last 7 days", kind="decision", subject="auth", scope="pilot")
    remember(provider, "~[auth]: sessions instead")
    assert {content: row[1:4] for content, row in rows(dsn).items()} == {
        "Tokens last 7 days": ("auth", "pilot", "superseded"),
        "~[auth]: sessions instead": ("auth", "pilot", "active"),
    }


def test_to_embed_a_fact_waits_for_no_writer(make_provider: MakeProvider, dsn: str) -> None:
    remember(make_provider(STRUCTURED, gateway_session_key="atlas"), "D[auth]: tokens")
    with psycopg.connect(dsn) as writer, psycopg.connect(dsn) as embedder:
        writer.execute("SELECT pg_advisory_xact_lock(731057946, hashtext(agent_identity)) FROM memory_entries")
        embedder.execute("SET lock_timeout = '2s'")
        embedder.execute("UPDATE memory_entries SET embed_after = now() + interval '1 hour'")
        embedder.execute("UPDATE memory_entries SET embed_after = NULL")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("\u00c9T\u00c9", "\u00e9t\u00e9"),  # case beyond ASCII
        ("caf\u00e9", "cafe\u0301"),  # composed and decomposed
        ("srv  prod", "srv prod"),
        ("auth", "au\u200bth"),  # an invisible character
        ("auth", "\u202eauth"),  # bidi
        ("srv", "\uff53\uff52\uff56"),  # width
    ],
)
def test_subjects_that_look_alike_are_one(make_provider: MakeProvider, dsn: str, one: str, other: str) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, f"D[{one}]: first")
    remember(provider, f"D[{other}]: second")
    remember(provider, "third", kind="decision", subject=other)
    assert sorted(states(dsn).values()) == ["active", "superseded", "superseded"]
    assert fetched(dsn, "SELECT content FROM memory_entries WHERE state = 'active'") == [("third",)]


def test_of_two_lines_of_one_subject_in_a_file_the_lower_one_is_current(
    make_provider: MakeProvider, home: Path, dsn: str
) -> None:
    write_entries(home, *(f"V[srv.{name}]: {port}" for port in (9, 5, 7) for name in "abcdef"))
    landed(make_provider(STRUCTURED))
    current = {content for content, state in states(dsn).items() if state == "active"}
    assert current == {f"V[srv.{name}]: 7" for name in "abcdef"}


def test_a_confined_role_replaces_in_its_own_theme_only(
    make_provider: MakeProvider, postgres: EmbeddedServer, admin_dsn: str
) -> None:
    remember(make_provider({"dsn": admin_dsn, **STRUCTURED}, gateway_session_key="sales"), "V[srv]: nine.example")
    (foreign,) = fetched(admin_dsn, "SELECT id FROM memory_entries")[0]
    confined = tenant_of(postgres, admin_dsn, "marketing")
    tenant = make_provider({"dsn": confined, **STRUCTURED}, gateway_session_key="marketing", session_id="tenant")
    remember(tenant, "V[srv]: ten.example")
    remember(tenant, "V[srv]: eleven.example")
    refused = called(tenant, "remember", {"content": "V[srv]: mine", "replaces": foreign})
    assert str(foreign) in refused["error"]
    assert states(admin_dsn) == {
        "V[srv]: nine.example": "active",
        "V[srv]: ten.example": "superseded",
        "V[srv]: eleven.example": "active",
    }


def test_what_was_replaced_is_forgotten_by_its_own_number(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, "V[home]: Elm Street 4")
    new = remember(provider, "V[home]: Oak Street 9")["id"]
    (hit,) = found(provider, "street home")
    old = hit["replaced"]["id"]
    assert called(provider, "forget", {"id": new})["count"] == 1
    assert states(dsn) == {"V[home]: Elm Street 4": "superseded"}
    assert found(provider, "street home") == []
    assert called(provider, "forget", {"id": old})["count"] == 1
    assert states(dsn) == {}


@pytest.mark.parametrize("subject", ["\ufdfa" * 200, "x" * 201, "\u200b"])
def test_a_subject_that_is_too_long_or_nothing_is_plain_text(
    make_provider: MakeProvider, dsn: str, subject: str
) -> None:
    provider = make_provider(STRUCTURED)
    assert "plain text" in remember(provider, f"D[{subject}]: said")["note"]
    assert [row[1:4] for row in rows(dsn).values()] == [(None, None, None)]
    remember(provider, "D[long]: " + "word \U0001f600 " * 100_000)
    assert [row[1:4] for row in rows(dsn).values()][1:] == [("long", None, "active")]


def test_hosts_that_write_one_subject_at_once_leave_one_current(
    make_provider: MakeProvider, dsn: str, admin_dsn: str
) -> None:
    providers = [
        make_provider(STRUCTURED, gateway_session_key="atlas", session_id=f"host-{number}") for number in range(3)
    ]

    def say(number: int) -> None:
        for each in range(15):
            remember(providers[number], f"V[srv.{each % 3}]: from {number}, {each}")

    def by_hand() -> None:
        with psycopg.connect(dsn, autocommit=True) as connection:
            for each in range(45):
                connection.execute(
                    "INSERT INTO memory_entries (agent_identity, target, content, kind, subject, state) "
                    "VALUES ('atlas', 'memory', %s, 'value', %s, 'active')",
                    (f"by hand {each}", f"srv.{each % 3}"),
                )

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(by_hand), *(pool.submit(say, number) for number in range(3))]:
            done.result()
    assert fetched(
        dsn, "SELECT subject, count(*) FROM memory_entries WHERE state = 'active' GROUP BY 1 ORDER BY 1"
    ) == [
        ("srv.0", 1),
        ("srv.1", 1),
        ("srv.2", 1),
    ]
    assert fetched(dsn, "SELECT count(*) FROM memory_entries") == [(90,)]
    (deadlocks,) = fetched(admin_dsn, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()")[0]
    assert deadlocks == 0


def test_an_obsolete_line_that_was_said_before_what_stands_there_does_not_stand_beside_it(
    make_provider: MakeProvider, dsn: str
) -> None:
    provider = make_provider(STRUCTURED)
    remember(provider, "D[auth]: tokens")
    put_off(dsn, "1 minute")
    remember(provider, "~[auth]: sessions instead")
    assert states(dsn) == {"D[auth]: tokens": "active", "~[auth]: sessions instead": "superseded"}
