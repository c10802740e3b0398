"""The corpora that recall is measured on, in one form: turns or memories, questions, and what answers these.

The files are for evaluation only and no part of this repository; docs/recall-quality.md says where each comes from. A
corpus of your own is a file of this form (conversions.py writes some), whose name is that of the corpus:

    {"themes": [{"theme": NAME,
                 "turns": [{"id": ID, "session": ID, "role": "user", "assistant" or "memory",
                            "speaker": NAME, "text": TEXT, "at": "2026-01-31T09:00"}, ...],
                 "questions": [{"text": TEXT, "category": NAME, "gold": [ID, ...],
                                "gold_level": "turn" or "session"}, ...]}]}

`gold` are the turns or the sessions that answer. Every other theme is held out; of fewer than four themes, every other
question.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

LOCOMO = "locomo10"
REALTALK = "realtalk"
REALMEM = "realmem"
MEMSIM = "memsim"
FRIENDSQA = "friendsqa"
NAMES = (LOCOMO, "beam100k", "lifebench_en", "madial_en", "madial_zh", "precisionmem_en")
# No constant is chosen on the last four: they tell whether what was chosen holds elsewhere.
ALL_NAMES = (*NAMES, REALTALK, REALMEM, MEMSIM, FRIENDSQA)
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}  # of LoCoMo
_LOCOMO_SHA256 = "79fa87e90f04081343b8c8debecb80a9a6842b76a7aa537dc9fdf651ea698ff4"
_DATE = "%I:%M %p on %d %B, %Y"
_REALTALK_DATE = "%d.%m.%Y, %H:%M:%S"
_MEMSIM_DATE = "%Y年%m月%d日 %H:%M"
_MEMSIM_WEEKDAY = re.compile(r" 周. ")
_MEMSIM_FIRST = 40  # themes of each kind of question
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
    """A question and the names of what answers it; `held`: it is in the half that nothing is chosen on.

    `until`: when it was asked, where the theme also holds what was said later.
    """

    text: str
    category: str
    gold: frozenset[str]
    held: bool
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class Theme:
    """Turns in order, or memories, and the questions about them."""

    corpus: str
    name: str
    turns: tuple[Turn, ...]
    questions: tuple[Asked, ...]


def read_corpus(folder: Path, name: str) -> list[Theme]:
    """The themes of a corpus below `folder`. Raises SystemExit for another LoCoMo than the measured."""
    if name == REALTALK:
        chats = sorted((folder / name).glob("Chat_*.json"))
        return [_chat(place, each.stem, json.loads(each.read_bytes())) for place, each in enumerate(chats)]
    if name == REALMEM:
        people = sorted((folder / name).glob("*_dialogues_256k.json"))
        return [
            _person(place, each.stem, json.loads(each.read_bytes())["dialogues"]) for place, each in enumerate(people)
        ]
    if name == MEMSIM:
        kinds = sorted((folder / name).glob("*_hybrid.json"))
        return [
            _daily(each.stem, place, said)
            for each in kinds
            for place, said in enumerate(json.loads(each.read_bytes())[:_MEMSIM_FIRST])
        ]
    if name == FRIENDSQA:
        scenes = [
            scene for each in sorted((folder / name).glob("*.json")) for scene in json.loads(each.read_bytes())["data"]
        ]
        seasons = itertools.groupby(sorted(scenes, key=_title_of), lambda scene: _title_of(scene)[:3])
        return [_season(place, season, list(each)) for place, (season, each) in enumerate(seasons)]
    path = folder / f"{name}.json"
    if not path.is_file():
        raise SystemExit(f"{path} does not exist: --corpus takes {', '.join(ALL_NAMES)}, or the name of a file there")
    body = path.read_bytes()
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
    return Theme(LOCOMO, sample["sample_id"], turns, _asked(sample["qa"], turns, held=bool(place % 2)))


def _chat(place: int, name: str, chat: dict[str, Any]) -> Theme:
    numbers = sorted(int(key.removeprefix("session_")) for key in chat if re.fullmatch(r"session_\d+", key))
    turns = tuple(
        Turn(
            turn["dia_id"],
            f"session-{number}",
            "user",
            turn["speaker"],
            _spoken(turn["speaker"], turn["clean_text"], turn.get("blip_caption")),
            datetime.strptime(turn["date_time"], _REALTALK_DATE).replace(tzinfo=UTC),
        )
        for number in numbers
        for turn in chat[f"session_{number}"]
    )
    return Theme(REALTALK, name.casefold(), turns, _asked(chat["qa"], turns, held=bool(place % 2)))


def _person(place: int, name: str, sessions: list[dict[str, Any]]) -> Theme:
    """A person's sessions with an assistant; its questions are messages for whose answer earlier ones were needed."""
    turns: list[Turn] = []
    questions: list[Asked] = []
    seen: set[str] = set()
    for number, session in enumerate(sessions):
        name_of, said = session["session_uuid"], session["dialogue_turns"]
        began = datetime.fromisoformat(session["current_time"][:10]).replace(tzinfo=UTC) + timedelta(minutes=number)
        for second, turn in enumerate(said):
            role, at = turn["speaker"].lower(), began + timedelta(seconds=second)
            turns.append(Turn(name_of, f"session-{number}", role, turn["speaker"], turn["content"], at))
        for message, reply in itertools.pairwise(said):
            gold = {used["session_uuid"] for used in reply.get("memory_used") or ()} & seen
            if message.get("is_query") and gold:
                questions.append(
                    Asked(message["content"], message["category_name"], frozenset(gold), not place % 2, began)
                )
        seen.add(name_of)
    return Theme(REALMEM, name.casefold(), tuple(turns), tuple(questions))


