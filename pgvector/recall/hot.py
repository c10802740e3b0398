"""The hot block: the facts that hold in a theme, in a few terse lines for the system prompt. Recall finds the rest."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import Final, NamedTuple

from ..config.settings import Settings
from ..domain.chunks import estimate_tokens
from ..domain.errors import HermesPgvectorError
from ..domain.fork_safety import fork_lock
from ..domain.lru import LruDict
from ..domain.patterns import late_pattern
from ..domain.theme import SessionThemes
from ..store.pipeline import Pipeline, Rows
from .render import quoted

HEADING: Final = "Current notes, as stored (C constraint, D decision, V value, ? open):"
LETTERS: Final = {"constraint": "C", "question": "?", "decision": "D", "value": "V"}  # in the order of the lines
MERGE_FROM, COOLED_LEAVE_FROM, GO_COLD_FROM = 0.70, 0.85, 0.95  # shares of the budget
TEXT_MAX_CHARS = 160
_FACTS_MOST = 200  # facts read of a theme: more than fit into the largest block
_SESSIONS_MOST = 2000  # sessions of a process whose blocks are cached
_NAME_MAX_CHARS = 60  # of a subject or a scope
_NOTATION = late_pattern(r"\A\s*[CDV?~]\[[^\[\]\n]*\]\s*:\s*")  # how a fact written in the block's notation begins
_BRACKETS = str.maketrans("[]", "()")


class HotLimits(NamedTuple):
    """The size of the block, and after how many days or turns of silence a scope has cooled."""

    tokens: int
    scope_days: float
    scope_turns: int

    @classmethod
    def of(cls, settings: Settings) -> HotLimits:
        """Return the limits of these settings."""
        return cls(settings.hot_tokens, settings.hot_scope_days, settings.hot_scope_turns)


@dataclass(frozen=True)
class HotFact:
    """A memory that belongs in the block, see hot_facts; `scope_at` is when its scope was last written to."""

    id: int
    content: str
    said_at: datetime
    kind: str = ""
    subject: str = ""
    scope: str = ""
    pinned: bool = False
    scope_at: datetime | None = None

    @cached_property
    def letter(self) -> str:
        """Return the letter of its kind in the notation, or "" if the kind has none."""
        return LETTERS.get(self.kind, "")

    @cached_property
    def text(self) -> str:
        """Return the content on one short line, without a notation prefix if the block adds one of its own."""
        return quoted(_NOTATION.sub("", self.content) if self.letter else self.content, max_chars=TEXT_MAX_CHARS)

    @cached_property
    def name(self) -> str:
        """Return the subject, with the scope if there is one: `auth @checkout`."""
        subject, scope = (
            quoted(name, max_chars=_NAME_MAX_CHARS).translate(_BRACKETS) for name in (self.subject, self.scope)
        )
        return f"{subject} @{scope}".strip() if scope else subject

    @cached_property
    def place(self) -> tuple[object, ...]:
        """Return the key by which facts are sorted in the block."""
        kinds = list(LETTERS)
        rank = kinds.index(self.kind) if self.kind in LETTERS else len(kinds)
        return rank, self.scope.casefold(), self.subject.casefold(), self.text, self.id


# The newest turns of a theme: the time of each, and the scopes that it names (casefolded).
Turns = Sequence[tuple[datetime, frozenset[str]]]


class HotBlock(NamedTuple):
    """The block and how it was made.

    `pressure` is the size of all candidate facts as a share of the budget, and `merged` the number of lines saved by
    merging. The facts `cooled` were dropped because their scopes have cooled, the facts `cold` as the oldest ones.
    """

    lines: tuple[str, ...] = ()
    tokens: int = 0
    pressure: float = 0.0
    merged: int = 0
    cooled: tuple[int, ...] = ()
    cold: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """Return the block as text, or "" if it has no lines."""
        return "\n".join((HEADING, *self.lines)) if self.lines else ""


class _Lines:
    """The lines made from some facts, and their size; facts can be dropped."""

    def __init__(self, facts: Iterable[HotFact], *, merged: bool) -> None:
        self._merged = merged
        self._facts: dict[object, list[HotFact]] = {}
        for fact in facts:
            self._facts.setdefault(self._key(fact), []).append(fact)
        self._sizes = {key: _size(_line(group)) for key, group in self._facts.items()}

    def __len__(self) -> int:
        return len(self._facts)

    def facts(self) -> list[HotFact]:
        return [fact for group in self._facts.values() for fact in group]

    def tokens(self) -> int:
        return sum(self._sizes.values()) + _size(HEADING) if self._sizes else 0

    def drop(self, fact: HotFact) -> None:
        key = self._key(fact)
        self._facts[key].remove(fact)
        if self._facts[key]:
            self._sizes[key] = _size(_line(self._facts[key]))
        else:
            del self._facts[key], self._sizes[key]

    def rendered(self) -> tuple[str, ...]:
        return tuple(map(_line, self._facts.values()))

    def _key(self, fact: HotFact) -> object:
        if self._merged and fact.letter and fact.subject:
            return fact.subject.casefold(), fact.scope.casefold()
        return fact.id


def hot_block(facts: Iterable[HotFact], turns: Turns, now: datetime, limits: HotLimits) -> HotBlock:
    """Return the block made from these facts, whatever their order; never larger than `limits.tokens`.

    The fuller it would be, the more is done: first lines of the same subject and scope are merged, then facts of cooled
    scopes are dropped, then the oldest facts: constraints after all others, and pinned facts after unpinned ones.
    """
    hot = _candidates(facts)
    lines = _Lines(hot, merged=False)
    pressure = _share(lines, limits)
    saved = 0
    if pressure >= MERGE_FROM:
        lines = _Lines(hot, merged=True)
        saved = len(hot) - len(lines)
    cooled = _leave_with_scopes(lines, turns, now, limits) if _share(lines, limits) >= COOLED_LEAVE_FROM else []
    cold = _go_cold(lines, limits)
    return HotBlock(
        lines.rendered(), lines.tokens(), pressure, saved, tuple(fact.id for fact in cooled), tuple(f.id for f in cold)
    )


def _candidates(facts: Iterable[HotFact]) -> list[HotFact]:
    """Return the facts in the order of the block; of those that make the same line, only the newest."""
    by_age = sorted(facts, key=lambda each: (each.said_at, each.id))
    alike = {_line([fact]): fact for fact in by_age if fact.text}
    return sorted(alike.values(), key=lambda fact: fact.place)


def _leave_with_scopes(lines: _Lines, turns: Turns, now: datetime, limits: HotLimits) -> list[HotFact]:
    """Drop the facts whose scopes have cooled, except pinned ones, and return them."""
    facts = lines.facts()
    cool = cooled_scopes(facts, turns, now, limits)
    leaving = [fact for fact in facts if fact.scope.casefold() in cool and not fact.pinned]
    for fact in leaving:
        lines.drop(fact)
    return leaving


def cooled_scopes(facts: Iterable[HotFact], turns: Turns, now: datetime, limits: HotLimits) -> set[str]:
    """Return the scopes (casefolded) neither written to nor mentioned within the limits' days, or their turns."""
    times = sorted(at for at, _ in turns)
    oldest = now - timedelta(days=limits.scope_days)
    last = _last_mentions(facts, turns).items()
    return {scope for scope, at in last if at < oldest or len(times) - bisect_right(times, at) >= limits.scope_turns}


