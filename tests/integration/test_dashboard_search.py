"""The dashboard's search: what is found where, which part of it answers, and why."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.server.cluster import EmbeddedServer
from tests.conftest import MakeProvider
from tests.support.aged import age
from tests.support.dashboard import DashboardApi
from tests.support.local_models import link_model, link_reranker
from tests.support.memory import knowing, landed
from tests.support.model_files import MODEL_NAME
from tests.support.row_security import tenant_of
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.waiting import until

from .conftest import ServeApi

CRANE = "The harbour crane is greased on Mondays by Ingrid"
INVOICE = "Violet invoices go to the cellar archive in Bremen"
ASKED = "Who oils the ship to shore crane, and on which days of the week?"
ANSWERED = "Ingrid oils the ship to shore crane, always on Thursdays."
JAPANESE = "次の会議は木曜日の午後に東京で行われます"
HOSTILE = "<script>alert('walnut')</script> javascript:walnut() \u202ewalnut\u202c &lt;b&gt;"


@pytest.fixture
def api(serve_api: ServeApi) -> DashboardApi:
    return serve_api()


@pytest.fixture
def provider(make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider of the theme marketing that knows two things, and heard one exchange."""
    return filled(make_provider())


def filled(provider: PgvectorMemoryProvider) -> PgvectorMemoryProvider:
    return knowing(provider, CRANE, INVOICE, said=(ASKED, ANSWERED))


def texts(found: dict[str, Any]) -> list[str]:
    return [row["content"] for row in found["results"]]


def marked(row: dict[str, Any]) -> list[str]:
    """The parts of a result that match."""
    return [row["content"][first:end] for first, end in row["marks"]]


def test_a_result_says_what_it_is_and_why_it_was_found(api: DashboardApi, provider: PgvectorMemoryProvider) -> None:
    found = api.get("/search", q="where do the violet invoices go?")

    row = found["results"][0]
    assert (row["ref"], row["store"], row["theme"], row["kind"]) == ("m2", "memories", "marketing", "memory")
    assert (row["content"], row["chars"], row["cut"], row["private"]) == (INVOICE, len(INVOICE), False, False)
    assert (row["why"]["words_rank"], row["why"]["meaning_rank"]) == (1, None)
    assert row["why"]["said"].startswith("Found by its words, as number 1: it has 100%")
    assert (found["mode"], found["reranked"]) == ("lexical", False)
    assert found["why_by_words"] == "no embedding model is set (setting `embed_url`)"


def test_the_words_that_match_are_marked_in_the_form_they_have(
    api: DashboardApi, provider: PgvectorMemoryProvider
) -> None:
    found = api.get("/search", q="is it greasing the crane?", store="memories")
    assert marked(found["results"][0]) == ["crane", "greased"]


@pytest.mark.parametrize(
    ("stored", "question", "parts"),
    [
        (JAPANESE, "木曜日", ["木曜日"]),
        (JAPANESE, "東京の会議", ["の会議", "東京"]),
        ("Das Café schließt um 18 Uhr", "cafe", ["Café"]),
        ("Deploys run from build-7.example.org at night", "build-7.example.org", ["build-7.example.org"]),
        ("It failed with ERR_CONN_42 twice", "ERR_CONN_42", ["ERR_CONN_42"]),
        (HOSTILE, "walnut", ["walnut"] * 3),
    ],
)
def test_marks_are_whole_words_of_any_script(
    api: DashboardApi, make_provider: MakeProvider, stored: str, question: str, parts: list[str]
) -> None:
    provider = make_provider()
    provider.on_memory_write("add", "memory", stored)
    landed(provider)
    assert marked(api.get("/search", q=question)["results"][0]) == parts


