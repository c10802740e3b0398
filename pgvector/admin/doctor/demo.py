"""A demonstration of three agents on one memory: each sees its own theme, and others' only when it asks."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from ...domain.commandline import typed
from ...domain.errors import ConfigurationError
from ...store.connection import DeadlineConnection
from ..common.commands import Command, indented
from ..common.stored_rows import forget_trial
from .trial_agents import TrialProvider, granted, told

_WAIT_S = 60.0
_TIDY_S = 10.0  # after a failure or Ctrl-C nobody waits longer
_FLEET = {
    "demo-marketing": (
        "The spring campaign for the Atlas product starts on 3 May, and its budget is 40,000 euros.",
        (
            "Which headline did the board choose for the Atlas campaign?",
            "The board chose the headline 'Maps that think ahead' for the Atlas campaign.",
        ),
    ),
    "demo-sales": (
        "The customer Norwind pays net 60 and wants every quote in kroner.",
        (
            "What discount may I offer Norwind on the yearly plan?",
            "Up to 12 percent on the yearly plan for Norwind; more needs a signature of the sales lead.",
        ),
    ),
    "demo-intraday-sre": (
        "The payments gateway answers ERR_CONN_42 when its pool of connections is exhausted.",
        (
            "How did we mend the outage of the payments gateway last night?",
            "We raised the pool of the payments gateway to 80 connections and restarted the workers.",
        ),
    ),
}
_WRITTEN = {memory for memory, _ in _FLEET.values()}
_QUESTION = "What do we know about the Atlas campaign?"


def run_demo(home: Path) -> bool:
    """Run the demonstration with the real provider; return True if every theme saw exactly what it should."""
    print("Three agents share one memory. Each names its theme in the header X-Hermes-Session-Key.\n")
    fleet = {theme: _provider(home, theme) for theme in _FLEET}
    try:
        _write(fleet)
        if not all(provider.runtime and provider.runtime.writer.flush(_WAIT_S) for provider in fleet.values()):
            print(typed("The writes are safe in the spool, but did not reach Postgres; run: hermes-pgvector doctor"))
            return False
        return _show_isolation(fleet)
    finally:  # also after Ctrl-C, and if stdout takes nothing
        _clean_up(fleet)


def _write(fleet: dict[str, TrialProvider]) -> None:
    for theme, (memory, (question, answer)) in _FLEET.items():
        started = time.perf_counter()
        fleet[theme].on_memory_write("add", "memory", memory)
        fleet[theme].sync_turn(question, answer, session_id=f"{theme}-monday")
        took_us = (time.perf_counter() - started) * 1e6
        print(f"{theme}\n  remembers  {memory}\n  was asked  {question}\n  answered   {answer}")
        print(f"             (both hooks returned after {took_us:.0f} microseconds, with the writes on disk)\n")


def _show_isolation(fleet: dict[str, TrialProvider]) -> bool:
    print(f'Everybody is asked: "{_QUESTION}"\n')
    right = True
    for theme, provider in fleet.items():
        themes = _ask(provider, theme, {"query": _QUESTION})
        right &= themes <= {theme} and (theme != "demo-marketing" or themes == {theme})
    print("\nOnly an explicit scope crosses themes:\n")
    right &= "demo-marketing" in _ask(fleet["demo-sales"], "demo-sales", {"query": _QUESTION, "scope": "all"})
    right &= _ask(fleet["demo-sales"], "demo-sales", {"query": _QUESTION, "scope": "demo-marketing"}) == {
        "demo-marketing"
    }
    block = fleet["demo-marketing"].prefetch("When does the Atlas campaign start, and with which headline?")
    print(f"\nWhat demo-marketing finds in its next message without asking:\n\n{indented(block)}\n")
    right &= "3 May" in block and "Norwind" not in block
    print(
        "Each theme saw its own memories and no other's."
        if right
        else "FAILED: a theme saw what it should not, or missed its own."
    )
    return right


def _ask(provider: TrialProvider, theme: str, args: dict[str, str]) -> set[str]:
    """Ask, and print only what the demo has written: rows of real themes must not be shown here."""
    answer = json.loads(provider.handle_tool_call("recall_memory", args | {"limit": 50}))
    scope = f", scope={args['scope']!r}" if "scope" in args else ""
    print(f"  {theme}{scope}:")
    common = {"theme": answer.get("theme", "")}
    hits = [common | hit for hit in answer.get("results", []) if hit["content"] in _WRITTEN]
    for hit in hits[:3]:
        print(f"    [{hit['theme']}] {hit['content']}")
    if others := len(answer.get("results", [])) - len(hits):
        print(f"    ({others} more of your own themes, not shown)")
    if not answer.get("results"):
        print(f"    {answer.get('error', '(nothing)')}")
    return {hit["theme"] for hit in hits}


def _clean_up(fleet: dict[str, TrialProvider]) -> None:
    for theme, (memory, _) in _FLEET.items():
        fleet[theme].on_memory_write("remove", "memory", "", {"old_text": memory})
    for theme, provider in fleet.items():
        if provider.runtime is not None and provider.runtime.writer.flush(_TIDY_S):
            forget_trial(provider.runtime.backend, theme, f"{theme}-monday", [_FLEET[theme][0]])
        provider.shutdown()


def _provider(home: Path, theme: str) -> TrialProvider:
    provider = TrialProvider()
    provider.initialize(f"{theme}-monday", hermes_home=str(home), platform="api_server", gateway_session_key=theme)
    return provider


def _prepare(conn: DeadlineConnection) -> Callable[[Path], bool]:
    """Return the demo. Raises ConfigurationError if row-level security would reject its writes."""
    themes = granted(conn)
    if themes is not None and not _FLEET.keys() <= {*themes}:
        raise ConfigurationError(
            "row-level security keeps this role from the demo's themes; as admin: hermes-pgvector tenants grant ROLE "
            + " ".join(_FLEET)
        )
    return run_demo


DEMO = Command("hermes-pgvector demo", lambda args, home: told(args, home, _prepare))
