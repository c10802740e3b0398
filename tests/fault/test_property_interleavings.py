"""Random interleavings of writes and faults, against a model of what must be stored in the end."""

from __future__ import annotations

import contextlib
import itertools
import os
from collections.abc import Callable
from operator import itemgetter
from pathlib import Path
from typing import Any, Protocol

import psycopg
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from hermes_memory_pgvector.runtime.process import Runtime
from tests.conftest import DIMS, MakeProvider
from tests.support.agent_process import AgentProcess
from tests.support.limits import LANDED_TIMEOUT_S
from tests.support.memory import runtime_of
from tests.support.stored import Database
from tests.support.tcp_proxy import TcpProxy
from tests.support.turns import turn
from tests.support.waiting import until

# Five times as many is a good long run; see CONTRIBUTING.md.
FACTOR = float(os.environ.get("HERMES_TEST_EXAMPLES_FACTOR", "1"))

# Some stand in others, so that `old_text` may mean one entry, several, or none.
TEXTS = ("port 5432", "port 5432 on staging", "Ada owns port 5432", "likes tea", "likes green tea", "tea")
THEMES = ("marketing", "sales")

themes, texts, targets = st.sampled_from(THEMES), st.sampled_from(TEXTS), st.sampled_from(("memory", "user"))
writes = st.one_of(
    st.tuples(st.just("add"), themes, targets, texts),
    st.tuples(st.just("replace"), themes, targets, texts, texts),
    st.tuples(st.just("remove"), themes, targets, texts),
    st.tuples(st.just("turn"), themes, st.sampled_from(("monday", "tuesday")), st.integers(0, 5)),
)
faults = st.sampled_from([("away_",), ("back",), ("cut",), ("restart",), ("settle",)])
steps = st.lists(st.one_of(writes, writes, writes, faults), min_size=8, max_size=40)


class Model:
    """What must be stored: the entries of each target in the order of their rows, and the turns of each session."""

    def __init__(self) -> None:
        self.entries: dict[str, list[tuple[str, str]]] = {"memory": [], "user": []}
        self.turns: list[tuple[str, str, str]] = []

    def add(self, theme: str, target: str, text: str) -> None:
        if (theme, text) not in self.entries[target]:
            self.entries[target].append((theme, text))

    def replace(self, theme: str, target: str, old: str, new: str) -> None:
        meant = self._meant(target, old)
        own = [entry for entry in meant if entry[0] == theme]
        meant = own or meant
        if len(meant) != 1:  # nothing is dropped by guessing, and the new text is a fact
            self.add(theme, target, new)
            return
        (entry,) = meant
        if entry[1] == new:  # nothing was taken out of the file
            self.add(theme, target, new)
            return
        entries = self.entries[target]
        if entry[0] == theme and (theme, new) not in entries:
            entries[entries.index(entry)] = (theme, new)
        else:
            entries.remove(entry)
            self.add(theme, target, new)

    def remove(self, theme: str, target: str, old: str) -> None:
        meant = self._meant(target, old)
        if len({text for _, text in meant}) == 1:
            self.entries[target] = [entry for entry in self.entries[target] if entry not in meant]

    def turn(self, theme: str, session: str, number: int) -> None:
        if (theme, session, turn(number)) not in self.turns:
            self.turns.append((theme, session, turn(number)))

    def _meant(self, target: str, old: str) -> list[tuple[str, str]]:
        """One home has one MEMORY.md, so an entry may be meant whichever theme it was written from."""
        found = [entry for entry in self.entries[target] if old in entry[1]]
        return [entry for entry in found if entry[1] == old] or found


class Agent(Protocol):
    """Whoever calls the hooks."""

    def call(self, theme: str, hook: str, *arguments: Any) -> object: ...
    def restart(self) -> None: ...
    def is_done(self) -> bool: ...
    def close(self) -> None: ...


class Sessions:
    """A session for each theme in this process; a restart shuts them down, new ones begin at their next write."""

    def __init__(self, make: Callable[[str], PgvectorMemoryProvider]) -> None:
        self._make = make
        self._providers: dict[str, PgvectorMemoryProvider] = {}
        self._runtimes: set[Runtime] = set()

    def call(self, theme: str, hook: str, *arguments: Any) -> object:
        if theme not in self._providers:
            self._providers[theme] = self._make(theme)
            self._runtimes.add(runtime_of(self._providers[theme]))
        return getattr(self._providers[theme], hook)(*arguments)

    def restart(self) -> None:
        while self._providers:
            self._providers.popitem()[1].shutdown()

    def is_done(self) -> bool:
        """Whether everything accepted has been written, so that waiting longer changes nothing."""
        return not any(runtime.writer.depth() for runtime in self._runtimes)

    def close(self) -> None:
        for runtime in self._runtimes:
            runtime.close(0.0)


