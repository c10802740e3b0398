"""Turns and memories that are not plain text: everything is stored, clean, and nothing is raised."""

from __future__ import annotations

import datetime
import itertools
import random
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, landed, recalled, rejected_writes, runtime_of
from tests.support.stored import Database

ANSWER = "That is a long enough answer to be worth storing, about the Atlas project."


def _stored(provider: PgvectorMemoryProvider, dsn: str) -> list[str]:
    """The user's side of every stored turn, in order, once nothing is set aside."""
    landed(provider)
    assert [item.error for item in rejected_writes(provider)] == []
    return Database(dsn).column("SELECT content FROM conversations WHERE role = 'user' ORDER BY id")


def test_need_26_lists_of_parts_are_stored_as_their_words(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    provider.sync_turn([{"type": "text", "text": "What does this Atlas chart show?"}, image], ANSWER)
    provider.sync_turn([image], [{"type": "output_text", "text": ANSWER}])
    provider.sync_turn(["Two strings", "in a list"], ANSWER)
    provider.sync_turn({"type": "text", "text": "One part alone"}, ANSWER)
    provider.sync_turn(b"Bytes of \xff text", ANSWER)
    assert _stored(provider, dsn) == [  # of the image alone only the answer
        "What does this Atlas chart show?",
        "Two strings\nin a list",
        "One part alone",
        "Bytes of \ufffd text",
    ]


def test_need_26_nothing_at_all_is_stored_as_nothing(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    blank: list[Any] = [None, "", [], {}, "\0", "\u200b"]
    for user, assistant in itertools.product(blank, blank[:4]):
        provider.sync_turn(user, assistant)
    provider.on_delegation(None, None)
    assert _stored(provider, dsn) == []
    assert runtime_of(provider).stats()["turns_skipped_empty"] == 24
    provider.sync_turn(None, ANSWER)
    landed(provider)
    assert Database(dsn).column("SELECT content FROM conversations") == [ANSWER]


def test_need_26_nul_and_lone_surrogates_are_cleaned(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    provider.sync_turn("What \0is the \ud83d Atlas plan, and the \ud83d\ude00 one?", ANSWER + "\0\udcff")
    provider.on_memory_write("add", "memory", "Atlas\0 is \udcff blue")
    assert _stored(provider, dsn) == ["What is the \ufffd Atlas plan, and the 😀 one?"]
    assert recalled(provider, "atlas") == ["Atlas is \ufffd blue"]
    provider.on_memory_write("remove", "memory", "", {"old_text": "Atlas is \udcff blue"})
    landed(provider)
    assert recalled(provider, "atlas") == []


def test_need_26_odd_names_everywhere(make_provider: MakeProvider, dsn: str) -> None:
    odd = "se\0ssi\udcffon"
    provider = make_provider(
        session_id=odd, platform="api\0_server", agent_identity=odd, agent_workspace=odd, parent_session_id=odd
    )
    provider.sync_turn("What is the Atlas plan for this week, then?", ANSWER, session_id=odd)
    provider.on_delegation("Look \0 it up", "found \udcff it", child_session_id=odd)
    provider.on_session_switch("ano\0ther", parent_session_id=odd)
    provider.sync_turn("What is the Atlas plan for next week, then?", ANSWER, session_id="ano\0ther")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    assert len(_stored(provider, dsn)) == 2
    assert Database(dsn).column("SELECT DISTINCT session_id FROM conversations ORDER BY 1") == [
        "another",
        "sessi\ufffdon",
    ]
    assert recalled(provider, "atlas plan", tool="recall_conversation", scope="session")
    assert recalled(provider, "atlas") == ["Atlas is blue"]


def test_need_26_endless_names_are_shortened_and_stay_apart(make_provider: MakeProvider, dsn: str) -> None:
    noise = random.Random(1)
    long = "".join(noise.choices("0123456789abcdef", k=100_000))
    for session in (long, long + "-2"):
        provider = make_provider(session_id=session, agent_identity=long, gateway_session_key=long)
        provider.sync_turn("What is the Atlas plan for this week, then?", ANSWER, session_id=session)
        provider.on_delegation("Look it up", "found it", child_session_id=session)
        assert recalled(provider, "nothing yet", tool="recall_conversation", scope="session") is not None
    assert len(_stored(provider, dsn)) == 2
    sessions = Database(dsn).column("SELECT DISTINCT session_id FROM conversations")
    assert len(sessions) == 2
    assert max(map(len, sessions)) == 256
    # The exchange and the delegation: of this session only.
    assert len(recalled(provider, "atlas plan", tool="recall_conversation", scope="session")) == 2


def test_need_26_odd_metadata_is_kept_as_far_as_json_goes(make_provider: MakeProvider, dsn: str) -> None:
    provider = make_provider()
    odd: dict[Any, Any] = {
        "nan": float("nan"),
        "inf": float("inf"),
        "when": datetime.datetime(2026, 5, 3, tzinfo=datetime.UTC),
        "took": datetime.timedelta(seconds=3),
        "nul\0": "a\0b",
        "surrogate": "\udcff",
        "set": {2, 1},
        "path": Path("/tmp/x"),
        "bytes": b"\xff",
        "object": object(),
        7: "seven",
        None: "none",
        "huge": 10**400,
    }
    odd["itself"] = odd
    provider.on_memory_write("add", "memory", "Atlas is blue", odd)
    landed(provider)
    (kept,) = Database(dsn).column("SELECT metadata FROM memory_entries")
    assert kept["nan"] is None and kept["inf"] is None
    assert kept["when"] == "2026-05-03T00:00:00+00:00" and kept["took"] == 3.0
    assert kept["nul"] == "ab" and kept["surrogate"] == "\ufffd" and kept["set"] == [1, 2]
    assert kept["7"] == "seven" and kept["null"] == "none" and kept["path"] == "/tmp/x"
    assert kept["source"] == "memory_tool"
    for metadata in ("text", 7, ["a"], object()):
        provider.on_memory_write("add", "memory", f"Fact of {type(metadata).__name__}", metadata)  # type: ignore[arg-type]
    landed(provider)
    assert len(recalled(provider, "atlas fact of")) == 5


def test_need_26_a_megabyte_is_kept_whole(make_provider: MakeProvider, dsn: str) -> None:
    """Distinct words: the index of a text holds at most a megabyte of them."""
    provider, database = make_provider(), Database(dsn)
    noise = random.Random(2)
    texts = {
        "words": "Atlas " + " ".join(f"word{n:x}" for n in range(120_000)),
        "names": "Atlas " + " ".join(f"Part{n:x}_of-it.x{n:x}/y" for n in range(40_000)),
        "han": "Atlas " + "".join(chr(noise.randrange(0x4E00, 0x9FA5)) for _ in range(350_000)),
        "one word": "Atlas " + "x" * 1_000_000,
        "no word": "Atlas " + "= " * 500_000,
        "folded": "Atlas " + "ﷺ" * 300_000,
    }
    for text in texts.values():
        provider.sync_turn(text, ANSWER)
    remembered = [texts["names"], texts["folded"]]
    for text in remembered:
        provider.on_memory_write("add", "memory", text)
    assert _stored(provider, dsn) == list(texts.values())
    assert database.column("SELECT content FROM memory_entries ORDER BY id") == remembered
    assert len(recalled(provider, "atlas", tool="recall_conversation")) == len(texts)
    assert len(recalled(provider, "atlas")) == len(remembered)


@pytest.mark.parametrize(
    "marks", ["\u0323\u0301" * 200_000, ("\u0323\u0301" * 15 + "\u200b") * 13_000], ids=["in a row", "in rows"]
)
def test_need_26_marks_without_end_hold_nothing_up(make_provider: MakeProvider, dsn: str, marks: str) -> None:
    """Postgres puts a run of marks into order in the square of its length, and no timeout ends that."""
    provider = make_provider()
    text = "Atlas " + marks
    provider.on_memory_write("add", "memory", text)
    provider.sync_turn(text, ANSWER)
    provider.on_memory_write("add", "memory", "Atlas is blue")
    (turn,) = _stored(provider, dsn)
    assert turn.replace("\u2060", "") == text
    assert len(recalled(provider, "atlas")) == 2
    assert called(provider, "recall_memory", {"query": text, "scope": text[:10_000]})["count"] == 0
    assert len(recalled(provider, text)) == 2
    provider.on_memory_write("remove", "memory", "", {"old_text": text})
    landed(provider)
    assert recalled(provider, "atlas") == ["Atlas is blue"]


def test_need_26_one_refused_row_holds_nothing_else_up(make_provider: MakeProvider, admin_dsn: str, dsn: str) -> None:
    """Whatever Postgres will never take is set aside; what comes behind it lands."""
    with psycopg.connect(admin_dsn, autocommit=True) as admin:
        admin.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$BEGIN IF NEW.content LIKE '%unlucky%' THEN RAISE program_limit_exceeded; END IF; RETURN NEW; END$$;"
            "CREATE TRIGGER refuse BEFORE INSERT ON memory_entries FOR EACH ROW EXECUTE FUNCTION refuse()"
        )
    provider = make_provider()
    for text in ("Atlas is blue", "Atlas is unlucky", "Atlas is round"):
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    assert set(recalled(provider, "atlas")) == {"Atlas is blue", "Atlas is round"}
    (item,) = rejected_writes(provider)
    assert item.operation.texts() == ["Atlas is unlucky"]
