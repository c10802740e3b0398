"""A proof that an installation works: what one process writes through the provider, another one recalls."""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from ...domain.commandline import command_of, typed
from ...domain.errors import ConfigurationError
from ...store.connection import DeadlineConnection, translated
from ...store.sql import query
from ..common.commands import EXIT_FAILED, EXIT_OK, Command, argument
from ..common.stored_rows import forget_trial
from .trial_agents import TrialProvider, granted, told

THEME = "installation-check"
# For recall by meaning: the question and the fact have no word in common.
_FACT = "Our kitten sleeps on the radiator all afternoon."
_QUESTION = "Where does a cat like to rest?"
_ASKED = "Please keep in mind that the installation check uses the code {}."
_ANSWERED = "Noted: the installation check uses the code {}."
_SESSION = "installation-check"
_WAIT_S = 60.0
_LEFT_S = 15 * 60.0  # no proof takes as long: what is older was left by one that was killed


def prove(home: Path, theme: str = THEME) -> bool:
    """Write memories and a turn, recall them in a new process, remove them again; print what happened."""
    word = f"quokka-{secrets.token_hex(4)}"
    provider = _provider(home, theme)
    provider.on_memory_write("add", "memory", _said(word))
    provider.sync_turn(
        _ASKED.format(word),
        _ANSWERED.format(word),
        session_id=word,
    )
    provider.on_memory_write("add", "memory", _FACT)
    try:
        print(f"  wrote     a memory and a turn with the code {word}, theme {theme}", flush=True)
        landed = _landed(provider)
    except (KeyboardInterrupt, OSError):  # also if stdout takes nothing
        _clean_up(provider, theme, word)
        raise
    if not landed:
        print(typed("  FAILED    they are safe in the spool, but did not reach Postgres; run: hermes-pgvector doctor"))
        return False
    try:
        done = subprocess.run(
            command_of("cli", "prove", "--hermes-home", str(home), "--recall", word, f"--in={theme}"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
            check=False,
            timeout=_WAIT_S * 2,
        )
        print(done.stdout, end="", flush=True)
    finally:  # also after Ctrl-C
        _clean_up(provider, theme, word)
    return done.returncode == 0


def recall_in_this_process(home: Path, theme: str, word: str) -> bool:
    """Return whether both tools find `word`; this is the second process of the proof."""
    # It must not write: a session that writes compares with MEMORY.md, which never held this memory, and would drop it.
    provider = _provider(home, theme, agent_context="recall-only")
    found = []
    for tool in ("recall_memory", "recall_conversation"):
        answer = json.loads(provider.handle_tool_call(tool, {"query": f"the code {word} of the installation check"}))
        hits = [hit for hit in answer.get("results", []) if word in hit["content"]]
        found.append(bool(hits))
        how = "by meaning and words" if answer.get("mode") == "hybrid" else "by words"
        print(
            f"  {'recalled ' if hits else 'NOT FOUND'} {tool}, {how}, in a new process: "
            + (f'"{hits[0]["content"]}"' if hits else str(answer.get("error", "nothing")))
        )
    if answer.get("mode") == "hybrid":
        _recall_by_meaning(provider)
    provider.shutdown()
    return all(found)


def _recall_by_meaning(provider: TrialProvider) -> None:
    """Show what a model adds. Not part of the verdict: how well the model understands is the operator's choice."""
    answer = json.loads(provider.handle_tool_call("recall_memory", {"query": _QUESTION}))
    first = next((str(hit["content"]) for hit in answer.get("results", [])), "nothing")
    mark = "recalled " if first == _FACT else "NOT FOUND"
    print(f'  {mark} by meaning alone, no word in common: "{_QUESTION}" -> "{first}"')


def _said(word: str) -> str:
    return f"The installation check left the code {word} in the long-term memory."


def _clean_up(provider: TrialProvider, theme: str, word: str) -> None:
    # By the provider that wrote: another one would first compare with MEMORY.md and, if that is empty or has changed
    # meanwhile, ask an operator to confirm the removal.
    provider.on_memory_write("remove", "memory", "", {"old_text": word})
    provider.on_memory_write("remove", "memory", "", {"old_text": _FACT})
    if _landed(provider) and provider.runtime is not None:
        forget_trial(provider.runtime.backend, theme, word, [_said(word), _FACT])
    provider.shutdown()


def _tidy(conn: DeadlineConnection, theme: str) -> None:
    """Delete what proofs that were killed have left in a theme, and nothing else."""
    left = {
        "theme": theme,
        "before": datetime.fromtimestamp(time.time() - _LEFT_S, UTC),
        "session": _SESSION,
        "memories": [_said("quokka-________"), _FACT],  # each _ is any character
        "sessions": "quokka-________",
        "turns": [_ASKED, _ANSWERED],
    }
    with translated(), conn.transaction():
        if conn.execute("SELECT WHERE to_regclass('hermes_mirror') IS NOT NULL").rowcount:
            conn.execute(query("forget_left_memories", package=__package__), left)
            conn.execute(query("forget_left_turns", package=__package__), left)


def _provider(home: Path, theme: str, agent_context: str = "primary") -> TrialProvider:
    provider = TrialProvider()
    provider.initialize(
        _SESSION,
        hermes_home=str(home),
        platform="api_server",
        gateway_session_key=theme,
        agent_context=agent_context,
    )
    return provider


def _landed(provider: TrialProvider) -> bool:
    runtime = provider.runtime
    if runtime is None:
        return False
    deadline = time.monotonic() + _WAIT_S
    # A connection that is refused is known within seconds; creating an embedded database takes its time.
    return runtime.writer.flush(deadline - time.monotonic())


def _theme_for(conn: DeadlineConnection) -> str:
    """Return a theme for the proof that row-level security allows this role and that a session can name.

    Raises ConfigurationError.
    """
    themes = granted(conn)
    if themes is None or THEME in themes:
        return THEME
    for theme in themes:
        if not theme.startswith("@"):
            return theme
    raise ConfigurationError(
        "row-level security leaves this role no theme to write to; as admin: hermes-pgvector tenants grant ROLE THEME"
    )


def _prepare(conn: DeadlineConnection) -> Callable[[Path], bool]:
    theme = _theme_for(conn)
    _tidy(conn, theme)
    return partial(prove, theme=theme)


def _prove(args: argparse.Namespace, home: Path) -> int:
    if args.recall:
        return EXIT_OK if recall_in_this_process(home, args.theme, args.recall) else EXIT_FAILED
    return told(args, home, _prepare)


PROVE = Command(
    "hermes-pgvector prove",
    _prove,
    [  # for the second process of the proof
        argument("--recall WORD", argparse.SUPPRESS),
        argument("--in THEME", argparse.SUPPRESS, dest="theme", default=THEME),
    ],
)