def _daily(kind: str, place: int, said: dict[str, Any]) -> Theme:
    """What one person told an assistant over some days, each message by itself, and a question of two parts."""
    turns = tuple(
        Turn(str(each["mid"]), str(each["mid"]), "user", "user", each["message"], _daily_at(each["time"]))
        for each in said["message_list"]
    )
    questions = tuple(
        Asked(each["question"], kind, frozenset(map(str, each["target_step_id"])), bool(place % 2))
        for each in said["question_list"]
    )
    return Theme(MEMSIM, f"{kind}-{place}", turns, questions)


def _daily_at(written: str) -> datetime:
    return datetime.strptime(_MEMSIM_WEEKDAY.sub(" ", written), _MEMSIM_DATE).replace(tzinfo=UTC)


def _title_of(scene: dict[str, Any]) -> str:
    return str(scene["title"])


def _season(place: int, season: str, scenes: list[dict[str, Any]]) -> Theme:
    """The scenes of a season of a sitcom, each a session on a day of its own, and questions about single scenes."""
    turns: list[Turn] = []
    questions: list[Asked] = []
    for day, scene in enumerate(scenes):
        title, began = _title_of(scene), datetime(2001, 1, 3, 10, tzinfo=UTC) + timedelta(days=day)
        for part in scene["paragraphs"]:
            for said in part["utterances:"]:
                speaker, at = " and ".join(said["speakers"]), began + timedelta(seconds=said["uid"])
                text = _spoken(speaker, said["utterance"], None)
                turns.append(Turn(f"{title}:{said['uid']}", title, "user", speaker, text, at))
            for asked in part["qas"]:
                gold = frozenset(f"{title}:{answer['utterance_id']}" for answer in asked["answers"])
                questions.append(Asked(asked["question"], asked["id"].rpartition("_")[2], gold, bool(place % 2)))
    return Theme(FRIENDSQA, season, tuple(turns), tuple(questions))


def _asked(asked: list[dict[str, Any]], turns: tuple[Turn, ...], *, held: bool) -> tuple[Asked, ...]:
    known = {turn.name for turn in turns}
    questions = []
    for qa in asked:
        gold = {f"D{session}:{turn}" for part in qa["evidence"] for session, turn in _EVIDENCE.findall(part)} & known
        if gold:
            questions.append(Asked(qa["question"], CATEGORIES[int(qa["category"])], frozenset(gold), held))
    return tuple(questions)


def _said(conversation: dict[str, Any]) -> Iterator[Turn]:
    for number in range(1, 100):
        session = conversation.get(f"session_{number}")
        if not session:
            continue
        at = datetime.strptime(conversation[f"session_{number}_date_time"], _DATE).replace(tzinfo=UTC)
        for turn in session:
            text = _spoken(turn["speaker"], turn["text"], turn.get("blip_caption"))
            yield Turn(turn["dia_id"], f"session-{number}", "user", turn["speaker"], text, at)


def _spoken(speaker: str, text: str, caption: str | None) -> str:
    return f"{speaker}: {text}" + (f" [image: {caption}]" if caption else "")
