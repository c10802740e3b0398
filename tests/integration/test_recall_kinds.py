"""Recall beside what plain BM25 and plain vectors find, on talk of several kinds; see tests/data/kinds_of_talk.txt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

import pytest

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support import plain_search
from tests.support.local_models import link_model, link_reranker
from tests.support.memory import landed, recalled, runtime_of
from tests.support.model_files import MODEL_NAME
from tests.support.ten_days import ten_days

_PATH = Path(__file__).resolve().parents[1] / "data" / "kinds_of_talk.txt"
_LOCAL = {"embed_url": f"local:{MODEL_NAME}", "recall_deadline_s": 30.0}
_TIMEOUT_S = 60.0
_DEPTH = 10

Ask = Callable[[str], Sequence[str]]


class Kind(NamedTuple):
    """What is stored in a theme of its own, and the questions, each with words that stand in its answer only."""

    texts: list[str]
    questions: list[tuple[str, str]]


def kinds() -> dict[str, Kind]:
    """The kinds by name."""
    found: dict[str, Kind] = {}
    for line in _PATH.read_text(encoding="utf-8").splitlines():
        if line.startswith("= "):
            kind = found[line[2:]] = Kind([], [])
        elif line and not line.startswith("#"):
            text, _, question = line.partition(" | ")
            kind.texts.append(text)
            kind.questions.extend([(question, text)] if question else [])
    talk = ten_days()
    said = [text for day in talk.days for exchange in day for text in exchange]
    found["talk with an assistant"] = Kind(
        list(dict.fromkeys(said)), [(each.said, each.answer) for each in talk.questions]
    )
    return found


def standing(kind: Kind, ask: Ask) -> float:
    """One by the place of the first answer, mean over the questions: 1 where it is always in front."""
    places = []
    for question, answer in kind.questions:
        found = ask(question)
        places.append(next((1 / place for place, text in enumerate(found, 1) if answer in text), 0.0))
    return fmean(places)


def compared(provider: PgvectorMemoryProvider, kind: Kind) -> dict[str, float]:
    """How recall stands in a theme that holds nothing else, and what it is compared with."""
    for text in kind.texts:
        provider.on_memory_write("add", "memory", text)
    landed(provider)
    found = {
        "recall": standing(kind, lambda question: recalled(provider, question, limit=_DEPTH)),
        "bm25": standing(kind, lambda question: plain_search.bm25(kind.texts, question)[:_DEPTH]),
    }
    if embedder := runtime_of(provider).embedder:
        vectors = dict(zip(kind.texts, embedder.embed_documents(kind.texts, timeout_s=_TIMEOUT_S), strict=True))

        def near(question: str) -> Sequence[str]:
            return plain_search.nearest(vectors, embedder.embed_query(question, timeout_s=_TIMEOUT_S))[:_DEPTH]

        found["vectors"] = standing(kind, near)
    return found


@pytest.mark.parametrize("model", [False, True], ids=["words", "bundled-model"])
def test_need_39_recall_is_not_below_plain_bm25_or_plain_vectors_on_any_kind_of_talk(
    home: Path, make_provider: MakeProvider, model: bool
) -> None:
    if model:
        link_model(home)
        link_reranker(home)
    found = {}
    for number, (name, kind) in enumerate(kinds().items()):
        provider = make_provider(_LOCAL if model else {}, gateway_session_key=f"kind-{number}")
        found[name] = compared(provider, kind)
    assert all(each["recall"] >= max(each.values()) for each in found.values()), found
    mean = {way: fmean(each[way] for each in found.values()) for way in next(iter(found.values()))}
    assert all(mean["recall"] > other for way, other in mean.items() if way != "recall"), found
