"""Converts public data sets into the form that the benchmarks read (see corpora.py), one file for each.

    python conversions.py NAME CHECKOUT > DIR/NAME.json

NAME is one of `structmem`, `vehicle`, `prefeval`, `prefeval_talk` and `qmsum`; CHECKOUT is the folder of the repository
that docs/recall-quality.md names for it. Where a source has no dates, they are invented: a day for each session.
"""

from __future__ import annotations

import argparse
import itertools
import json
import random
import re
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
import common

Made = dict[str, Any]
_LARGEST = ("art_data_350", "boardgames_data_350", "books_data", "movies_data_350", "music_data_350", "series_data_350")
_BEGAN = datetime(2024, 3, 1, 18)
_MAX_GOLD = 10  # more do not fit into what is looked at
_MOST_CHARS = 1000
_CARS, _CAR_TURNS = 12, 650  # histories, and turns of each: the sessions that answer, and others by chance
_PAUSE = timedelta(minutes=30)  # a longer one ends a session
_STAMPED = re.compile(r"\[(\d{4}-\d\d-\d\d \d\d:\d\d)\] (.*)")
_TOLD = re.compile(r"\[(\w+ \d+, \d{4})\] (?:At )?(\d+:\d+ [AP]M)")
_PEOPLE, _OF_TOPIC = 5, 3  # themes, and preferences of each topic in one
_SERIES = re.compile(r"ES\d{4}|IS\d{4}|TS\d{4}|B[a-z]{2}|covid|education")
_MEETINGS, _MEETING_TURNS, _FEWEST_WORDS = 4, 6000, 4
_SPOKEN = (("user", "query"), ("assistant", "assistant_options"), ("user", "user_selection"))
_CHOICE = (*_SPOKEN, ("assistant", "assistant_acknowledgment"))


def structmem(checkout: Path) -> Iterator[Made]:
    """What somebody told an assistant about books, films and games; each answer takes several of these facts."""
    folder = checkout / "benchmark/recommendations/data"
    for name in (*_LARGEST, "sports_data"):
        body = json.loads((folder / f"{name}.json").read_bytes())
        turns, facts = [], defaultdict[str, set[str]](set)
        for day, session in enumerate(body["sessions"]):
            quote = (session.get("fact_quote") or "").strip(". ")[:60]
            for place, said in enumerate(session["messages"]):
                at = _BEGAN + timedelta(days=day, minutes=place)
                turns.append(_turn(f"{day}:{place}", f"s{day}", said["role"], said["content"], at))
                if quote and quote in said["content"]:
                    facts[session["fact_id"]].add(f"{day}:{place}")
        questions = []
        for each in body["queries"]:
            gold = set[str]().union(*(facts[fact] for fact in each["reference_answer"].get("required_facts", ())))
            if 0 < len(gold) <= _MAX_GOLD:
                questions.append(_question(each["question"], "recommendation", gold))
        yield {"theme": name.split("_")[0], "turns": turns, "questions": questions}


def vehicle(checkout: Path) -> Iterator[Made]:
    """People talk with each other for weeks, in passing of how they want their car; sessions answer."""
    generator = random.Random(common.SEED)
    for number in range(1, _CARS + 1):
        lines = (checkout / f"benchmark/history/history_{number}.txt").read_text(encoding="utf-8").splitlines()
        said = [(datetime.fromisoformat(m[1]), m[2][:_MOST_CHARS]) for m in map(_STAMPED.match, lines) if m]
        sessions = list(_sessions(said))
        of_minute: dict[datetime, int] = {}
        for place, session in enumerate(sessions):
            for at, _ in session:
                of_minute.setdefault(at, place)
        body = json.loads((checkout / f"benchmark/qa_data/qa_{number}.json").read_bytes())
        questions, answering = [], set[int]()
        for each in body["related_to_vehicle_preference"]:
            told = (
                datetime.strptime(" ".join(when), "%B %d, %Y %I:%M %p") for when in _TOLD.findall(each["gold_memory"])
            )
            gold = {of_minute[at] for at in told if at in of_minute}
            answering |= gold
            names = {f"s{place}" for place in gold}
            questions.append(_question(each["query"], each["reasoning_type"], names, level="session"))
        kept = sorted(_with_others(sessions, answering, generator))
        turns = [
            _turn(f"{place}:{second}", f"s{place}", "user", text, at + timedelta(seconds=second))
            for place in kept
            for second, (at, text) in enumerate(sessions[place])
        ]
        yield {"theme": f"car-{number}", "turns": turns, "questions": [each for each in questions if each["gold"]]}


def _sessions(said: Sequence[tuple[datetime, str]]) -> Iterator[list[tuple[datetime, str]]]:
    current: list[tuple[datetime, str]] = []
    for at, text in said:
        if current and not timedelta() <= at - current[-1][0] <= _PAUSE:
            yield current
            current = []
        current.append((at, text))
    yield current


def _with_others(sessions: Sequence[Sequence[Any]], answering: set[int], generator: random.Random) -> set[int]:
    """Return the sessions that answer and, up to the number of turns wanted, others."""
    others = [place for place in range(len(sessions)) if place not in answering]
    generator.shuffle(others)
    kept = set(answering)
    for place in others:
        if sum(len(sessions[each]) for each in kept) >= _CAR_TURNS:
            break
        kept.add(place)
    return kept