class Processes:
    """One process after the other, of one theme; a restart kills it."""

    def __init__(self, start: Callable[[str], AgentProcess]) -> None:
        self._start = start
        self._process: AgentProcess | None = None

    def call(self, theme: str, hook: str, *arguments: Any) -> object:
        if self._process is None:
            self._process = self._start(theme)
        return self._process.call(hook, *arguments)

    def restart(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    def is_done(self) -> bool:
        """Only the database knows."""
        return False

    def close(self) -> None:
        self.restart()


class Play:
    """Does steps to an agent and to the model, in themes of its own."""

    def __init__(self, agent: Agent, proxy: TcpProxy, database: Database, prefix: str) -> None:
        self._agent, self._proxy, self._database, self._prefix = agent, proxy, database, prefix
        self._model = Model()
        self._away = False

    def run(self, steps: list[tuple[Any, ...]]) -> None:
        self._proxy.start()
        for kind, *arguments in steps:
            if kind in ("add", "replace", "remove", "turn"):
                theme = self._prefix + arguments[0]
                getattr(self._model, kind)(theme, *arguments[1:])
                self._report(theme, kind, arguments[1:])
            else:
                getattr(self, f"_{kind}")()
        self._agent.call(self._prefix + THEMES[0], "system_prompt_block")  # somebody lives to bring the rest home
        self._back()
        self._settle()

    def _report(self, theme: str, kind: str, arguments: list[Any]) -> None:
        """Call the hooks of one write as the host does."""
        if kind == "turn":
            session, number = arguments
            self._agent.call(theme, "on_session_switch", session)
            self._agent.call(theme, "sync_turn", turn(number), "")
            return
        target, *texts = arguments
        new_text = "" if kind == "remove" else texts[-1]
        named = {} if kind == "add" else {"old_text": texts[0]}
        self._agent.call(theme, "on_memory_write", kind, target, new_text, named)

    def _away_(self) -> None:
        self._proxy.stop()
        self._away = True

    def _back(self) -> None:
        self._proxy.start()
        self._away = False

    def _cut(self) -> None:
        self._proxy.cut()

    def _restart(self) -> None:
        self._agent.restart()

    def _settle(self) -> None:
        """Wait for what was written so far, and compare."""
        if self._away:
            return
        # In each theme the order is what it was in the hooks; themes are written beside one another.
        wanted = {kind: sorted(rows, key=itemgetter(0)) for kind, rows in self._model.entries.items()}
        wanted["turns"] = sorted(self._model.turns, key=itemgetter(0))
        with contextlib.suppress(AssertionError):
            until(lambda: self._agent.is_done() or self._stored() == wanted, LANDED_TIMEOUT_S)
        assert self._stored() == wanted

    def _stored(self) -> dict[str, list[tuple[str, ...]]]:
        with psycopg.connect(self._database.dsn, autocommit=True) as connection:

            def rows(statement: str, *parameters: str) -> list[tuple[str, ...]]:
                return connection.execute(statement.encode(), (f"{self._prefix}%", *parameters)).fetchall()

            entries = "SELECT agent_identity, content FROM memory_entries WHERE agent_identity LIKE %s AND target = %s"
            turns = "SELECT agent_identity, session_id, content FROM conversations WHERE agent_identity LIKE %s"
            return {
                target: rows(f'{entries} ORDER BY agent_identity COLLATE "C", id', target)
                for target in ("memory", "user")
            } | {"turns": rows(f'{turns} ORDER BY agent_identity COLLATE "C", id')}


def examples(count: int) -> settings:
    return settings(
        max_examples=max(1, round(count * FACTOR)),
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def test_need_03_whatever_comes_between_what_is_stored_is_what_was_written(
    make_provider: MakeProvider, proxy: TcpProxy, proxied: str, database: Database, tmp_path: Path
) -> None:
    numbers = itertools.count()

    @examples(25)
    @given(steps)
    def example(steps: list[tuple[Any, ...]]) -> None:
        number = next(numbers)
        home = tmp_path / f"home-{number}"
        config = {"dsn": proxied, "shutdown_timeout_s": 0.2}
        agent = Sessions(
            lambda theme: make_provider(config, hermes_home=str(home), gateway_session_key=theme, session_id="monday")
        )
        try:
            Play(agent, proxy, database, f"example-{number}-").run(steps)
        finally:
            agent.close()

    example()


def test_need_03_whenever_the_process_is_killed_what_is_stored_is_what_was_written(
    proxy: TcpProxy, proxied: str, database: Database, tmp_path: Path
) -> None:
    numbers = itertools.count()

    @examples(4)
    @given(steps.map(lambda steps: [(step[0], THEMES[0], *step[2:]) if len(step) > 1 else step for step in steps]))
    def example(steps: list[tuple[Any, ...]]) -> None:
        number = next(numbers)
        home = tmp_path / f"home-{number}"
        home.mkdir()
        agent = Processes(lambda theme: AgentProcess({"dsn": proxied, "dims": DIMS}, home, gateway_session_key=theme))
        try:
            Play(agent, proxy, database, f"example-{number}-").run(steps)
        finally:
            agent.close()

    example()
