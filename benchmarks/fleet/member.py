"""One process of a fleet: turns at a pace through the host's hooks, an instance a turn that nobody shuts down.

JSON lines in and out, as in peers/driver.py: `begin`, then any number of `report`, then `end`. When its input
ends, or after `max_s`, it ends by itself.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import random
import sys
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

sys.path += [str(Path(__file__).resolve().parents[1] / folder) for folder in ("fleet", "scale", "peers")]
import figures
import population

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider

TURNS_A_SESSION = 10
ASK_EVERY, KEEP_EVERY = 10, 5  # turns to a tool call, and to a write of the built-in memory
MEMORIES = 8  # of a theme and process; from then on they are replaced and removed
FLUSH_S = 120.0

T = TypeVar("T")
Answer = dict[str, Any]


def words(number: int, turn: int, count: int) -> str:
    """Words that belong to this turn of this process, common ones and rare ones."""
    dice = random.Random(number * 1_000_003 + turn)
    return " ".join(dice.choices(population.VOCABULARY[:3000], k=count))


def texts(theme: str, number: int, turn: int) -> tuple[str, str]:
    """What the user says and what the assistant answers."""
    about = f"ticket {number}x{turn} of {theme}"
    said, answered = words(number, turn, 12), words(number, turn + 500_000, 25)
    return f"What is the status of {about}, the one about {said}?", f"As for {about}: {answered}; Robin looks after it."


class Member:
    """What one process does."""

    def __init__(self, given: Answer) -> None:
        self._given = given
        self._themes: list[str] = given["themes"]
        self._number: int = given["number"]
        self._dice = random.Random(self._number)
        self._last: PgvectorMemoryProvider | None = None
        self._took: dict[str, list[float]] = defaultdict(list)
        self._memories: dict[str, list[str]] = {theme: [] for theme in self._themes}
        self.turns = self._errors = self._shown = self._late = 0
        self.due = time.monotonic() + self._dice.random() * given["pace_s"]

    def turn(self) -> None:
        """Everything the host does for one message."""
        number, theme = self.turns, self._themes[self.turns % len(self._themes)]
        session = f"{theme}/{self._number}/{number // (len(self._themes) * TURNS_A_SESSION)}"
        user, assistant = texts(theme, self._number, number)
        made = PgvectorMemoryProvider(self._given["config"])
        about = {
            "hermes_home": self._given["home"],
            "platform": "api_server",
            "agent_context": "primary",
            "agent_identity": "default",
            "agent_workspace": "hermes",
            "gateway_session_key": theme,
        }
        made.get_tool_schemas()
        self._timed("initialize", lambda: made.initialize(session, **about))
        made.system_prompt_block()
        made.on_turn_start(1, user)
        self._shown += bool(self._timed("prefetch", lambda: made.prefetch(user, session_id="")))
        if number % ASK_EVERY == 3:
            question = {"query": words(self._number, self._dice.randrange(number + 1), 5), "limit": 10}
            answer = self._timed("recall tool", lambda: made.handle_tool_call("recall_conversation", question))
            self._errors += "error" in json.loads(answer)
        if number % KEEP_EVERY == 1:
            self._keep(made, theme, number)
        self._timed("sync_turn", lambda: made.sync_turn(user, assistant, session_id=session))
        made.queue_prefetch(user, session_id=session)
        self._last, self.turns = made, number + 1
        pace_s = self._given["pace_s"] * (0.5 + self._dice.random())
        self.due += pace_s
        if self.due < time.monotonic():
            self._late += 1
            self.due = time.monotonic() + pace_s

    def _keep(self, made: PgvectorMemoryProvider, theme: str, turn: int) -> None:
        """A write of the built-in memory: entries are added until there are some, then every kind of change comes."""
        entries = self._memories[theme]
        text = f"Fact {self._number}x{turn} of {theme}: {words(self._number, turn, 15)}."
        action = "add" if len(entries) < MEMORIES else self._dice.choice(("replace", "remove"))
        about = {} if action == "add" else {"old_text": entries.pop(0)}
        if action != "remove":
            entries.append(text)
        content = "" if action == "remove" else text
        self._timed("on_memory_write", lambda: made.on_memory_write(action, "memory", content, about))

    def _timed(self, name: str, call: Callable[[], T]) -> T:
        started = time.perf_counter_ns()
        result = call()
        self._took[name].append((time.perf_counter_ns() - started) / 1e6)
        return result

    def report(self) -> Answer:
        """What the calls took since the last report, and what this process holds now."""
        took, self._took = self._took, defaultdict(list)
        runtime = self._last.runtime if self._last else None
        return {
            "ms": took,
            "turns": self.turns,
            "late": self._late,
            "errors": self._errors,
            "shown": self._shown,
            "waiting": runtime.writer.depth() if runtime else 0,
            "spool_bytes": figures.on_disk(Path(self._given["home"]) / "pgvector" / "spool"),
            **figures.of_process(os.getpid()),
        }

    def end(self) -> Answer:
        """Bring what was accepted to Postgres; what should be there now."""
        runtime = self._last.runtime if self._last else None
        arrived = runtime is None or runtime.writer.flush(FLUSH_S)
        stats = runtime.stats() if runtime else {}
        return self.report() | {"arrived": arrived, "memories": self._memories, "stats": stats}


def main() -> None:
    """Work until told to end."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(message)s")
    requests: queue.SimpleQueue[Answer | None] = queue.SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            requests.put(json.loads(line))
        requests.put(None)

    threading.Thread(target=read, daemon=True).start()
    print(json.dumps({"ready": os.getpid()}), flush=True)
    member, over = None, time.monotonic() + 600
    while True:
        wait_s = over - time.monotonic() if member is None else member.due - time.monotonic()
        try:
            request = requests.get(timeout=max(0.0, wait_s))
        except queue.Empty:
            if time.monotonic() > over:
                return
            if member is not None:
                member.turn()
            continue
        if request is None:
            return
        if request["do"] == "begin":
            member, over = Member(request), time.monotonic() + request["max_s"]
            member.turn()  # loads what there is to load
            answer: Answer = member.report()
        else:
            assert member is not None
            answer = member.report() if request["do"] == "report" else member.end()
        print(json.dumps(answer), flush=True)
        if request["do"] == "end":
            return


if __name__ == "__main__":
    main()
