"""One agent process of a soak: calls the hooks as the host does, and tells on standard output what it does.

`{"begin": n, ...}` stands there before a hook is called, `{"end": n, ...}` when it has returned, so a kill between the
two can be told from one after both. Ends when its standard input does.
"""

from __future__ import annotations

import faulthandler
import json
import logging
import os
import random
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[1:3]]
from soaking import texts

from hermes_memory_pgvector.host import guard
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import Runtime

_TOLD_EVERY_S = 1.0
_ACTIONS: dict[str, float] = {
    "turn": 10, "repeat": 0.3, "switch": 0.5, "add": 2, "replace": 1, "remove": 1, "remember": 0.6, "forget": 0.3,
    "prefetch": 1.5, "recall": 0.6, "profile": 0.1, "reopen": 0.3,
}  # fmt: skip


def tell(**said: object) -> None:
    """One line to the driver; it is in the pipe when this returns."""
    os.write(1, json.dumps(said, separators=(",", ":")).encode() + b"\n")


class _Telling(logging.Handler):
    """Passes our warnings on to the driver: while the disk is full, a log file would take none."""

    def emit(self, record: logging.LogRecord) -> None:
        tell(log=record.levelname, said=record.getMessage()[:500])


class Agent:
    """Plays one life of an agent. `plan` is what the driver decides: see `driver.py`."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self._plan = plan
        self._random = random.Random(f"{plan['seed']} {plan['name']} {plan['life']}")
        self._number: int = plan["number"]
        # What may be replaced or removed, of earlier lives as well, by theme; and what a tool stored, with its id.
        self._facts: dict[str, list[int]] = {theme: list(numbers) for theme, numbers in plan["facts"].items()}
        self._remembered: list[tuple[str, int, int]] = []
        self._last: dict[str, tuple[str, int]] = {}
        self._providers: dict[str, PgvectorMemoryProvider] = {}
        self._sessions: dict[str, str] = {}
        for theme in plan["themes"]:
            self._open(theme)

    def _open(self, theme: str) -> None:
        provider = PgvectorMemoryProvider(self._plan["config"])
        self._sessions[theme] = self._session()
        provider.initialize(
            self._sessions[theme],
            hermes_home=self._plan["home"],
            platform="api_server",
            gateway_session_key=theme,
        )
        assert provider.runtime is not None, "the provider could not start"
        self._providers[theme] = provider

    def _session(self) -> str:
        return f"{self._plan['name']}-{self._plan['life']}-{self._random.getrandbits(32):08x}"

    def _runtime_of(self, theme: str) -> Runtime:
        runtime = self._providers[theme].runtime
        assert runtime is not None, "the provider was shut down"
        return runtime

    def run(self) -> None:
        """Act until the driver says "pause", or not at all, as the plan says; then stand by until it says "quit".

        At "numbers" the numbers of rows are forgotten: an older copy of the server gives them to others.
        """
        names, weights = list(_ACTIONS), list(_ACTIONS.values())
        paused, told = self._plan["waits"], 0.0
        while True:
            wait_s = 0.2 if paused else self._random.expovariate(self._plan["per_s"])
            if select.select([0], [], [], wait_s)[0]:
                for order in os.read(0, 100).decode().split() or ["quit"]:
                    if order == "quit":
                        return
                    if order == "numbers":
                        self._remembered.clear()
                    else:
                        paused = order == "pause"
            if not paused:
                getattr(self, f"_{self._random.choices(names, weights)[0]}")()
            if time.monotonic() - told >= _TOLD_EVERY_S:
                told = time.monotonic()
                writer = self._runtime_of(self._plan["themes"][0]).writer
                tell(depth=writer.depth(), durable=not writer.in_memory(), paused=paused, failed=dict(guard.failures))

    def close(self) -> None:
        """Shut every session down, as the host does at its end."""
        for provider in self._providers.values():
            provider.shutdown()

    # -- what an agent does

    def _do(self, what: str, theme: str, number: int, call: Callable[[], Any], **more: object) -> Any:
        """Call a hook, told before and after."""
        runtime = self._runtime_of(theme)
        refused = runtime.counts["refused"]
        tell(begin=number, do=what, theme=theme, **more)
        started = time.perf_counter()
        answer = call()
        took_ms = 1000 * (time.perf_counter() - started)
        tell(
            end=number,
            ms=round(took_ms, 3),
            refused=runtime.counts["refused"] - refused,
            durable=not runtime.writer.in_memory(),
            **self._outcome(what, theme, answer),
        )
        return answer

    @staticmethod
    def _outcome(what: str, theme: str, answer: Any) -> dict[str, object]:
        if not isinstance(answer, str):
            return {}
        strange = sorted({found for found, _ in texts.tags_in(answer) if found != theme})
        if what == "prefetch":
            return {"found": bool(answer), "strange": strange}
        decoded = json.loads(answer)
        return {"error": str(decoded.get("error", ""))[:300], "found": bool(decoded.get("results")), "strange": strange}

    def _next(self) -> int:
        self._number += 1
        return self._number

    def _theme(self) -> str:
        return self._random.choice(self._plan["themes"])

    def _turn(self) -> None:
        theme, number = self._theme(), self._next()
        self._last[theme] = (self._sessions[theme], number)
        self._say("turn", theme, number)

    def _say(self, what: str, theme: str, number: int) -> None:
        provider, (user, assistant) = self._providers[theme], texts.turn(theme, number)
        session = self._last[theme][0]
        self._do(what, theme, number, lambda: provider.sync_turn(user, assistant, session_id=session), session=session)

    def _repeat(self) -> None:
        """The host reports a turn again, after a reconnect."""
        if self._last:
            theme = self._random.choice(sorted(self._last))
            self._say("repeat", theme, self._last[theme][1])

    def _switch(self) -> None:
        theme, session = self._theme(), self._session()
        provider = self._providers[theme]
        self._do("switch", theme, self._next(), lambda: provider.on_session_switch(session, reset=True))
        self._sessions[theme] = session

    def _add(self) -> None:
        theme, number = self._theme(), self._next()
        self._write("add", theme, number, texts.fact(theme, number), {})
        self._facts.setdefault(theme, []).append(number)

    def _replace(self) -> None:
        if old := self._some_fact():
            theme, gone = old
            number = self._next()
            self._write("replace", theme, number, texts.fact(theme, number), self._named(theme, gone), gone=gone)
            self._facts[theme].append(number)

    def _remove(self) -> None:
        if old := self._some_fact():
            theme, gone = old
            self._write("remove", theme, self._next(), "", self._named(theme, gone), gone=gone)

    def _some_fact(self) -> tuple[str, int] | None:
        """A fact that stands, taken off our list."""
        theme = self._theme()
        facts = self._facts.get(theme, [])
        return (theme, facts.pop(self._random.randrange(len(facts)))) if facts else None

    def _named(self, theme: str, number: int) -> dict[str, str]:
        """The whole text, or a part of it that names it."""
        text = texts.fact(theme, number)
        return {"old_text": text if self._random.random() < 0.5 else text[: text.index(" says")]}

    def _write(self, what: str, theme: str, number: int, text: str, named: dict[str, str], **more: object) -> None:
        provider = self._providers[theme]
        self._do(what, theme, number, lambda: provider.on_memory_write(what, "memory", text, named), **more)

    def _remember(self) -> None:
        theme, number = self._theme(), self._next()
        arguments = {"content": texts.fact(theme, number), "sync": self._random.random() < 0.4}
        answer = json.loads(self._tool("remember", theme, number, arguments))
        if answer.get("id"):
            self._remembered.append((theme, number, answer["id"]))

    def _forget(self) -> None:
        if self._remembered:
            theme, gone, row = self._remembered.pop(0)
            self._tool("forget", theme, self._next(), {"ids": [row]}, gone=gone)

    def _tool(self, tool: str, theme: str, number: int, arguments: dict[str, Any], **more: object) -> str:
        provider = self._providers[theme]
        return str(self._do(tool, theme, number, lambda: provider.handle_tool_call(tool, arguments), **more))

    def _prefetch(self) -> None:
        theme = self._theme()
        provider, asked = self._providers[theme], self._asked(theme)
        self._do("prefetch", theme, self._next(), lambda: provider.prefetch(asked))

    def _recall(self) -> None:
        theme = self._theme()
        tool = self._random.choice(("recall_memory", "recall_conversation"))
        self._tool(tool, theme, self._next(), {"query": self._asked(theme)})

    def _profile(self) -> None:
        self._tool("memory_profile", self._theme(), self._next(), {})

    def _asked(self, theme: str) -> str:
        return texts.question(theme, self._last.get(theme, ("", 1))[1])

    def _reopen(self) -> None:
        """A session begins; the one before was shut down, or, as for each request of the API server, just left."""
        theme = self._theme()
        if self._random.random() < 0.5:
            self._do("shutdown", theme, self._next(), self._providers[theme].shutdown)
        self._open(theme)


def main() -> None:
    """Play the life that the first argument describes."""
    # Whoever was started in the background was told to ignore it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    faulthandler.register(signal.SIGUSR1)
    logging.getLogger().addHandler(_Telling(logging.WARNING))  # what libraries say as well
    threading.current_thread().name = "agent"
    agent = Agent(json.loads(sys.argv[1]))
    tell(ready=True)
    try:
        agent.run()
    finally:
        agent.close()
    tell(left=True)


if __name__ == "__main__":
    main()