def prefeval(checkout: Path) -> Iterator[Made]:
    """Preferences as memories, and requests that they matter to without being named."""
    for person, topic, number, each, at in _preferences(checkout / "benchmark_dataset/explicit_preference"):
        name = f"{topic}:{number}"
        turn = _turn(name, f"{topic}-{number}", "memory", each["preference"], at)
        yield {
            "theme": f"prefeval-{person}",
            "turns": [turn],
            "questions": [_question(each["question"], topic, {name})],
        }


def prefeval_talk(checkout: Path) -> Iterator[Made]:
    """The same preferences as they show when somebody chooses among what an assistant offers; sessions answer."""
    for person, topic, number, each, at in _preferences(
        checkout / "benchmark_dataset/implicit_preference/choice-based"
    ):
        name, said = f"{topic}-{number}", each["conversation"]
        turns = [
            _turn(f"{topic}:{number}:{place}", name, role, said[part][:2000], at + timedelta(minutes=place))
            for place, (role, part) in enumerate(_CHOICE)
            if said.get(part)
        ]
        questions = [_question(each["question"], topic, {name}, level="session")]
        yield {"theme": f"prefeval-talk-{person}", "turns": turns, "questions": questions}


def _preferences(folder: Path) -> Iterator[tuple[int, str, int, Made, datetime]]:
    """Yield what each person prefers, a few of every topic, each on a day of its own."""
    topics = {path.stem: json.loads(path.read_bytes()) for path in sorted(folder.glob("*.json"))}
    for person in range(_PEOPLE):
        chosen = [
            (topic, number, body[number])
            for topic, body in topics.items()
            for number in range(person * _OF_TOPIC, (person + 1) * _OF_TOPIC)
            if number < len(body)
        ]
        for day, (topic, number, each) in enumerate(chosen):
            yield person, topic, number, each, _BEGAN + timedelta(days=day)


def qmsum(checkout: Path) -> Iterator[Made]:
    """Meetings of several people, written down as they spoke; a few turns in a row answer."""
    files = {path.stem: path for path in sorted((checkout / "data/ALL").rglob("*.json"))}
    series = defaultdict[str, list[str]](list)
    for meeting in sorted(files):
        found = _SERIES.match(meeting)
        series[found[0] if found else meeting].append(meeting)
    made = [_meetings(name.lower(), {each: files[each] for each in some[:_MEETINGS]}) for name, some in series.items()]
    made.sort(key=lambda theme: (-len(theme["questions"]) / max(1, len(theme["turns"])), theme["theme"]))
    room = _MEETING_TURNS
    for theme in made:
        if theme["questions"] and len(theme["turns"]) <= room:
            room -= len(theme["turns"])
            yield theme


def _meetings(name: str, files: dict[str, Path]) -> Made:
    turns, questions = [], []
    for week, (meeting, path) in enumerate(files.items()):
        body, began = json.loads(path.read_bytes()), datetime(2024, 3, 4, 10) + timedelta(weeks=week)
        kept = {}
        for place, said in enumerate(body["meeting_transcripts"]):
            text = _as_read(said["content"])
            if len(re.findall(r"\w+", text)) >= _FEWEST_WORDS:
                kept[place] = f"{meeting}:{place}"
                spoken, at = f"{said['speaker']}: {text[:_MOST_CHARS]}", began + timedelta(seconds=5 * place)
                turns.append(_turn(kept[place], meeting, "user", spoken, at))
        for each in body["specific_query_list"]:
            spans = (range(int(first), int(last) + 1) for first, last in each["relevant_text_span"])
            gold = {kept[place] for place in itertools.chain(*spans) if place in kept}
            if 0 < len(gold) <= _MAX_GOLD:
                questions.append(_question(each["query"], "specific", gold))
    return {"theme": name, "turns": turns, "questions": questions}


def _as_read(text: str) -> str:
    """Return what was said without marks of noises, and without blanks before punctuation."""
    text = re.sub(r"\{\w+\}", "", text)
    text = re.sub(r"\s+([.,?!'])", r"\1", text)
    return " ".join(re.sub(r"\s+n't", "n't", text).split())


def _turn(name: str, session: str, role: str, text: str, at: datetime) -> Made:
    return {"id": name, "session": session, "role": role, "speaker": role, "text": text, "at": at.isoformat()}


def _question(text: str, category: str, gold: Iterable[str], *, level: str = "turn") -> Made:
    return {"text": text, "category": category, "gold": sorted(gold), "gold_level": level}


CONVERSIONS: dict[str, Callable[[Path], Iterator[Made]]] = {
    each.__name__: each for each in (structmem, vehicle, prefeval, prefeval_talk, qmsum)
}


def main() -> None:
    """Convert one."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("name", choices=list(CONVERSIONS), metavar="NAME", help=", ".join(CONVERSIONS))
    options.add_argument("checkout", type=Path, metavar="CHECKOUT")
    args = options.parse_args()
    themes: dict[str, Made] = {}
    for part in CONVERSIONS[args.name](args.checkout):
        theme = themes.setdefault(part["theme"], {"theme": part["theme"], "turns": [], "questions": []})
        theme["turns"] += part["turns"]
        theme["questions"] += part["questions"]
    json.dump({"name": args.name, "themes": list(themes.values())}, sys.stdout, ensure_ascii=False)


if __name__ == "__main__":
    main()