def test_of_a_huge_text_the_part_that_answers_is_shown(api: DashboardApi, dsn: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as conn:
        conn.execute(
            "INSERT INTO conversations (agent_identity, session_id, role, ts, content)"
            " VALUES ('marketing', 's', 'user', now(), %s)",
            ("lorem ipsum dolor " * 40000 + CRANE + " sit amet" * 400000,),
        )

    (row,) = api.get("/search", q="harbour crane greased")["results"]

    assert CRANE in row["content"]
    assert len(row["content"]) < 1000
    assert (row["cut"], row["chars"]) == (True, 40000 * 18 + len(CRANE) + 400000 * 9)
    assert marked(row) == ["harbour", "crane", "greased"]


def test_a_pasted_word_without_end_is_answered_in_time(api: DashboardApi, provider: PgvectorMemoryProvider) -> None:
    for word in ("a" * 8000, "a." * 4000):
        found = api.get("/search", q=f"violet {word}")

        assert marked(found["results"][0]) == ["Violet"]


def test_what_was_said_around_a_turn_comes_with_it(api: DashboardApi, provider: PgvectorMemoryProvider) -> None:
    row = api.get("/search", q="thursdays", store="turns")["results"][0]
    assert row["content"] == ANSWERED
    assert [(turn["ref"], turn["role"], turn["content"]) for turn in row["around"]] == [("t1", "user", ASKED)]


def test_filters_leave_out_what_they_say(
    api: DashboardApi, provider: PgvectorMemoryProvider, make_provider: MakeProvider, dsn: str
) -> None:
    other = make_provider(gateway_session_key="sales", session_id="session-2")
    other.on_memory_write("add", "user", "The crane of sales is red")
    other.sync_turn("Is the crane of sales really red?", "The crane of sales is red, and has been for a year.")
    landed(other)
    age(dsn, CRANE, days=40)

    def asked(**filters: str) -> set[str]:
        return {row["ref"] for row in api.get("/search", q="crane", **filters)["results"]}

    assert asked() == asked(scope="all") == {"m1", "m3", "t1", "t2", "t3", "t4"}
    assert asked(theme="marketing") == {"m1", "t1", "t2"}
    assert asked(store="memories") == {"m1", "m3"}
    assert asked(role="assistant") == {"t2", "t4"}
    assert asked(target="user") == {"m3"}
    assert asked(type="episodes") == {"t1", "t2", "t3", "t4"}
    assert asked(type="procedures") == set()
    assert asked(session="session-2", store="turns") == {"t3", "t4"}
    assert asked(until="30d") == {"m1"}
    assert asked(since="30d", store="memories") == {"m3"}


def test_results_come_a_page_at_a_time(api: DashboardApi, make_provider: MakeProvider) -> None:
    provider = make_provider()
    for number in range(5):
        provider.on_memory_write("add", "memory", f"Box {number} of the crane stands in hall {number * 7}")
    landed(provider)

    pages = [api.get("/search", q="crane", limit=2, offset=offset) for offset in (0, 2, 4)]

    assert [len(page["results"]) for page in pages] == [page["count"] for page in pages] == [2, 2, 1]
    assert [page["more"] for page in pages] == [True, True, False]
    assert len({row["ref"] for page in pages for row in page["results"]}) == 5


@pytest.mark.parametrize(
    ("params", "says"),
    [
        ({}, "the question is empty; say in plain words what to look for"),
        ({"q": " \n "}, "the question is empty"),
        ({"q": "crane", "theme": "nowhere"}, "no theme 'nowhere' holds anything"),
        ({"q": "crane", "session": "nowhere"}, "no session 'nowhere' has turns"),
        ({"q": "crane", "role": "user", "store": "memories"}, "role is for turns, target for memories"),
        ({"q": "crane", "type": "facts", "store": "turns"}, "the type facts looks among memories"),
        ({"q": "crane", "offset": "600"}, "ask a narrower question"),
        ({"q": "crane", "limit": "0"}, "limit must be a whole number from 1"),
    ],
)
def test_a_question_that_cannot_be_asked_says_what_to_do(
    api: DashboardApi, provider: PgvectorMemoryProvider, params: dict[str, str], says: str
) -> None:
    status, error = api.refused("/search", **params)
    assert status == 400
    assert says in error


def test_both_legs_are_told(serve_api: ServeApi, make_provider: MakeProvider, embedder: ScriptedEmbedder) -> None:
    filled(make_provider({"embed_url": embedder.url}))

    found = serve_api(embed_url=embedder.url).get("/search", q="harbour crane greased", store="memories")

    row = found["results"][0]
    assert (found["mode"], found["why_by_words"], row["content"]) == ("hybrid", None, CRANE)
    assert row["why"]["meaning_rank"] == row["why"]["words_rank"] == 1
    assert row["similarity"] > 0.5
    assert "and by its meaning, as number 1, with a similarity of 0." in row["why"]["said"]


@pytest.mark.parametrize("mode", ["down", "hanging"])
def test_without_the_endpoint_words_answer_within_a_second(
    serve_api: ServeApi, make_provider: MakeProvider, embedder: ScriptedEmbedder, mode: Any
) -> None:
    filled(make_provider({"embed_url": embedder.url}))
    api = serve_api(embed_url=embedder.url)
    api.get("/search", q="warm")
    embedder.mode = mode

    found = api.get("/search", q="harbour crane greased", store="memories")

    assert found["took_ms"] < 1000
    assert (found["mode"], texts(found)[0]) == ("lexical", CRANE)
    assert found["why_by_words"] == "the embedding endpoint did not answer; see: hermes-pgvector doctor"

    embedder.mode = "ok"
    until(
        lambda: api.get("/search", q="harbour crane greased")["mode"] == "hybrid", what="the endpoint to be asked again"
    )
    assert api.get("/search", q="harbour crane greased")["why_by_words"] is None


def test_while_the_models_are_loaded_words_answer(
    serve_api: ServeApi, make_provider: MakeProvider, tmp_path: Path
) -> None:
    provider_home = tmp_path / "hermes-home"
    link_model(provider_home)
    filled(make_provider({"embed_url": f"local:{MODEL_NAME}"}))
    api = serve_api(embed_url=f"local:{MODEL_NAME}", rerank_deadline_s=0.6)
    link_model(tmp_path / "agent" / ".hermes")
    link_reranker(tmp_path / "agent" / ".hermes")

    def answer() -> dict[str, Any]:
        found = api.get("/search", q="Who greases the harbour crane?", store="memories")
        assert texts(found)[0] == CRANE
        if found["mode"] == "lexical":
            assert (found["loading"], found["why_by_words"]) == (True, "the embedding model is being loaded")
        return found

    answer()
    until(lambda: not answer()["loading"], what="the models to be loaded")
    found = answer()
    assert (found["mode"], found["reranked"]) == ("hybrid", True)
    assert found["results"][0]["why"]["rerank_rank"] == 1
    assert "; the reranker made it number 1" in found["results"][0]["why"]["said"]
    assert not api.get("/search", q="Who greases the harbour crane?", rerank="false")["reranked"]


def test_a_role_finds_what_its_themes_hold(
    serve_api: ServeApi, make_provider: MakeProvider, postgres: EmbeddedServer, admin_dsn: str
) -> None:
    for theme in ("marketing", "sales"):
        provider = make_provider(gateway_session_key=theme)
        provider.on_memory_write("add", "memory", f"The crane of {theme} is greased on Mondays")
        landed(provider)
    api = serve_api(dsn=tenant_of(postgres, admin_dsn, "marketing"))

    assert texts(api.get("/search", q="crane", scope="all")) == ["The crane of marketing is greased on Mondays"]
    assert "no theme 'sales'" in api.refused("/search", q="crane", theme="sales")[1]


def test_searching_changes_nothing(api: DashboardApi, provider: PgvectorMemoryProvider, dsn: str) -> None:
    def state() -> list[Any]:
        with psycopg.connect(dsn) as conn:
            written = "SELECT relname, n_tup_ins + n_tup_upd + n_tup_del FROM pg_stat_user_tables ORDER BY relname"
            return conn.execute(written).fetchall()

    before = state()
    api.get("/search", q="crane")
    api.get("/agent-view", message="When is the harbour crane greased?", theme="marketing")
    assert state() == before
