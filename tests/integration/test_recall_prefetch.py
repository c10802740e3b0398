"""What is put before a turn: for this message, in this session, once, in its size, and only when it is good."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.domain.chunks import estimate_tokens
from hermes_memory_pgvector.domain.types import Hit
from hermes_memory_pgvector.embed.instructions import instructions_for
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.recall.bars import MinSimilarity
from hermes_memory_pgvector.recall.relevance import MIN_COVERAGE, SURE_COVERAGE, is_worth_showing
from tests.conftest import MakeProvider
from tests.support.aged import age
from tests.support.embedding_server import EmbeddingServer, OnnxModel
from tests.support.hostile import plain_lines
from tests.support.limits import LATE_S
from tests.support.local_models import link_model
from tests.support.memory import called, landed, runtime_of
from tests.support.model_files import MODEL_NAME, model_dir
from tests.support.rescaled import Rescaled
from tests.support.scripted_embedder import ScriptedEmbedder
from tests.support.waiting import until

CRANE = "The harbour crane is greased on Mondays by Ingrid"
INVOICE = "Violet invoices go to the cellar archive in Bremen"
ASK_CRANE = "When is the harbour crane greased?"
ASK_INVOICE = "Where do violet invoices go?"
WEATHER = "Any rain expected near Lisbon?"
ANSWER = "Understood, that is how it has been handled since the spring of last year."


def remember(provider: PgvectorMemoryProvider, *texts: str) -> None:
    for text in texts:
        provider.on_memory_write("add", "memory", text)
    landed(provider)


@pytest.fixture(params=["words", "meaning"])
def config(request: pytest.FixtureRequest, embedder: ScriptedEmbedder) -> dict[str, Any]:
    """Settings with and without an embedding endpoint."""
    return {"embed_url": embedder.url} if request.param == "meaning" else {}


@pytest.fixture
def provider(config: dict[str, Any], make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider that knows two unrelated things."""
    made = make_provider(config)
    remember(made, CRANE, INVOICE)
    return made


# -- need 6 ----------------------------------------------------------------------------------------------------------


def test_need_06_what_is_shown_answers_the_current_message(provider: PgvectorMemoryProvider) -> None:
    for message, expected, other in ((ASK_CRANE, CRANE, INVOICE), (ASK_INVOICE, INVOICE, CRANE)):
        provider.on_turn_start(1, message)
        block = provider.prefetch(message)
        assert expected in block and other not in block
        provider.sync_turn(message, ANSWER)
        provider.queue_prefetch(message)


