"""`hermes-pgvector facts list|add|edit|delete`, `reflections list`, and the structure that other commands show."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.cli import main
from tests.conftest import DIMS, MakeProvider
from tests.support.memory import called, write_entries
from tests.support.records import fill_theme
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.stored import Database
from tests.support.waiting import until

Say = Callable[..., str]
Ask = Callable[..., Any]


def configure(home: Path, dsn: str, **settings: object) -> None:
    section = {"dsn": dsn, "dims": DIMS} | settings
    (home / "config.yaml").write_text(json.dumps({"plugins": {"pgvector": section}}))


@pytest.fixture
def say(home: Path, dsn: str, capsys: pytest.CaptureFixture[str]) -> Say:
    """Runs `hermes-pgvector ARGUMENTS` in this process; returns what it printed, or what went wrong."""
    configure(home, dsn)

    def run(*arguments: str, code: int = 0) -> str:
        capsys.readouterr()
        ended = main([*arguments, "--hermes-home", str(home)])
        said = capsys.readouterr()
        assert ended == code, said.out + said.err
        return said.err if code else said.out

    return run


@pytest.fixture
def ask(say: Say) -> Ask:
    """As `say`, with --json; returns the value."""
    return lambda *arguments: json.loads(say(*arguments, "--json"))


@pytest.fixture
def in_tokyo(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine's clock is nine hours ahead of UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def add(ask: Ask, text: str, *arguments: str) -> str:
    """Store a fact in the theme `sre` and return what it is called."""
    (row,) = ask("facts", "add", text, "--theme", "sre", *arguments)["rows"]
    return str(row["ref"])


def texts(rows: list[dict[str, Any]]) -> list[str]:
    return [row["content"] for row in rows]


def test_facts_are_added_listed_and_replace_each_other(ask: Ask, say: Say) -> None:
    plain = add(ask, "The office is in Lyon")
    old = add(ask, "The API listens on 3000", "--kind", "value", "--subject", "srv.prod", "--confidence", "0.8")
    add(ask, "C[db.id]: UUIDs, never a sequence", "--pinned")
    new = add(ask, "The API listens on 3005", "--kind", "value", "--subject", "SRV.prod", "--expires-at", "7d")
    add(ask, "Retry the queue first", "--kind", "reflection", "--when", "deploying")
    listed = {row["ref"]: row for row in ask("facts", "list", "--theme", "sre")}
    assert old not in listed and len(listed) == 3
    assert listed[plain]["kind"] == "fact" and listed[plain]["state"] == "active"
    assert listed[new]["replaces"] == old and listed[new]["expires_at"]
    every = {row["ref"]: row for row in ask("facts", "list", "--theme", "sre", "--state", "all")}
    assert every[old]["replaced_by"] == new and every[old]["state"] == "superseded" and every[old]["confidence"] == 0.8
    assert texts(ask("facts", "list", "--theme", "sre", "--subject", "srv")) == ["The API listens on 3005"]
    assert texts(ask("facts", "list", "--theme", "sre", "--subject", " ｓｒｖ\u200b ")) == ["The API listens on 3005"]
    assert texts(ask("facts", "list", "--theme", "sre", "--kind", "constraint")) == [
        "C[db.id]: UUIDs, never a sequence"
    ]
    assert len(ask("facts", "list", "--theme", "sre", "--recent", "2")) == 2
    (reflection,) = ask("reflections", "list", "--theme", "sre")
    assert reflection["when"] == "deploying"
    shown = say("facts", "list", "--theme", "sre", "--state", "all")
    assert f"superseded by {new}" in shown and "pinned" in shown
    assert "takes the place of " + plain in say(
        "facts", "add", "The office moved to Nantes", "--theme", "sre", "--replaces", plain
    )
    assert "no memory m999" in say("add", "The sea is near", "--theme", "sre", "--replaces", "m999", code=1)


@pytest.mark.parametrize("again", [[], ["--subject", "deploy"], ["--pinned"]])
def test_need_43_what_is_added_again_without_a_kind_keeps_its_kind(ask: Ask, again: list[str]) -> None:
    ref = add(ask, "Deploy from main only", "--kind", "constraint", "--subject", "deploy")
    assert add(ask, "Deploy from main only", *again) == ref
    (row,) = ask("facts", "list", "--theme", "sre")
    assert row["kind"] == "constraint" and row["state"] == "active"


def test_need_43_a_kind_that_notation_does_not_say_is_kept_by_edit_and_bring(ask: Ask, say: Say, home: Path) -> None:
    decision = add(ask, "Deploy on Mondays", "--kind", "decision", "--subject", "deploy")
    question = add(ask, "Who deploys?", "--kind", "question", "--subject", "who")
    say("edit", decision, "~[deploy]: on Fridays", "--yes")
    say("edit", question, "✓[who]: the bot", "--yes")
    write_entries(home, "~[deploy]: on Fridays", age_s=-60)
    say("bring", "files", "--theme", "sre", "--yes")
    found = {row["ref"]: (row["kind"], row["state"]) for row in ask("facts", "list", "--theme", "sre")}
    assert (found[decision], found[question]) == (("decision", "active"), ("question", "closed"))


def test_edit_takes_a_line_of_notation_together_with_options(ask: Ask, say: Say) -> None:
    first, second = add(ask, "Tokens"), add(ask, "Ports", "--kind", "decision", "--subject", "net")
    say("edit", first, "D[auth]: tokens", "--pin", "--yes")
    say("edit", second, "C[ports]: 3005 only", "--kind", "decision", "--yes")
    found = {row["ref"]: row for row in ask("facts", "list", "--theme", "sre")}
    assert (found[first]["kind"], found[first]["subject"], found[first]["pinned"]) == ("decision", "auth", True)
    assert (found[second]["kind"], found[second]["subject"]) == ("decision", "ports"), "what is given is taken"


def test_edit_changes_what_a_memory_says_of_itself(
    ask: Ask, say: Say, make_provider: MakeProvider, home: Path, dsn: str, embedder: ScriptedEmbedder
) -> None:
    configure(home, dsn, embed_url=embedder.url)
    first = add(ask, "Deploys run on Fridays")
    second = add(ask, "Deploys run on Mondays", "--kind", "decision", "--subject", "deploys")
    planned = ask("facts", "edit", first, "--kind", "decision", "--subject", "deploys", "--pin")
    assert not planned["done"] and planned["rows"][0]["changes"]["subject"] == [None, "deploys"]
    assert len(ask("facts", "list", "--theme", "sre")) == 2
    assert ask("facts", "edit", first, "--kind", "decision", "--subject", "deploys", "--pin", "--yes")["done"]
    (left,) = ask("facts", "list", "--theme", "sre")
    assert left["ref"] == first and left["pinned"] and left["replaces"] == second, "what is edited is said now"
    assert "says that already" in say("facts", "edit", first, "--subject", "deploys", "--yes")
    say("facts", "edit", first, "--state", "archived", "--unpin", "--subject", "", "--yes")
    (archived,) = ask("facts", "list", "--theme", "sre", "--state", "archived")
    assert archived["ref"] == first and "subject" not in archived and "pinned" not in archived
    assert ask("edit", second, "Deploys run daily", "--state", "active", "--confidence", "0.5", "--yes")["done"]
    (current,) = ask("facts", "list", "--theme", "sre")
    assert (current["ref"], current["content"], current["confidence"]) == (second, "Deploys run daily", 0.5)
    provider = make_provider({"embed_url": embedder.url}, gateway_session_key="", agent_identity="sre")
    hits = called(provider, "recall_memory", {"query": "Deploys run daily"})["results"]
    assert [hit["content"] for hit in hits] == ["Deploys run daily"] and hits[0]["similarity"] > 0.99
    actions = [event["action"] for event in ask("history", second)]
    assert sorted(actions) == ["added", "reopened", "replaced", "superseded"]
    assert "no other memory" in say("edit", second, "--replaces", second, "--yes", code=1)


def test_edit_tells_beforehand_what_it_takes_the_place_of_and_what_it_cannot(ask: Ask, say: Say, dsn: str) -> None:
    first = add(ask, "Deploy from main", "--kind", "decision", "--subject", "deploy")
    second = add(ask, "Deploy from release branches", "--kind", "decision", "--subject", "deploy")
    rows = "SELECT to_jsonb(m)::text FROM memory_entries AS m ORDER BY id"
    before = Database(dsn).column(rows)
    planned = ask("edit", first, "--state", "active")
    assert planned["notes"] == [f"it would take the place of {second}, which recall does not find any more"]
    assert "holds no other memory m999" in say("edit", first, "--replaces", "m999", code=1)
    assert Database(dsn).column(rows) == before
    done = ask("edit", first, "--state", "active", "--yes")
    assert done["notes"] == [f"it takes the place of {second}, which recall does not find any more"]
    assert f"note: it would take the place of {first}" in say("edit", second, "--state", "active")


@pytest.mark.parametrize(
    ("subject", "hides"),
    [("deploy", []), ("release", ["--state", "archived"]), ("release", ["--expires-at", "2020-01-01"])],
    ids=["superseded", "archived", "expired"],
)
def test_need_40_who_edits_a_memory_back_to_a_hidden_text_is_told_how_that_holds_again(
    ask: Ask, say: Say, subject: str, hides: list[str]
) -> None:
    first = add(ask, "Deploy on Mondays", "--kind", "decision", "--subject", "deploy")
    second = add(ask, "Deploy on Fridays", "--kind", "decision", "--subject", subject)
    if hides:
        ask("edit", first, *hides, "--yes")
    told = say("edit", second, "Deploy on Mondays", "--yes", code=1)
    assert f"{first} says that already" in told and "recall does not find it" in told and "forget" not in told
    say(*shlex.split(told.rpartition("to have it hold again: hermes-pgvector ")[2]))
    (current,) = ask("facts", "list", "--theme", "sre", "--subject", "deploy")
    assert (current["ref"], current["content"]) == (first, "Deploy on Mondays")


def test_a_turn_that_does_not_exist_is_no_source(ask: Ask, say: Say, dsn: str) -> None:
    """Its number may be given to any other turn later."""
    known = add(ask, "Deploy from main")
    for command in (("add", "The office is in Lyon"), ("edit", known), ("edit", known, "Deploy twice", "--yes")):
        assert "there is no t999; nothing was changed" in say("facts", *command, "--source-turn", "t999", code=1)
    assert Database(dsn).column("SELECT content FROM memory_entries") == ["Deploy from main"]


def test_facts_delete_is_forget(ask: Ask, dsn: str) -> None:
    ref = add(ask, "The office is in Lyon")
    assert not ask("facts", "delete", ref)["done"] and ask("facts", "delete", ref, "--yes")["done"]
    assert Database(dsn).column("SELECT content FROM memory_entries") == []


def test_forget_names_what_the_forgotten_took_the_place_of(ask: Ask, dsn: str) -> None:
    first, second, third = (add(ask, f"V[anna.flat]: Kirkegata {number}") for number in (5, 7, 9))
    said = "what they took the place of stays, where recall does not find it: hermes-pgvector forget"
    assert ask("forget", third)["notes"] == [f"{said} {first} {second}"]
    assert ask("forget", third, first)["notes"] == [f"{said} {second}"]
    assert ask("forget", third, "--yes")["notes"] == [f"{said} {first} {second}"]
    assert ask("forget", first, second, "--yes")["notes"] == []
    assert Database(dsn).column("SELECT content FROM memory_entries") == []


def test_add_takes_metadata_in_both_forms(ask: Ask, say: Say) -> None:
    given = ("--metadata", "ticket=OPS-12", "--metadata", "url=http://x/?a=b", "--metadata", '{"tries": 3}')
    (row,) = ask("add", "Atlas is blue", "--theme", "sre", *given)["rows"]
    metadata = ask("show", row["ref"])["metadata"]
    assert (metadata["ticket"], metadata["url"], metadata["tries"]) == ("OPS-12", "http://x/?a=b", 3)
    for wrong in ("nothing", "=x", "[1]", "{"):
        assert "KEY=VALUE" in say("add", "Atlas is red", "--theme", "sre", "--metadata", wrong, code=2)
    assert "stored" in say("add", "Atlas is green", "--theme", "sre", "--sync")


def test_add_without_waiting_asks_no_database_and_an_agent_writes_it(
    ask: Ask, say: Say, home: Path, dsn: str, make_provider: MakeProvider
) -> None:
    key = "sk-abcdefghijklmnopqrstuvwxyz123456"
    configure(home, "postgresql://nobody@127.0.0.1:1/none")
    said = say("add", f"D[auth]: tokens, key {key}", "--theme", "sre", "--no-wait", "--scope", "pilot")
    assert "accepted" in said and key not in said
    assert b"abcdefghijklmnop" not in b"".join(path.read_bytes() for path in home.rglob("*.db*"))
    configure(home, dsn)
    waiting = ask("facts", "add", "The API listens on 3005", "--theme", "sre", "--no-wait")
    assert waiting["counts"] == {"accepted": 1} and ask("status")["waiting"] == 2
    make_provider()
    said = "concat_ws(' ', kind, subject, scope, state, owners[1])"

    def stored() -> list[str]:
        return Database(dsn).column(f"SELECT {said} FROM memory_entries ORDER BY kind")

    until(lambda: stored() == ["decision auth pilot active add", "fact active add"])


def test_list_show_history_and_search_tell_what_a_memory_says_of_itself(ask: Ask, say: Say) -> None:
    old = add(ask, "The harbour opens at seven", "--kind", "value", "--subject", "harbour.hours")
    new = add(ask, "The harbour opens at nine", "--kind", "value", "--subject", "harbour.hours", "--scope", "")
    add(ask, "At the harbour ring twice", "--kind", "procedure", "--when", "arriving at the harbour")
    add(ask, "The harbour call went badly", "--kind", "reflection")
    say("add", "The harbour has a crane", "--theme", "sre")
    listed = {row["ref"]: row for row in ask("list", "--theme", "sre")}
    assert listed[old]["target"] == "memory" and listed[old]["replaced_by"] == new
    assert not listed[old]["pending"] or listed[old]["state"] == "superseded"
    assert [row["content"] for row in listed.values() if "state" not in row] == ["The harbour has a crane"]
    assert "value harbour.hours" in say("list", "--theme", "sre")
    shown = ask("show", new)
    assert (shown["kind"], shown["subject"], shown["replaces"]) == ("value", "harbour.hours", old)
    assert "says replaced by" in say("show", old)
    assert [event["ref"] for event in ask("history", "--theme", "sre", "--action", "superseded")] == [old]

    def found(*arguments: str) -> set[str]:
        results = ask("search", "harbour", "--theme", "sre", "--top-k", "10", *arguments)["results"]
        return {result["content"] for result in results}

    assert found("--type", "facts") == {"The harbour opens at nine", "The harbour has a crane"}
    assert found("--type", "procedures") == {"At the harbour ring twice"}
    assert found("--type", "reflections") == {"The harbour call went badly"}
    assert found("--type", "episodes") == set()
    assert len(ask("search", "harbour", "--theme", "sre", "--top-k", "1")["results"]) == 1
    assert "looks among turns" in say("search", "harbour", "--type", "episodes", "--target", "user", code=2)
    said = say("search", "harbour opens", "--theme", "sre")
    assert "value harbour.hours" in said and "replaces: The harbour opens at seven" in said
    say("edit", old, "--state", "active", "--yes")
    again = ask("show", old)
    assert again["replaces"] == new and "replaced_by" not in again, "it holds again"
    assert ask("show", new)["replaced_by"] == old


def test_purge_deletes_what_was_superseded_or_archived_and_nothing_else(ask: Ask, say: Say, dsn: str) -> None:
    first = add(ask, "Port 3000", "--kind", "value", "--subject", "srv")
    second = add(ask, "Port 3005", "--kind", "value", "--subject", "srv")
    away = add(ask, "The harbour opens at seven")
    add(ask, "The office is in Lyon")
    say("edit", away, "--state", "archived", "--yes")
    say("facts", "add", "Elsewhere", "--theme", "other")
    assert "--all-themes" in say("purge", code=2)
    planned = ask("purge", "--theme", "sre")
    assert {row["ref"] for row in planned["rows"]} == {first, away} and not planned["done"]
    assert planned["themes"] == {"sre": {"superseded": 1, "archived": 1}}
    assert ask("purge", "--all-themes", "--older-than", "1d")["counts"] == {"memories": 0}
    with psycopg.connect(dsn) as conn:  # an old memory that was superseded just now is not old enough
        conn.execute(
            "UPDATE memory_entries SET updated_at = updated_at - interval '9 days' WHERE content = 'Port 3000'"
        )
    assert ask("purge", "--all-themes", "--older-than", "1d")["counts"] == {"memories": 0}
    assert "would delete 2 memories" in say("purge", "--all-themes")
    assert ask("purge", "--all-themes", "--yes")["counts"] == {"memories": 2}
    left = Database(dsn).column("SELECT content FROM memory_entries ORDER BY content")
    assert left == ["Elsewhere", "Port 3005", "The office is in Lyon"]
    assert ask("history", first)[0]["action"] == "removed"
    assert Database(dsn).column("SELECT count(*) FROM memory_history WHERE old_content IS NOT NULL") == [0]
    assert "replaced_by" not in ask("show", second)
    assert ask("themes", "log")[0]["verb"] == "purge"


def test_an_edit_says_what_an_add_says_of_the_same_words(ask: Ask) -> None:
    ref = ask("add", "The harbour closes early")["rows"][0]["ref"]
    for said in ([], ["--yes"]):
        (note,) = ask("edit", ref, "--expires-at", "2020-01-01", *said)["notes"]
        assert note == "its `expires_at` is past, so it is not recalled"
    assert ask("edit", ref, "--expires-at", "2099-01-01", "--yes")["notes"] == []
    (note,) = ask("edit", ref, "D[harbour]", "--yes")["notes"]
    assert note.startswith("this looks like notation and is none")


@pytest.mark.usefixtures("in_tokyo")
def test_a_day_ends_where_the_machine_stands_and_is_shown_as_it_was_named(ask: Ask, say: Say) -> None:
    ref = add(ask, "The crane is leased", "--expires-at", "2099-12-24")
    assert ask("show", ref)["expires_at"].startswith("2099-12-24T15:00:00")
    assert "until 2099-12-24" in say("facts", "list", "--theme", "sre")


def test_need_40_a_memory_that_has_expired_is_told_from_one_that_will(ask: Ask, say: Say) -> None:
    old, new = (
        add(ask, f"The fair of {year} costs 5 euros", "--expires-at", f"{year}-05-31") for year in ("2020", "2099")
    )
    listed = {line.split()[0]: line for line in say("list", "--theme", "sre").splitlines()}
    assert "expired" in listed[old] and "expired" not in listed[new]
    told = {line.split()[0]: line for line in say("facts", "list", "--theme", "sre", "--state", "all").splitlines()}
    assert "expired 2020-05-31" in told[old] and "until 2099-05-31" in told[new]
    assert "so it is not recalled" in say("show", old) and "not recalled" not in say("show", new)


def test_purge_deletes_what_expired_longer_ago_than_it_is_told(ask: Ask, say: Say, dsn: str) -> None:
    added = ask("facts", "add", "The fair is in May", "--theme", "sre", "--expires-at", "2020-05-31")
    old = added["rows"][0]["ref"]
    assert any("`expires_at` is past" in note for note in added["notes"])
    add(ask, "The fair is in June", "--expires-at", "2099-06-30")
    both = add(ask, "Port 3000", "--kind", "value", "--subject", "srv", "--expires-at", "2020-01-01")
    add(ask, "Port 3005", "--kind", "value", "--subject", "srv")
    planned = ask("purge", "--theme", "sre", "--older-than", "30d")
    assert {row["ref"] for row in planned["rows"]} == {old, both}, "superseded just now, but long expired"
    assert planned["themes"] == {"sre": {"expired": 1, "superseded": 1}}
    assert planned["rows"][0]["hidden_at"].startswith("2020-06-01"), "a day ends with it"
    assert ask("purge", "--theme", "sre", "--older-than", "2020-01-01")["counts"] == {"memories": 0}
    assert ask("purge", "--theme", "sre", "--older-than", "30d", "--yes")["counts"] == {"memories": 2}
    left = Database(dsn).column("SELECT content FROM memory_entries ORDER BY content")
    assert left == ["Port 3005", "The fair is in June"]


def test_hidden_memories_wait_for_no_vector_and_get_into_no_index(
    ask: Ask, say: Say, home: Path, admin_dsn: str, dsn: str, embedder: ScriptedEmbedder
) -> None:
    configure(home, dsn, embed_url=embedder.url)
    add(ask, "Port 3000", "--kind", "value", "--subject", "srv")
    add(ask, "Port 3005 " + "of the long story " * 200, "--kind", "value", "--subject", "srv")
    add(ask, "Port 4000", "--kind", "value", "--subject", "srv")
    hidden = "SELECT count(*) FROM memory_entries WHERE state = 'superseded' AND embedding IS NOT NULL AND "
    assert Database(dsn).column(hidden + "sig IS NULL AND code IS NULL") == [2]
    assert ask("status")["database"]["pending_memories"] == 0
    assert ask("list", "--theme", "sre", "--pending") == []
    say("backfill")
    configure(home, dsn, embed_url=embedder.url, embed_model="another")
    say("reembed", "--yes", "--admin-dsn", admin_dsn)
    assert Database(dsn).column(hidden + "sig IS NULL AND code IS NULL") == [2]
    assert Database(dsn).column("SELECT count(*) FROM memory_chunks") == [0]
    assert ask("status")["database"]["pending_memories"] == 0
    (long,) = [row for row in ask("list", "--theme", "sre") if row["content"].startswith("Port 3005")]
    assert not ask("edit", long["ref"], "--state", "active", "--yes")["rows"][0]["pending"]
    assert Database(dsn).column("SELECT count(*) > 0 FROM memory_chunks") == [True]


def test_status_verbose_counts_episodes_facts_and_vectors(ask: Ask, say: Say, dsn: str) -> None:
    fill_theme(dsn, "sales", turns=8, memories=2, dims=DIMS)
    add(ask, "Port 3000", "--kind", "value", "--subject", "srv")
    add(ask, "Port 3005", "--kind", "value", "--subject", "srv")
    add(ask, "Retry first", "--kind", "procedure", "--when", "deploying")
    add(ask, "It went well", "--kind", "reflection", "--expires-at", "2020-01-01")
    with psycopg.connect(dsn) as conn:
        conn.execute("SET hermes_pgvector.keep_sig = 'on'")
        conn.execute("UPDATE conversations SET embedding = NULL WHERE session_id = 's-0'")
    known = ask("status", "--verbose")["database"]["detail"]
    (sales, sre) = known["themes"]
    assert (sales["episodes"], sales["compacted"], sales["turns"], sales["facts"], sales["vectors"]) == (2, 1, 8, 2, 6)
    assert (sre["facts"], sre["procedures"], sre["reflections"]) == (1, 1, 0)
    assert (sre["superseded"], sre["archived"], sre["expired"]) == (1, 0, 1)
    assert known["facts"] == 3 and known["last_compression"] is None
    said = say("status", "--verbose")
    assert "2 episodes (1 raw, 1 compacted) of 8 turns" in said and "1 superseded, 1 expired" in said
    assert "detail" not in ask("status")["database"]
