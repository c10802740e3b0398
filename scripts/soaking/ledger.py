"""What agents and clients were told is accepted, kept outside of them; and the comparison with Postgres in the end.

A write whose hook returned must be there; one that was under way when its process was killed may be there or not, and
so may what an agent had only in memory because its disk took nothing. A change of the memory page that was answered
with "that did not work" may be done all the same where the answer to its COMMIT was lost; and an older copy of the
server lacks what the page had changed since, which no spool file keeps.
"""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TextIO

from . import texts

HOOKS = frozenset({"turn", "repeat", "add", "replace", "remove"})
WRITES = HOOKS | {"remember", "forget", "edit", "undo"}
RECALLS = frozenset({
    "prefetch", "recall_memory", "recall_conversation", "memory_profile",
    "recall", "profile", "search", "list", "row", "agent view", "overview",
})  # fmt: skip
PAGE = "page"  # a door that changes Postgres itself, without a spool
_Key = tuple[str, int]  # theme and number


@dataclass
class Turn:
    """A turn that was reported. `sure`: its hook returned, and it does not depend on the process's life."""

    agent: str
    life: int
    session: str
    sure: bool


@dataclass
class Fact:
    """A memory: whether it may stand or be gone, after all that was done to it."""

    agent: str
    by_hook: bool
    possible: set[bool] = field(default_factory=set)