def test_need_06_a_queued_question_reaches_no_other_turn_or_session(
    provider: PgvectorMemoryProvider, config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider.queue_prefetch(ASK_CRANE, session_id="session-1")
    assert provider.prefetch(WEATHER) == ""
    assert CRANE not in provider.prefetch(ASK_INVOICE)
    other = make_provider(config, session_id="session-2")
    assert other.prefetch(WEATHER) == ""
    assert CRANE not in other.prefetch(ASK_INVOICE)


@pytest.mark.parametrize("fault", ["hanging", "slow"])
def test_need_06_a_late_embedding_is_dropped_and_words_answer_in_time(
    fault: str, make_provider: MakeProvider, embedder: ScriptedEmbedder
) -> None:
    config = {"embed_url": embedder.url, "prefetch_deadline_s": 1.5}
    provider = make_provider(config)
    remember(provider, CRANE, INVOICE)
    if fault == "hanging":
        embedder.mode = "hanging"
    else:
        embedder.latency_ms = 9000
    started = time.monotonic()
    block = provider.prefetch(ASK_CRANE)
    assert time.monotonic() - started < 1.5 + LATE_S
    assert CRANE in block

    embedder.latency_ms = 0
    embedder.mode = "ok"  # what hung is ended, what was slow answers now
    until(
        lambda: not [each for each in threading.enumerate() if each.name == "hermes-pgvector-embed"], 20, "the late one"
    )
    assert provider.prefetch(WEATHER) == ""
    block = make_provider(config, session_id="session-2").prefetch(ASK_INVOICE)
    assert INVOICE in block and CRANE not in block
    assert runtime_of(provider).searcher.counts["query_embed_late"] == 1


# -- need 8 ----------------------------------------------------------------------------------------------------------


def test_need_08_a_statement_stands_once_in_a_block(provider: PgvectorMemoryProvider) -> None:
    for number in range(3):
        provider.sync_turn(CRANE, ANSWER, session_id=f"earlier-{number}")
    provider.sync_turn(f"{CRANE}!", ANSWER, session_id="earlier-3")
    landed(provider)
    assert provider.prefetch(ASK_CRANE).count(CRANE) == 1


def test_need_08_what_was_shown_is_not_shown_again_in_the_session(
    provider: PgvectorMemoryProvider, config: dict[str, Any], make_provider: MakeProvider
) -> None:
    assert CRANE in provider.prefetch(ASK_CRANE)
    assert provider.prefetch(f"{ASK_CRANE} Tell me.") == ""
    assert make_provider(config, session_id="session-1").prefetch(ASK_CRANE) == "", "the API server makes one a request"
    assert CRANE in make_provider(config, session_id="session-2").prefetch(ASK_CRANE)
    assert make_provider(config, session_id="session-2", gateway_session_key="sales").prefetch(ASK_CRANE) == ""


def test_need_08_after_compression_and_undo_it_may_be_shown_again(provider: PgvectorMemoryProvider) -> None:
    for arguments in ({"reason": "compression", "parent_session_id": "session-1"}, {"rewound": True}):
        assert CRANE in provider.prefetch(ASK_CRANE)
        assert provider.prefetch(ASK_CRANE) == ""
        provider.on_session_switch("session-1", **arguments)
    assert CRANE in provider.prefetch(ASK_CRANE)


def test_need_08_another_session_gets_it_and_a_branch_has_it_already(provider: PgvectorMemoryProvider) -> None:
    assert CRANE in provider.prefetch(ASK_CRANE)
    provider.on_session_switch("session-1b", parent_session_id="session-1", reason="branch")
    assert provider.prefetch(ASK_CRANE) == "", "the branch begins with a copy of the transcript"
    provider.on_session_switch("session-2", parent_session_id="session-1b", reset=True, reason="new_session")
    assert CRANE in provider.prefetch(ASK_CRANE)
    provider.on_session_switch("session-1", parent_session_id="session-2", reason="resume")
    assert provider.prefetch(ASK_CRANE) == "", "the resumed session still holds it"


@pytest.mark.parametrize(("budget", "lines"), [(64, 1), (100, 1), (400, 3), (3000, 8)])
def test_need_08_the_token_budget_is_hard(budget: int, lines: int, make_provider: MakeProvider) -> None:
    provider = make_provider({"prefetch_max_tokens": budget, "prefetch_limit": 50})
    names = ["anchor", "buoy", "capstan", "davit", "ensign", "fender", "galley", "hawser", "jib", "keel"]
    remember(provider, *(f"The harbour {name} was painted" + f", {name}" * 9 * i for i, name in enumerate(names)))
    block = provider.prefetch("harbour painted")
    assert estimate_tokens(block) <= budget
    assert len(plain_lines(block)) >= lines


def test_need_08_of_two_near_equal_statements_the_newer_is_shown(provider: PgvectorMemoryProvider, dsn: str) -> None:
    older = "The staging database of the Atlas project lives on the host called elbe"
    newer = "The staging database of the Atlas project lives on the host called weser"
    for first, second in ((older, newer), (newer, older)):
        provider.on_session_switch(f"session-{first}")
        remember(provider, first, second)
        age(dsn, first, days=200)
        age(dsn, second, days=2)
        block = provider.prefetch("Where does the staging database of the Atlas project live?")
        assert second in block and first not in block


# -- need 9 ----------------------------------------------------------------------------------------------------------


def test_need_09_what_happened_to_another_ticket_does_not_stand_before_the_turn(
    config: dict[str, Any], make_provider: MakeProvider
) -> None:
    provider = make_provider(config | {"tools": ["forget"]})
    remember(provider, "INC-8841: a consumer of the billing queue had died", "Order 77120 went to the wrong address")
    for message in ("INC-9120?", "What happened with INC-9120?", "Any news on order 90311?"):
        assert provider.prefetch(message, session_id=message) == "", message
        assert called(provider, "forget", {"query": message})["would_forget"] == [], message
    assert "a consumer" in provider.prefetch("INC-8841?")
    assert "a consumer" in provider.prefetch("INC-9120: did a consumer of the queue die?", session_id="session-2")
    assert "wrong address" in provider.prefetch("Any news on order 77120?")


def test_need_09_politeness_searches_nothing(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> None:
    provider = make_provider({"embed_url": embedder.url})
    messages = ["ok", "OK!!", "thanks", "Danke schön!", "👍", "🎉🎉", "", "   ", "...", "好的，谢谢！"]
    remember(provider, CRANE, *(f"{message} is what Ingrid says when the crane is greased" for message in messages))
    asked = embedder.requests
    for message in messages:
        assert provider.prefetch(message) == ""
    assert runtime_of(provider).searcher.counts["searches"] == 0
    assert embedder.requests == asked


def test_need_09_nothing_good_enough_is_nothing_at_all(provider: PgvectorMemoryProvider) -> None:
    for message in (WEATHER, "Who won on Mondays in nineteen ninety-nine?", "Schreibe ein Gedicht über Schnee", "42"):
        assert provider.prefetch(message) == "", message


def test_need_09_asking_has_a_lower_bar_than_showing(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> None:
    provider = make_provider({"embed_url": embedder.url})
    remember(provider, CRANE, INVOICE)
    weak = "Which paint did Ingrid choose for the old lighthouse tower yesterday?"
    assert provider.prefetch(weak) == ""
    assert CRANE in [hit["content"] for hit in called(provider, "recall_memory", {"query": weak})["results"]]


def test_need_09_the_bar_is_a_setting(make_provider: MakeProvider, embedder: ScriptedEmbedder) -> None:
    weak = "Ingrid chose paint for that old lighthouse tower"
    remember(make_provider({"embed_url": embedder.url}), CRANE)
    for bar, shown in ((0.0, True), (0.9, False)):
        provider = make_provider({"embed_url": embedder.url, "min_similarity": bar}, session_id=f"session-{bar}")
        assert (CRANE in provider.prefetch(weak)) is shown


BUNDLED = {"embed_url": f"local:{MODEL_NAME}", "prefetch_deadline_s": 8.0, "recall_deadline_s": 30.0}
KITTEN = "Our kitten sleeps on the radiator all afternoon."
KNOWN = (
    KITTEN,
    "I cannot eat anything with peanuts.",
    "My favourite author is Ursula Le Guin.",
    "My daughter starts school in September.",
    "We pay invoices within thirty days.",
    "API keys are rotated every ninety days.",
)


REWORDED = (
    ("Where does a cat like to rest?", KITTEN),
    ("What food am I allergic to?", KNOWN[1]),
    ("When does my child's education begin?", KNOWN[3]),
    ("How long do suppliers wait for their money?", KNOWN[4]),
    ("How often do we change credentials?", KNOWN[5]),
)
ELSEWHERE = (
    "Write a haiku about snow.",
    "What is the capital of Mongolia?",
    "Explain how photosynthesis works.",
    "Why is the sky blue?",
    "Give me a regular expression that matches an IPv4 address.",
    "Who drew the Peanuts comic strip?",
    "How many keys does a piano have?",
    "Draw a radiator as ASCII art.",
)


@pytest.fixture
def knowing(home: Path, make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider with the bundled model and a new user's few memories."""
    link_model(home)
    made = make_provider(BUNDLED)
    remember(made, *KNOWN)
    assert runtime_of(made).writer.flush(60)
    return made


def test_need_09_the_bundled_model_shows_what_has_no_word_in_common(knowing: PgvectorMemoryProvider) -> None:
    for question, line in REWORDED:
        block = knowing.prefetch(question)
        assert line in block, question
        assert len(plain_lines(block)) == 1, question


def test_need_09_the_bundled_model_shows_nothing_of_another_subject(knowing: PgvectorMemoryProvider) -> None:
    for message in ELSEWHERE:
        assert knowing.prefetch(message) == "", message
    asked = called(knowing, "recall_memory", {"query": "What is the capital of Mongolia?"})
    assert asked["count"] > 0, "a tool has a lower bar"


@pytest.mark.parametrize(("share", "lowest", "highest"), [(-0.9, 0.0, 0.4), (0.0, 0.5, 0.6), (2.0, 0.85, 1.0)])
def test_need_09_a_model_that_nobody_has_measured_gets_its_own_bars(
    make_provider: MakeProvider, share: float, lowest: float, highest: float
) -> None:
    model = Rescaled(OnnxModel(model_dir()), [*KNOWN, CRANE, INVOICE], share)
    with EmbeddingServer(model) as server:
        settings = {"embed_url": f"{server.url}/v1/embeddings", "embed_model": "unheard-of", "dims": 384}
        settings["embed_query_prefix"] = instructions_for(MODEL_NAME).query
        provider = make_provider(settings | {"prefetch_deadline_s": 8.0})
        remember(provider, *KNOWN)
        answered = [question for question, line in REWORDED if line in provider.prefetch(question)]
        assert len(answered) >= len(REWORDED) - 1, answered
        disturbed = [message for message in ELSEWHERE if provider.prefetch(message)]
        assert len(disturbed) <= 1, disturbed
        bars = runtime_of(provider).searcher.bars(ELSEWHERE[-1], time.monotonic())
        assert bars is not None and lowest < bars.memories < highest


def test_need_09_the_bar_a_user_set_is_kept_whatever_the_model(
    knowing: PgvectorMemoryProvider, make_provider: MakeProvider
) -> None:
    low = make_provider(BUNDLED | {"min_similarity": 0.3}, session_id="low")
    assert KITTEN in low.prefetch("Why is the sky blue?")
    high = make_provider(BUNDLED | {"min_similarity": 0.8}, session_id="high")
    assert high.prefetch("Where does a cat like to rest?") == ""


def test_need_09_a_word_in_common_is_not_enough_when_the_meaning_is_far_off() -> None:
    near = MinSimilarity(memories=0.5, turns=0.6)
    memory = Hit("memories", 1, "theme", "memory", None, "text", datetime.now(UTC), None)
    for similarity, coverage, shown in (
        (0.50, 0.0, True),
        (0.49, 0.0, False),
        (0.41, MIN_COVERAGE, True),
        (0.39, MIN_COVERAGE, False),
        (0.39, SURE_COVERAGE, True),
        (None, MIN_COVERAGE, True),
        (None, MIN_COVERAGE - 0.01, False),
    ):
        hit = memory._replace(similarity=similarity, coverage=coverage)
        assert is_worth_showing(hit, near) is shown, (similarity, coverage)
    assert not is_worth_showing(memory._replace(store="turns", similarity=0.55), near)


def test_need_09_a_limit_of_zero_turns_it_off_and_leaves_the_tools(make_provider: MakeProvider) -> None:
    provider = make_provider({"prefetch_limit": 0})
    remember(provider, CRANE)
    assert provider.prefetch(ASK_CRANE) == ""
    assert runtime_of(provider).searcher.counts["searches"] == 0
    assert called(provider, "recall_memory", {"query": ASK_CRANE})["count"] == 1


def test_need_09_no_more_lines_than_the_limit(make_provider: MakeProvider) -> None:
    provider = make_provider({"prefetch_limit": 2})
    remember(provider, *(f"The harbour {name} is greased" for name in ("crane", "winch", "gate", "lift")))
    assert len(plain_lines(provider.prefetch("What is greased in the harbour?"))) == 2


# -- what developers paste and order -----------------------------------------------------------------------------------

LOG = [f"Nov 23 14:31:{n:02} edge-3 haproxy[{n * 71}]: Connect from 10.20.7.{n} to 10.20.0.15:443" for n in range(60)]
LOCKED = "Migration 0231 broke, canceling statement due to lock timeout (SQLSTATE 55P03): create it CONCURRENTLY."
HEALTHY = "Nothing is wrong with haproxy on edge-3, it is to connect from 10.20.7.1 to 10.20.0.15:443 as planned."


@pytest.fixture
def oncall(config: dict[str, Any], make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider that was asked about logs and about a migration, and told to run tests."""
    made = make_provider(config, session_id="yesterday")
    for number in range(3):
        made.sync_turn("\n".join(LOG[number * 12 :][:12]) + "\nIs that fine?", HEALTHY, session_id="yesterday")
    made.sync_turn("We have to talk about the migration of yesterday.", LOCKED, session_id="yesterday")
    made.sync_turn("run the tests again", "All 412 tests passed in 38 seconds.", session_id="yesterday")
    landed(made)
    return make_provider(config, session_id="today")


@pytest.mark.parametrize("place", [5, 30])
def test_need_37_the_line_that_stands_out_of_a_pasted_log_is_searched_for(
    oncall: PgvectorMemoryProvider, place: int
) -> None:
    error = "ERROR: canceling statement due to lock timeout (SQLSTATE 55P03)"
    message = "\n".join([*LOG[:place], error, *LOG[place:], "", "Did we see this before?"])
    assert LOCKED in next(iter(plain_lines(oncall.prefetch(message))), "")
    assert called(oncall, "recall_conversation", {"query": message})["results"][0]["content"] == LOCKED


@pytest.mark.parametrize("message", ["\n".join(LOG), "run the tests again", "ok, run them again please", "2"])
def test_need_09_a_log_without_a_word_or_an_order_to_go_on_gets_nothing(
    oncall: PgvectorMemoryProvider, message: str
) -> None:
    assert oncall.prefetch(message) == ""
