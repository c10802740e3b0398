"""The bundled cross-encoder has a say in the order; without it, late or damaged, recall goes on as it was."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.admin.doctor.check import DoctorContext
from hermes_memory_pgvector.admin.doctor.check_endpoints import check_endpoints
from hermes_memory_pgvector.cli import main
from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.types import Question, Scope
from hermes_memory_pgvector.embed.cross_encoder import CrossEncoder
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.aged import age
from tests.support.local_models import link_model, link_reranker
from tests.support.memory import called, landed, runtime_of
from tests.support.model_files import MODEL_NAME, RERANKER_NAME
from tests.support.waiting import until

QUESTION = "Which restaurant does Ann like for dinner?"
ANSWER = "Ann's favourite restaurant is the Golden Fork, an Italian trattoria."
TEXTS = (
    "Which dinner guests does the restaurant like? Those who tip.",
    "A restaurant like that needs a licence for dinner music.",
    "The restaurant is closed on Mondays.",
    ANSWER,
)
PATIENT = {"rerank_deadline_s": 20, "recall_deadline_s": 60}

# Asks for the model, and ends so many seconds later: some of them are in the middle of its loading.
ENDING = """
import sys, time
from pathlib import Path
from hermes_memory_pgvector.embed.cross_encoder import CrossEncoder