class Ledger:
    """Safe to use from several threads: one reads each agent."""

    def __init__(self, ignored: set[str]) -> None:
        """In the themes of `ignored` an operator deletes what he likes."""
        self.ignored = ignored
        self.lock = threading.Lock()
        self.turns: dict[_Key, Turn] = {}
        self.facts: dict[_Key, Fact] = {}
        self.accepted: Counter[str] = Counter()
        self.refused: Counter[str] = Counter()
        self.unclear: Counter[str] = Counter()
        self.took_ms: defaultdict[str, list[float]] = defaultdict(list)
        self.recalls: Counter[str] = Counter()
        self.errors: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.record: TextIO | None = None  # everything that happened, a line each, to find the cause of a violation
        # Of changes of which it is not known whether they were made: of the two memories one stands.
        self.either: list[tuple[_Key, _Key]] = []
        self._volatile: defaultdict[str, list[Callable[[bool], None]]] = defaultdict(list)
        self._before: dict[str, list[tuple[Fact, set[bool]]]] = {}  # each agent's call under way: what was known
        self._direct: list[tuple[float, _Key]] = []  # what the page changed, and when that was known

    def note(self, what: str, of: str, **said: object) -> None:
        """Write a line of the record, where there is one."""
        if self.record is not None:
            told = {"at": round(time.time(), 3), "what": what, "of": of, **said}
            self.record.write(json.dumps(told, ensure_ascii=False) + "\n")

    def accuse(self, what: str) -> None:
        """Note a violation."""
        self.wrong.append(what)
        self.note("accuse", what)

    def begin(self, agent: str, life: int, said: Mapping[str, Any]) -> None:
        """A hook is about to be called, or a server; `said` names the `door` that it is called through."""
        self.note("begin", agent, life=life, said=said)
        if said["do"] == "turn":
            self.turns[said["theme"], said["begin"]] = Turn(agent, life, said["session"], sure=False)
        by_hook = said["do"] in HOOKS and not said.get("door")
        before = self._before[agent] = []
        for key, stands in _changes(said):
            fact = self.facts.setdefault(key, Fact(agent, by_hook, {False}))
            before.append((fact, fact.possible))
            fact.possible = fact.possible | {stands}

    def end(self, agent: str, begun: Mapping[str, Any], said: Mapping[str, Any]) -> None:
        """The hook has returned, or the server has answered; `nothing`: with the word that nothing was changed."""
        key, what = (begun["theme"], begun["begin"]), labelled(begun)
        self.note("end", agent, begun=begun["begin"], said=said)
        self.took_ms[what].append(said["ms"])
        if said.get("strange"):
            self.accuse(f"{what} in theme {begun['theme']} told of {', '.join(said['strange'])}")
        if begun["do"] in RECALLS:
            self.recalls[f"{what}: {'failed' if said.get('error') else 'found' if said['found'] else 'nothing'}"] += 1
        if said.get("error"):
            self.errors[f"{what}: {_generic(said['error'])}"] += 1
        if begun["do"] not in WRITES:
            return
        if said["refused"] or said.get("error"):
            self.refused[what] += 1
            self._not_accepted(agent, begun, nothing=bool(said.get("nothing")))
            return
        self.accepted[what] += 1
        if said["durable"]:
            self.safe(agent)  # first what came before
        if begun.get("door") == PAGE:
            self._direct += [(time.monotonic(), changed) for changed, _ in _changes(begun)]
        for confirm in self._confirmations(begun, key):
            # What is only in memory is as sure as its process, until the queue in memory is empty again.
            if said["durable"] or begun["do"] == "forget":
                confirm(True)
            else:
                self._volatile[agent].append(confirm)

    def _not_accepted(self, agent: str, begun: Mapping[str, Any], *, nothing: bool) -> None:
        if nothing:
            for fact, possible in self._before[agent]:
                fact.possible = possible
        elif begun["do"] == "edit":
            self.either.append(((begun["theme"], begun["gone"]), (begun["theme"], begun["begin"])))

    def set_back(self, since: float) -> None:
        """An older copy took the server's place, which was made at `since` (monotonic seconds)."""
        for _, key in (changed for changed in self._direct if changed[0] >= since):
            self.facts[key].possible = {True, False}
        # An operator who deletes a theme has its writes dropped from what the agents keep, removals among them.
        for key, fact in self.facts.items():
            if key[0] in self.ignored:
                fact.possible = {True, False}
        self.either.clear()

    def _confirmations(self, begun: Mapping[str, Any], key: _Key) -> Iterable[Callable[[bool], None]]:
        if begun["do"] in ("turn", "repeat"):
            yield lambda sure: self._confirm_turn(key, sure)
        for changed, stands in _changes(begun):
            yield lambda sure, changed=changed, stands=stands: self._confirm_fact(changed, stands, sure)  # type: ignore[misc]

    def _confirm_turn(self, key: _Key, sure: bool) -> None:
        if sure:
            self.turns[key].sure = True

    def _confirm_fact(self, key: _Key, stands: bool, sure: bool) -> None:
        if sure:
            self.facts[key].possible = {stands}

    def safe(self, agent: str) -> None:
        """All that the agent accepted is on disk or in Postgres."""
        for confirm in self._volatile.pop(agent, []):
            confirm(True)

    def died(self, agent: str, under_way: Mapping[str, Any] | None) -> None:
        """The process is gone, whatever it was doing; what it had only in memory may be lost."""
        self.note("died", agent, under_way=under_way)
        if under_way is not None and under_way["do"] in WRITES:
            self.unclear["in flight at a kill"] += 1
            self._not_accepted(agent, under_way, nothing=False)
        self.unclear["only in memory at a kill"] += len(self._volatile.pop(agent, []))

    def standing(self, agent: str) -> dict[str, list[int]]:
        """The facts that an agent's next life may change, by theme: their state is known."""
        found: defaultdict[str, list[int]] = defaultdict(list)
        for (theme, number), fact in self.facts.items():
            if fact.agent == agent and fact.by_hook and fact.possible == {True}:
                found[theme].append(number)
        return found

    def sure_turns(self) -> set[_Key]:
        """The turns that must be there by now, or soon."""
        return {key for key, turn in self.turns.items() if turn.sure}


