"""The corpora that recall is measured on, in one form: turns or memories, questions, and what answers these.

The files are for evaluation only and no part of this repository; docs/recall-quality.md says where each comes from.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

LOCOMO = "locomo10"
NAMES = (LOCOMO, "beam100k", "lifebench_en", "madial_en", "madial_zh", "precisionmem_en")
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}  # of LoCoMo
_LOCOMO_SHA256 = "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"
_DATE = "%I:%M %p on %d %B, %Y"
_EVIDENCE = re.compile(r"D(\d+):0*(\d+)")
_FEW_THEMES = 4  # of a corpus with fewer, every other question is held out; else every other theme
# What the other questions of beam100k ask for is hardly said in them: a summary, an order, a rule to follow.
_DRIVEN = {
    "contradiction_resolution",
    "information_extraction",
    "knowledge_update",
    "multi_session_reasoning",
    "preference_following",
    "temporal_reasoning",
}


@dataclass(frozen=True, slots=True)
class Turn:
    """One text. `name` is what gold names: the turn, or its session where sessions are asked for."""

    name: str
    session: str
    role: str
    speaker: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the names of what answers it; `held`: it is in the half that nothing is chosen on."""

    text: str
    category: str
    gold: frozenset[str]
    held: bool


@dataclass(frozen=True, slots=True)
class Theme:
    """Turns in order, or memories, and the questions about them."""

    corpus: str
    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Asked, ...]


def read_corpus(path: Path) -> list[Theme]:
    """The themes of the corpus that the file is named after. Raises SystemExit for another LoCoMo than the measured."""
    name, body = path.stem, path.read_bytes()
    if name == LOCOMO:
        if hashlib.sha256(body).hexdigest() != _LOCOMO_SHA256:
            raise SystemExit(f"{path} is not the file this benchmark is made for ({_LOCOMO_SHA256})")
        return [_conversation(place, each) for place, each in enumerate(json.loads(body))]
    themes = json.loads(body)["themes"]
    return [_theme(name, place, each, few=len(themes) < _FEW_THEMES) for place, each in enumerate(themes)]


def _theme(corpus: str, place: int, theme: dict[str, Any], *, few: bool) -> Theme:
    level = "session" if any(each["gold_level"] == "session" for each in theme["questions"]) else "id"
    turns = tuple(
        Turn(each[level], each["session"], each["role"], each["speaker"], each["text"], _at(each["at"]))
        for each in theme["turns"]
    )
    questions = tuple(
        Asked(each["text"], each["category"], frozenset(each["gold"]), bool((number if few else place) % 2))
        for number, each in enumerate(theme["questions"])
    )
    if corpus == "beam100k":
        questions = tuple(each for each in questions if each.category in _DRIVEN)
    return Theme(corpus, theme["theme"].casefold(), turns, questions)  # as the provider has it


def _at(written: str) -> datetime:
    at = datetime.fromisoformat(written)
    return at if at.tzinfo else at.replace(tzinfo=UTC)


def _conversation(place: int, sample: dict[str, Any]) -> Theme:
    turns = tuple(_said(sample["conversation"]))
    known = {turn.name for turn in turns}
    questions = []
    for qa in sample["qa"]:
        gold = {f"D{session}:{turn}" for part in qa["evidence"] for session, turn in _EVIDENCE.findall(part)} & known
        if gold:
            questions.append(Asked(qa["question"], CATEGORIES[qa["category"]], frozenset(gold), bool(place % 2)))
    return Theme(LOCOMO, sample["sample_id"], turns, tuple(questions))


def _said(conversation: dict[str, Any]) -> Iterator[Turn]:
    for number in range(1, 100):
        session = conversation.get(f"session_{number}")
        if not session:
            continue
        at = datetime.strptime(conversation[f"session_{number}_date_time"], _DATE).replace(tzinfo=UTC)
        for turn in session:
            text = f"{turn['speaker']}: {turn['text']}"
            if turn.get("blip_caption"):
                text += f" [image: {turn['blip_caption']}]"
            yield Turn(turn["dia_id"], f"session-{number}", "user", turn["speaker"], text, at)