encoder = CrossEncoder(Path(sys.argv[1]))
encoder.logits("Is dinner ready?", ["It is."], until=time.monotonic() + 1)
time.sleep(float(sys.argv[2]))
"""


def remembering(provider: PgvectorMemoryProvider, texts: tuple[str, ...] = TEXTS) -> PgvectorMemoryProvider:
    for text in texts:
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    return provider


def ready(provider: PgvectorMemoryProvider) -> PgvectorMemoryProvider:
    """The provider once a first question has had the model loaded."""
    answer = called(provider, "recall_memory", {"query": "Is dinner ready?"})
    assert "reranked" not in answer, "the first question does not wait"
    until(lambda: runtime_of(provider).stats()["reranker"] == "closed", 60, "the cross-encoder to be loaded")
    return provider


def asked(provider: PgvectorMemoryProvider, question: str = QUESTION, **more: Any) -> dict[str, Any]:
    return called(provider, "recall_memory", {"query": question, "explain": True, **more})


def contents(answer: dict[str, Any]) -> list[str]:
    return [result["content"] for result in answer["results"]]


def test_the_order_gets_better_once_the_model_is_loaded(home: Path, make_provider: MakeProvider) -> None:
    plain = contents(asked(remembering(make_provider(PATIENT))))
    assert runtime_of(make_provider(PATIENT)).stats()["reranker"] == "none"
    link_reranker(home)
    provider = ready(make_provider(PATIENT))

    answer = asked(provider)

    assert answer["reranked"] is True
    assert contents(answer).index(ANSWER) < plain.index(ANSWER) and sorted(contents(answer)) == sorted(plain)
    explained = [result["explain"] for result in answer["results"]]
    assert [each["rerank_rank"] for each in explained] == [1, 2, 3, 4]
    best = max(answer["results"], key=lambda result: result["explain"]["rerank_score"])
    assert best["content"] == ANSWER and 0 < best["explain"]["rerank_score"] < 1
    stats = runtime_of(provider).stats()
    assert (stats["reranked"], stats["rerank_late"]) == (1, 1) and stats["rerank_p50_ms"] > 0


def test_every_result_says_how_likely_it_answers_and_pages_are_parts_of_one_order(
    home: Path, make_provider: MakeProvider
) -> None:
    link_reranker(home)
    provider = ready(remembering(make_provider(PATIENT | {"rerank_candidates": 3})))
    found = runtime_of(provider).searcher.recall(
        ["memories"], Question(QUESTION, Scope("theme", "marketing"), 4, 60.0, rerank=True)
    )

    assert [hit.relevance is not None for hit in found.hits] == [True, True, True, False]
    assert all(hit.relevance == hit.rerank_score for hit in found.hits)
    pages = [contents(asked(provider, limit=1, offset=place))[0] for place in range(4)]
    assert pages == [hit.content for hit in found.hits]
    assert runtime_of(provider).stats()["rerank_texts"] == 3, "one order is made once"


def test_need_39_the_time_that_a_question_names_is_not_expected_in_what_was_told_then(
    home: Path, make_provider: MakeProvider, dsn: str
) -> None:
    link_reranker(home)
    provider = ready(remembering(make_provider(PATIENT)))
    age(dsn, ANSWER, days=20)
    day = f"{datetime.now(UTC) - timedelta(days=20):%Y-%m-%d}"

    def scores(question: str) -> dict[str, float]:
        return {result["content"]: result["explain"]["rerank_score"] for result in asked(provider, question)["results"]}

    dated, undated = (
        scores(f"Which restaurant did Ann like for dinner on {day}?"),
        scores("Which restaurant did Ann like for dinner?"),
    )

    assert dated[ANSWER] == undated[ANSWER]
    assert all(dated[text] != undated[text] for text in TEXTS if text != ANSWER)


def test_what_is_put_before_a_turn_is_reranked_too(home: Path, make_provider: MakeProvider) -> None:
    link_reranker(home)
    provider = ready(remembering(make_provider(PATIENT | {"prefetch_limit": 1, "prefetch_deadline_s": 8})))

    provider.prefetch(QUESTION)

    assert runtime_of(provider).stats()["reranked"] == 1


def with_both_models(home: Path, make_provider: MakeProvider) -> PgvectorMemoryProvider:
    """A provider with the bundled models, once they are ready."""
    link_model(home)
    link_reranker(home)
    local = {"embed_url": f"local:{MODEL_NAME}", "prefetch_deadline_s": 8}
    return ready(remembering(make_provider(PATIENT | local)))


def test_need_39_words_in_common_count_in_a_language_that_it_does_not_know(
    home: Path, make_provider: MakeProvider
) -> None:
    provider = with_both_models(home, make_provider)
    for said in ("brb, paket bei nachbarin Frau Ostrowski abholen", "gym moved to tuesday and thursday at six"):
        provider.sync_turn(said, None, session_id="before")
    landed(provider)
    provider.on_session_switch("another", parent_session_id="", reset=True)

    assert "Ostrowski" in provider.prefetch("wo ist mein paket?")
    assert provider.prefetch("wo ist der Eiffelturm?") == ""


def test_need_09_a_word_that_the_embedding_model_does_not_know_finds_what_has_it(
    home: Path, make_provider: MakeProvider
) -> None:
    provider = with_both_models(home, make_provider)
    carried = "little Paul is allergic to peanuts, he carries an EpiPen in his blue backpack"
    for said, answer in (
        (carried, "Got it: little Paul has a peanut allergy, EpiPen in the blue backpack."),
        ("Opa Paul takes blood pressure pills, ramipril 5 mg every morning", "Noted: ramipril 5 mg in the morning."),
        ("bought 200 ACME at 41.20, stop at 38", "Logged: long 200 ACME at 41.20, stop 38."),
    ):
        provider.sync_turn(said, answer, session_id="before")
    landed(provider)
    provider.on_session_switch("another", parent_session_id="", reset=True)

    assert "blue backpack" in provider.prefetch("where's the epipen?")
    assert provider.prefetch("what is a stop?") == ""


def test_late_it_changes_nothing_or_the_part_that_it_has_seen(home: Path, make_provider: MakeProvider) -> None:
    link_reranker(home)
    plain = contents(asked(remembering(make_provider({"rerank": "off"}))))
    provider = ready(make_provider({"rerank_deadline_s": 0.05}))
    reorderer: Any = runtime_of(provider).reorderer
    busy = reorderer._encoder._shared._scoring  # as a question of somebody else's keeps it
    with busy:
        began = time.monotonic()
        answer = asked(provider)
        assert time.monotonic() - began < 5
    assert contents(answer) == plain and "reranked" not in answer
    assert runtime_of(provider).stats()["rerank_late"] == 2, "this one, and the first"
    part = reorderer._encoder.logits(QUESTION, [QUESTION] * 2000, until=time.monotonic() + 1)
    assert 0 < len(part) < 2000, "what was scored in time counts"


def test_switched_off_it_is_never_loaded(home: Path, make_provider: MakeProvider) -> None:
    link_reranker(home)
    provider = remembering(make_provider({"rerank": False}))  # what YAML makes of `off`

    assert "reranked" not in asked(provider)

    assert runtime_of(provider).stats()["reranker"] == "none"


@pytest.mark.parametrize(
    ("config", "question"),
    [
        ({}, "Ann喜欢哪家餐厅吃晚饭？"),
        ({}, "В каком ресторане Ann любит ужинать?"),
        ({"text_language": "german"}, QUESTION),
        ({}, 'Which "dinner music" does Ann like?'),
        (
            {},
            f"Hello again! We had settled the flights and the rooms, and I am happy with both of them. {QUESTION} "
            "I would like to book a table for the second evening, and then we can go on with the museums.",
        ),
    ],
)
def test_another_language_a_quoted_phrase_and_a_long_message_are_left_alone(
    config: dict[str, Any], question: str, home: Path, make_provider: MakeProvider
) -> None:
    encoder = CrossEncoder(link_reranker(home))
    encoder.load()
    texts = (*TEXTS, "Ann喜欢在金叉餐厅吃晚饭。", "晚饭在七点。", "Ann любит ужинать дома.")
    plain = contents(asked(remembering(make_provider(config | {"rerank": "off"}), texts), question))

    answer = asked(provider := make_provider(PATIENT | config), question)

    assert contents(answer) == plain and "reranked" not in answer
    assert runtime_of(provider).stats()["reranker"] == "closed"


@pytest.mark.parametrize("is_pipe", [False, True], ids=["damaged", "a pipe"])
def test_a_damaged_file_is_refused_and_a_whole_one_is_taken_without_a_restart(
    home: Path, make_provider: MakeProvider, records: Callable[[int], list[str]], is_pipe: bool
) -> None:
    folder = link_reranker(home)
    whole = (folder / "model.onnx").readlink()
    (folder / "model.onnx").unlink()
    body = whole.read_bytes()
    if is_pipe:
        os.mkfifo(folder / "model.onnx")
    else:
        (folder / "model.onnx").write_bytes(body[:-1] + bytes([body[-1] ^ 1]))
    problem = "there is no such file" if is_pipe else "model.onnx is damaged"
    provider = remembering(make_provider(PATIENT))
    plain = contents(asked(provider))

    until(lambda: runtime_of(provider).stats()["reranker"] == "open", 60, "the refusal")

    assert contents(asked(provider)) == plain
    (said,) = [line for line in records(logging.WARNING) if "not reranked" in line]
    assert problem in said and f"model install {RERANKER_NAME}" in said
    (check,) = list(check_endpoints(DoctorContext(Settings(), home, None)))[1:]
    assert (check.name, check.state) == ("reranking", "fail") and problem in check.said
    os.unlink(folder / "model.onnx")
    (folder / "model.onnx").symlink_to(whole)
    asked(provider, "Is the dinner mended?")
    until(lambda: runtime_of(provider).stats()["reranker"] == "closed", 60, "the whole file to be loaded")


def test_doctor_says_how_to_get_it_and_whether_it_works(home: Path, make_provider: MakeProvider) -> None:
    def reranking(settings: Settings) -> tuple[str, str]:
        found = [check for check in check_endpoints(DoctorContext(settings, home, None)) if check.name == "reranking"]
        return (found[0].state, found[0].said + found[0].fix) if found else ("", "")

    state, said = reranking(Settings())
    assert state == "note" and f"hermes-pgvector model install {RERANKER_NAME}" in said
    assert reranking(Settings(rerank="off")) == ("", "")
    assert reranking(Settings(text_language="german"))[0] == "ok"
    link_reranker(home)
    state, said = reranking(Settings())
    assert state == "ok" and f"{RERANKER_NAME} in this process" in said


def test_the_search_command_shows_the_order_that_an_agent_sees(
    home: Path, dsn: str, make_provider: MakeProvider, capsys: pytest.CaptureFixture[str]
) -> None:
    link_reranker(home)
    provider = ready(remembering(make_provider(PATIENT)))
    (home / "config.yaml").write_text(f"plugins:\n  pgvector:\n    dsn: {dsn}\n    rerank_deadline_s: 20\n")
    command = ["search", QUESTION, "--store", "memories", "--hermes-home", str(home)]

    assert main(command) == 0

    said = capsys.readouterr().out
    places = [said.index(text[:40]) for text in contents(asked(provider))]
    assert places == sorted(places)


def test_a_child_of_a_process_that_uses_the_model_uses_it_too(home: Path) -> None:
    folder = link_reranker(home)
    encoder = CrossEncoder(folder)
    encoder.load()
    shared: Any = encoder._shared
    assert len(encoder.logits(QUESTION, TEXTS, until=time.monotonic() + 60)) == len(TEXTS)
    with shared._scoring:  # as a thread holds it that the child does not have
        child = os.fork()
        if child == 0:
            fresh = CrossEncoder(folder)
            fresh.load()
            os._exit(len(fresh.logits(QUESTION, TEXTS, until=time.monotonic() + 60)))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == len(TEXTS)


def test_all_of_a_folder_share_one_model_and_one_text_has_one_score(home: Path) -> None:
    folder = link_reranker(home)
    one, other = CrossEncoder(folder), CrossEncoder(folder)
    one.load()
    assert other.state() == "closed"
    end = time.monotonic() + 60
    together = one.logits(QUESTION, TEXTS, until=end)
    assert together == tuple(other.logits(QUESTION, [text], until=end)[0] for text in TEXTS)
    assert max(zip(together, TEXTS, strict=True))[1] == ANSWER
    assert one.logits(QUESTION, ["\0", "", "word " * 100_000], until=end)
    one.close()
    assert one.logits(QUESTION, TEXTS, until=end) == ()


def test_need_11_a_process_may_end_while_the_model_is_being_loaded(home: Path) -> None:
    folder = str(link_reranker(home))
    for tenths in range(0, 10, 2):
        command = [sys.executable, "-P", "-c", ENDING, folder, str(tenths / 10)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, ""), tenths
