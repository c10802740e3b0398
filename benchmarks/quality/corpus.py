"""LoCoMo as this benchmark uses it: the turns, the questions, and the turns that answer them.

The data (locomo10.json, CC BY-NC 4.0, for evaluation only) is not part of this repository.
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

SHA256 = "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
_DATE = "%I:%M %p on %d %B, %Y"
_EVIDENCE = re.compile(r"D(\d+):0*(\d+)")


@dataclass(frozen=True, slots=True)
class Turn:
    """One turn of a conversation. `name` is its dia_id; `text` begins with who speaks."""

    name: str
    session: str
    speaker: str
    text: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Asked:
    """A question and the names of the turns that answer it."""

    text: str
    category: int
    gold: frozenset[str]


@dataclass(frozen=True, slots=True)
class Conversation:
    """Turns in order, and the questions about them that name at least one existing turn as evidence."""

    theme: str
    turns: tuple[Turn, ...]
    questions: tuple[Asked, ...]


def read_conversations(path: Path) -> list[Conversation]:
    """The ten conversations. Raises SystemExit for any other file."""
    body = path.read_bytes()
    if hashlib.sha256(body).hexdigest() != SHA256:
        raise SystemExit(f"{path} is not the file this benchmark is made for (sha256 {SHA256})")
    conversations = []
    for sample in json.loads(body):
        turns = tuple(_turns(sample["conversation"]))
        questions = tuple(_questions(sample["qa"], {turn.name for turn in turns}))
        conversations.append(Conversation(sample["sample_id"], turns, questions))
    return conversations


def halves(conversations: list[Conversation]) -> tuple[set[str], set[str]]:
    """The themes to choose on (every other one, from the first) and the themes to report on."""
    themes = [each.theme for each in conversations]
    return set(themes[0::2]), set(themes[1::2])


def _turns(conversation: dict[str, Any]) -> Iterator[Turn]:
    for number in range(1, 100):
        session = conversation.get(f"session_{number}")
        if not session:
            continue
        at = datetime.strptime(conversation[f"session_{number}_date_time"], _DATE).replace(tzinfo=UTC)
        for turn in session:
            text = f"{turn['speaker']}: {turn['text']}"
            if turn.get("blip_caption"):
                text += f" [image: {turn['blip_caption']}]"
            yield Turn(turn["dia_id"], f"session-{number}", turn["speaker"], text, at)


def _questions(listed: list[dict[str, Any]], known: set[str]) -> Iterator[Asked]:
    for qa in listed:
        gold = {f"D{session}:{turn}" for part in qa["evidence"] for session, turn in _EVIDENCE.findall(part)}
        if gold & known:
            yield Asked(qa["question"], qa["category"], frozenset(gold & known))
