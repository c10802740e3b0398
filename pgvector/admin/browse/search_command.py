"""The command search."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...domain.errors import EmbedderError, WrongUsage
from ...domain.format import local_minute
from ...domain.theme import ThemeRules
from ...domain.types import Answer, Question, Scope, Store
from ...embed.model_folder import is_local
from ...embed.onnx_session import is_loading
from ...recall.render import as_result
from ...store.connection import DeadlineConnection
from ...store.vectors import STORES
from ..common.command_context import CommandContext, context_for
from ..common.commands import Command, printed
from ..common.console import said_while, say, say_line, warn
from ..common.refs import Ref
from ..common.row_options import (
    PATIENCE_S,
    add_page,
    add_theme,
    one_line,
    page,
    question_text,
    tell_theme,
)
from .finding import TYPES, Wanted, is_unlike, scope_of


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
    command.add_argument("--type", choices=TYPES, help="only this: of memories by their kind, or episodes, the turns")
    add_page(command, limit=5, what="what was written or said")
    command.add_argument("--top-k", dest="limit", type=int, default=argparse.SUPPRESS, metavar="N", help="as --limit")
    command.add_argument("--around", action="store_true", help="show the turns right before and after a turn as well")
    command.add_argument("--no-rerank", action="store_true", help="leave the order to the search, also with a reranker")
    command.add_argument("--explain", action="store_true", help="say how a result was found, and at which rank")
    add_theme(command)


def _search(args: argparse.Namespace, home: Path) -> int:
    text = question_text(args.question)
    wanted = Wanted(text, page(args), args.store, args.role, args.target, args.type, not args.no_rerank)
    stores = wanted.stores()
    with context_for(args, home, reads=True) as (context, rules):
        with context.backend.connection(PATIENCE_S) as conn:
            scope = _scope(args, conn, rules, home)
            if scope.kind == "theme" and _word(args) == "current":
                tell_theme(args, conn, scope.theme)
        asked = {store: wanted.question([store], scope, PATIENCE_S) for store in stores}
        with said_while("loading a model into this process ...", is_loading):
            _load_models(args, context, text)
            found, unlike = _find(context.searcher.recall, asked, explain=args.explain)
        if found["mode"] == "lexical" and found["results"]:
            warn(f"searched by words only: {context.why_by_words()}")
    told = {"theme": None if scope.kind == "all" else scope.theme, "scope": scope.kind} | found
    likely = [result for result in found["results"] if result["ref"] not in unlike]
    return printed(args, told, lambda: _say_hits(likely, text, scope, args))


def _load_models(args: argparse.Namespace, context: CommandContext, text: str) -> None:
    """Load local models in advance, so that words are mended, and the order is the one, as an agent sees them."""
    if context.embedder is not None and is_local(context.settings.embed_url):
        with suppress(EmbedderError):  # the answer says so
            context.embedder.embed_query(text, timeout_s=PATIENCE_S)
    if args.no_rerank:
        return
    try:
        context.searcher.load_reranker()
    except EmbedderError as exc:
        warn(f"not reranked: {exc}")


def _say_hits(results: Sequence[Mapping[str, Any]], text: str, scope: Scope, args: argparse.Namespace) -> None:
    for result in results:
        _say_hit(result, text, args)
    if not results:
        where = "no theme" if scope.kind == "all" else f"nothing in the theme {scope.theme!r}"
        say(f"{where} answers that")


def _find(
    recall: Callable[[Sequence[Store], Question], Answer], asked: Mapping[Store, Question], *, explain: bool
) -> tuple[dict[str, Any], set[str]]:
    """Search each store separately, as each tool does; return the tools' results with the rows' refs.

    Return also the refs of rows that only fill the page.
    """
    results: list[dict[str, Any]] = []
    unlike: set[str] = set()
    modes, reranked = set(), False
    for store, question in asked.items():
        answer = recall([store], question)
        modes.add(answer.mode)
        reranked |= answer.reranked
        for hit in answer.hits:
            ref = str(Ref(store, hit.id))
            results.append({"ref": ref, "store": store} | _told(as_result(hit, question.text, explain=explain)))
            unlike |= {ref} if is_unlike(hit) else set()
    mode = "hybrid" if "hybrid" in modes else "lexical"
    return {"results": results, "count": len(results), "mode": mode, "reranked": reranked}, unlike


def _told(result: Mapping[str, Any]) -> dict[str, Any]:
    """Return a tool's result with its times under the name that they have in every command's JSON."""
    told = {"at" if name == "date" else name: value for name, value in result.items()}
    told |= {"around": [_told(turn) for turn in result["around"]]} if "around" in result else {}
    return told | ({"replaced": _told(result["replaced"])} if "replaced" in result else {})


def _word(args: argparse.Namespace) -> str:
    """Return the scope as given, or `current` without one; the keywords in lower case."""
    word = (args.scope or "current").strip()
    return word.lower() if word.lower() in ("current", "session", "all") else word


def _scope(args: argparse.Namespace, conn: DeadlineConnection, rules: ThemeRules, home: Path) -> Scope:
    word = _word(args)
    _check_scope(args, word)
    name = args.theme if word in ("current", "session") else word.removeprefix("theme:")
    return scope_of(conn, rules, home, theme=name, session=args.session, everywhere=word == "all")


def _check_scope(args: argparse.Namespace, word: str) -> None:
    if args.theme and word not in ("current", "session"):
        raise WrongUsage("give --scope or --theme, not both")
    if args.session and word not in ("current", "session"):
        raise WrongUsage("give --session or --scope, not both")
    if word == "session" and not args.session:
        raise WrongUsage("--scope session needs --session ID; see: hermes-pgvector sessions list")


def _say_hit(result: Mapping[str, Any], text: str, args: argparse.Namespace) -> None:
    kind = " ".join(str(result[name]) for name in ("role", "target", "kind", "subject", "scope") if name in result)
    near = "" if result["similarity"] is None else f"  similarity {result['similarity']:.2f}"
    say_line(f"{result['ref']}  {kind}  {local_minute(result['at'])}  {result['theme']}{near}", "bold")
    say("    " + one_line(result["content"], text, lines=3, indent=4))
    if replaced := result.get("replaced"):
        say(f"    replaces: {one_line(replaced['content'], text, indent=14)}", "dim")
    if args.around:
        for turn in result.get("around", ()):
            say("      " + one_line(f"{turn['role']}: {turn['content']}", text, indent=6), "dim")
    if explained := result.get("explain"):
        say("    " + _legs(explained), "dim")


def _legs(explained: Mapping[str, Any]) -> str:
    parts = [f'for "{explained["question"]}"'] if "question" in explained else []
    if explained["meaning_rank"] is not None:
        parts.append(f"by meaning: rank {explained['meaning_rank']}")
    if explained["words_rank"] is not None:
        parts.append(f"by words: rank {explained['words_rank']}, {explained['words_coverage']:.0%} of the question's")
    if explained["beside_a_match"]:
        parts.append("stands beside a turn that matches, or began a session on the day that the question names")
    if "rerank_rank" in explained:
        parts.append(f"reranker: rank {explained['rerank_rank']}, score {explained['rerank_score']:.3f}")
    return "; ".join([*parts, f"score {explained['score']:.3f}"])


SEARCH = Command(
    'hermes-pgvector search "what does the Atlas cost"\n'
    'hermes-pgvector search "budget" --theme marketing --store memories --explain\n'
    'hermes-pgvector search "deadline" --type facts --top-k 10\n'
    "hermes-pgvector search ERR_CONN_42 --store turns --role user --since 7d --around --json",
    _search,
    [_search_arguments],
)