def _changes(said: Mapping[str, Any]) -> Iterable[tuple[_Key, bool]]:
    """Which facts a write makes stand, or not."""
    if "gone" in said:
        yield (said["theme"], said["gone"]), False
    if "stands" in said:
        yield (said["theme"], said["stands"]), True
    elif said["do"] in ("add", "replace", "remember", "edit"):
        yield (said["theme"], said["begin"]), True


def labelled(said: Mapping[str, Any]) -> str:
    """What was called, with the door that it was called through, as "page edit"."""
    return f"{said['door']} {said['do']}" if said.get("door") else str(said["do"])


def _generic(error: str) -> str:
    """An error without what differs between two of a kind."""
    return "".join("#" if char.isdigit() else char for char in error)[:110]


Rows = Sequence[tuple[Any, ...]]


@dataclass
class Verdict:
    """What a comparison found."""

    lost: list[str] = field(default_factory=list)
    twice: list[str] = field(default_factory=list)
    misplaced: list[str] = field(default_factory=list)
    disordered: list[str] = field(default_factory=list)
    wrong_memories: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """How many of each."""
        return {name: len(found) for name, found in vars(self).items()}


def compare(ledger: Ledger, turns: Rows, memories: Rows, *, alone: set[str]) -> Verdict:
    """What was accepted beside what is stored.

    `turns`: theme, session, role, content in the order of the rows; `memories`: theme, content. `alone`: the agents
    that have a home of their own, for which order holds across their deaths; for others only within a life.
    """
    verdict = Verdict()
    said: dict[str, dict[_Key, list[tuple[str, str, str]]]] = {"user": {}, "assistant": {}}
    order: defaultdict[tuple[str, str, int], list[int]] = defaultdict(list)
    for theme, session, role, content in turns:
        key = texts.tags_in(content)[0]
        said[role].setdefault(key, []).append((theme, session, content))
        if role == "user" and (turn := ledger.turns.get(key)) is not None:
            order[theme, turn.agent, 0 if turn.agent in alone else turn.life].append(key[1])
    for key in [*said["user"], *said["assistant"]]:
        if key not in ledger.turns:
            verdict.misplaced.append(f"{key}: stored, never reported")
    for key, turn in ledger.turns.items():
        for role, wanted in zip(("user", "assistant"), texts.turn(*key), strict=True):
            found = said[role].get(key, [])
            if not found and turn.sure and key[0] not in ledger.ignored:
                verdict.lost.append(f"{key}: what the {role} said")
            if len(found) > 1:
                verdict.twice.append(f"{key}: what the {role} said, {len(found)} times")
            if any(place != (key[0], turn.session, wanted) for place in found):
                verdict.misplaced.append(f"{key}: {[(place[0], place[1], place[2][:60]) for place in found]}")
    for (theme, agent, life), numbers in order.items():
        for before, after in itertools.pairwise(numbers):
            if before > after:
                verdict.disordered.append(f"{theme}: {after} after {before} ({agent}, life {life or 'any'})")
    _compare_memories(ledger, memories, verdict)
    return verdict


def _compare_memories(ledger: Ledger, memories: Rows, verdict: Verdict) -> None:
    stored = Counter((theme, content) for theme, content in memories)
    for (theme, content), count in stored.items():
        key = texts.tags_in(content)[0]
        if count > 1:
            verdict.twice.append(f"memory {key}, {count} times")
        if key not in ledger.facts or key[0] != theme or content != texts.fact(*key):
            verdict.wrong_memories.append(f"{key}: in theme {theme}: {content[:60]}")
    for key, fact in ledger.facts.items():
        stands = (key[0], texts.fact(*key)) in stored
        if stands not in fact.possible and not (key[0] in ledger.ignored and not stands):
            verdict.wrong_memories.append(f"{key}: {'stands, was removed' if stands else 'is lost'}")
    for gone, came in ledger.either:
        standing = [key for key in (gone, came) if (key[0], texts.fact(*key)) in stored]
        if len(standing) != 1:
            verdict.wrong_memories.append(f"{gone} was to become {came}: {standing or 'neither'} stands")
