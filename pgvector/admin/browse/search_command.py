"""search."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..common.commands import EXIT_OK, Command, add_json, print_json
from ..common.console import said_while, say, warn
from ..common.row_options import PATIENCE_S, STORES, add_page, add_theme, at_bench, minute, one_line, page, tell_theme

if TYPE_CHECKING:
    from ...domain.theme import ThemeRules
    from ...domain.types import Question, Scope, Store
    from ...store.connection import DeadlineConnection
    from ..common.browse_rows import Window


def _search_arguments(command: argparse.ArgumentParser) -> None:
    command.add_argument("question", metavar="QUESTION", help="what to look for, in plain words")
    command.add_argument("--store", choices=(*STORES, "both"), default="both", help="where to look (default: both)")
    command.add_argument(
        "--scope", metavar="SCOPE",
        help="current (one theme, the default), session (of --session), all (every theme), or the name of a theme",
    )  # fmt: skip
    command.add_argument("--session", metavar="ID", help="only this session")
    command.add_argument("--role", choices=("user", "assistant", "tool"), help="turns: only what that side said")
    command.add_argument("--target", choices=("memory", "user"), help="memories: only notes, or only facts of the user")
    add_page(command, limit=5, what="what was written or said")
    command.add_argument("--around", action="store_true", help="show the turns right before and after a turn as well")
    command.add_argument("--no-rerank", action="store_true", help="leave the order to the search, also with a reranker")
    command.add_argument("--explain", action="store_true", help="say which leg found a result, at which rank")
    add_theme(command)
    add_json(command)


def _search(args: argparse.Namespace, home: Path) -> int:
    from ...embed.onnx import is_loading
    from . import operator_search

    text = operator_search.question(args.question)
    stores = _stores(args)
    bounds = page(args)
    with at_bench(args, home, reads=True) as (made, rules):
        with made.backend.connection(PATIENCE_S) as conn:
            scope = _scope(args, conn, rules, home)
            if scope.kind == "theme" and (args.scope or "current").strip().lower() == "current":
                tell_theme(args, conn, scope.theme)
        asked = {store: _question(args, text, scope, store, bounds) for store in stores}
        with said_while("loading the embedding model into this process ...", is_loading):
            found = operator_search.find(made.searcher.recall, stores, asked, explain=args.explain)
        if found.mode == "lexical" and found.results:
            warn(f"searched by words only: {made.why_by_words()}")
    if args.json:
        print_json({"theme": None if scope.kind == "all" else scope.theme, "scope": scope.kind} | found.as_json())
        return EXIT_OK
    for result in found.results:
        _say_hit(result, text, args)
    if not found.results:
        where = "no theme" if scope.kind == "all" else f"nothing in the theme {scope.theme!r}"
        say(f"{where} answers that")
    return EXIT_OK


def _stores(args: argparse.Namespace) -> list[Store]:
    """Where to look; a filter that only one of the two stores has leaves out the other."""
    from ...domain.errors import WrongUsage

    if (args.role and args.store == "memories") or (args.target and args.store == "turns"):
        raise WrongUsage("--role is for turns, --target for memories")
    if args.store != "both" or bool(args.role) == bool(args.target):
        return ["memories", "turns"] if args.store == "both" else [args.store]
    return ["turns"] if args.role else ["memories"]


def _scope(args: argparse.Namespace, conn: DeadlineConnection, rules: ThemeRules, home: Path) -> Scope:
    from ...domain.errors import WrongUsage
    from ...domain.privacy import EVERYTHING
    from ...domain.types import Scope
    from .browsing import session_place, theme_to_read

    word = (args.scope or "current").strip()
    if args.theme and word.lower() != "current" and word.lower() != "session":
        raise WrongUsage("give --scope or --theme, not both")
    if args.session and word.lower() in ("current", "session"):
        return Scope("session", session_place(conn, args.session, args.theme, rules), args.session)
    if word.lower() == "session":
        raise WrongUsage("--scope session needs --session ID; see: hermes-pgvector sessions list")
    if args.session:
        raise WrongUsage("give --session or --scope, not both")
    if word.lower() == "all":
        return Scope("all", rules.default, shared=EVERYTHING)
    name = args.theme if word.lower() == "current" else word.removeprefix("theme:")
    return Scope("theme", theme_to_read(conn, name, rules, home))


def _question(args: argparse.Namespace, text: str, scope: Scope, store: Store, bounds: Window) -> Question:
    from ...domain.types import Filters, Question

    kind = {"target": args.target} if store == "memories" else {"role": args.role}
    return Question(
        text,
        scope,
        bounds.limit,
        PATIENCE_S,
        Filters(**kind, since=bounds.since, until=bounds.until),
        offset=bounds.offset,
        around=store == "turns",
        rerank=not args.no_rerank,
    )


def _say_hit(result: Mapping[str, Any], text: str, args: argparse.Namespace) -> None:
    kind = result.get("role") or result.get("target")
    near = "" if result["similarity"] is None else f"  similarity {result['similarity']:.2f}"
    say(f"{result['ref']}  {kind}  {minute(result['date'])}  {result['theme']}{near}", "bold")
    say("    " + one_line(result["content"], text, lines=3, indent=4))
    if args.around:
        for turn in result.get("around", ()):
            say("      " + one_line(f"{turn['role']}: {turn['content']}", text, indent=6), "dim")
    if explained := result.get("explain"):
        say("    " + _legs(explained), "dim")


def _legs(explained: Mapping[str, Any]) -> str:
    parts = []
    if explained["meaning_rank"] is not None:
        parts.append(f"by meaning: rank {explained['meaning_rank']}")
    if explained["words_rank"] is not None:
        parts.append(f"by words: rank {explained['words_rank']}, {explained['words_coverage']:.0%} of the question's")
    if explained["beside_a_match"]:
        parts.append("stands beside a turn that matches")
    if "rerank_rank" in explained:
        parts.append(f"reranker: rank {explained['rerank_rank']}, score {explained['rerank_score']:.3f}")
    return "; ".join([*parts, f"score {explained['score']:.3f}"])


SEARCH = Command(
    "search",
    "search memories and turns as the agents' tools do",
    'hermes-pgvector search "what does the Atlas cost"\n'
    'hermes-pgvector search "budget" --theme marketing --store memories --explain\n'
    "hermes-pgvector search ERR_CONN_42 --store turns --role user --since 7d --around --json",
    _search,
    _search_arguments,
)