def _last_mentions(facts: Iterable[HotFact], turns: Turns) -> dict[str, datetime]:
    """Return when each scope of the facts was last written to or mentioned."""
    written = [(fact.scope_at or fact.said_at, fact.scope.casefold()) for fact in facts if fact.scope]
    last: dict[str, datetime] = {}
    for at, scope in written:
        last[scope] = max(at, last.get(scope, at))
    for at, named in turns:
        last |= {scope: max(at, last[scope]) for scope in named if scope in last}
    return last


def _go_cold(lines: _Lines, limits: HotLimits) -> list[HotFact]:
    """Drop facts until there is room to spare, constraints last and only until they fit; return the dropped ones."""
    cold = []
    for fact in sorted(lines.facts(), key=lambda each: (each.letter == "C", each.pinned, each.said_at, each.id)):
        if _share(lines, limits) < GO_COLD_FROM or (fact.letter == "C" and lines.tokens() <= limits.tokens):
            break
        lines.drop(fact)
        cold.append(fact)
    return cold


def _share(lines: _Lines, limits: HotLimits) -> float:
    return lines.tokens() / max(1, limits.tokens)


def _size(line: str) -> int:
    return estimate_tokens(f"{line}\n")


def _line(facts: Sequence[HotFact]) -> str:
    """Return the line of one fact, or of several of one subject and scope: `C[auth]: ...; D: ...`."""
    first = facts[0]
    if not first.letter:
        return f"- {first.text}"
    said = {first.letter: [first.text]}
    for fact in facts[1:]:
        texts = said.setdefault(fact.letter, [])
        if fact.text not in texts:
            texts.append(fact.text)
    begin, *others = (f"{letter}: {'; '.join(texts)}" for letter, texts in said.items())
    return "; ".join((begin.replace(":", f"[{first.name}]:", 1), *others))


def ask_facts(pipe: Pipeline, theme: str) -> Rows:
    """Ask for the memories from which `read_hot` makes the block of a theme."""
    return pipe.ask("hot_facts", {"theme": theme, "limit": _FACTS_MOST})


def read_hot(pipe: Pipeline, asked: Rows, turns: str, language: str, limits: HotLimits) -> HotBlock:
    """Return the block made from the facts that were `asked` for.

    If it is nearly full, the scopes that the newest turns of the theme `turns`, in `language`, mention are read, too.
    """
    now = datetime.now(UTC)
    facts = [HotFact(*row) for row in asked]
    block = hot_block(facts, (), now, limits)
    scopes = sorted({fact.scope.casefold() for fact in facts if fact.scope})
    if block.pressure < COOLED_LEAVE_FROM or not scopes:
        return block
    row = {"theme": turns, "scopes": scopes, "language": language, "limit": limits.scope_turns}
    talk = [(turn.at, frozenset(turn.named)) for turn in pipe.ask("turns_naming", row)]
    return hot_block(facts, talk, now, limits)


class HotBlocks:
    """Caches the blocks of a process's sessions, each read once: a changed prompt would cost the host its prompt cache.

    `read` returns the block of two themes, see `read_hot`.
    """

    def __init__(self, read: Callable[[str, str], HotBlock], counts: Counter[str]) -> None:
        self._read = read
        self._counts = counts
        self._lock = fork_lock()
        self._known: LruDict[tuple[str, str, str], str] = LruDict(_SESSIONS_MOST)

    def of_session(self, place: SessionThemes, session_id: str) -> str:
        """Return the block with which the session began, or "" if it is empty or could not be read in time."""
        memories, turns = place.memories.name, place.turns.name
        session = memories, turns, session_id
        with self._lock:
            known = self._known.use(session)
        if known is not None:
            return known
        try:
            text = self._read(memories, turns).text
        except HermesPgvectorError:
            self._counts["hot_block_failures"] += 1  # the store has logged once why
            text = ""
        with self._lock:
            return self._known.setdefault(session, text)
