"""Search, by what the operator may see."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..admin.browse.finding import TYPES, Wanted, is_unlike, scope_of
from ..admin.browse.marking import Mark, marks
from ..admin.common.refs import Ref
from ..admin.common.row_options import STORES, question_text
from ..domain.types import Answer, Hit, Scope
from ..recall.render import as_result
from .desk import READ_S, Desk
from .page_route import PageRoute
from .params import Params

_CHARS = 600  # of a text among others
_RESULTS, _RESULTS_MOST = 10, 50
_AFTER_S = 0.15  # for what is looked up of the results


def search(desk: Desk, params: Params) -> Mapping[str, Any]:
    """Return what was found in one theme, a session, or everywhere, best first, and why."""
    started = time.monotonic()
    wanted = _wanted(params)
    context = desk.context()
    ready = desk.models.ready(context)
    with desk.reading() as conn:
        scope = _scope(desk, params, conn)
    # One more than is shown tells whether there are others.
    asked = replace(wanted, page=replace(wanted.page, limit=wanted.page.limit + 1))
    left_s = max(0.05, READ_S - _AFTER_S - (time.monotonic() - started))
    answer = ready.searcher.recall(wanted.stores(), asked.question(wanted.stores(), scope, left_s))
    shown = [hit for hit in answer.hits[: wanted.page.limit] if not is_unlike(hit)]
    return {
        "results": _results(desk, shown, answer, wanted.text, scope),
        "count": len(shown),
        "mode": answer.mode,
        "why_by_words": ready.why_by_words(answer.mode),
        "loading": ready.loading,
        "reranked": answer.reranked,
        "more": len(answer.hits) > wanted.page.limit,
        "took_ms": round((time.monotonic() - started) * 1000),
    }


def _wanted(params: Params) -> Wanted:
    limit = params.number("limit", _RESULTS, least=1, most=_RESULTS_MOST)
    return Wanted(
        question_text(params.text("q")),
        replace(params.page(), limit=limit),
        params.choice("store", (*STORES, "both")) or "both",
        params.choice("role", ("user", "assistant", "tool")),
        params.choice("target", ("memory", "user")),
        params.choice("type", tuple(TYPES)),
        params.text("rerank") == "" or params.flag("rerank"),
    )


def _scope(desk: Desk, params: Params, conn: Any) -> Scope:
    theme, session = params.optional("theme"), params.optional("session")
    params.choice("scope", ("all",))
    return scope_of(conn, desk.rules, desk.home, theme=theme, session=session, everywhere=theme is None)


def _results(desk: Desk, hits: Sequence[Hit], answer: Answer, question: str, scope: Scope) -> list[dict[str, Any]]:
    languages = desk.context().backend.languages
    spoken = languages.all if scope.kind == "all" else (languages.of(scope.theme),)
    told = [as_result(hit, question, explain=True, max_chars=_CHARS) for hit in hits]
    with desk.reading() as conn:
        marked = marks(conn, [result["content"] for result in told], question, spoken)
    return [_row(hit, result, found, answer) for hit, result, found in zip(hits, told, marked, strict=True)]


def _row(hit: Hit, result: Mapping[str, Any], found: Sequence[Mark], answer: Answer) -> dict[str, Any]:
    chars = hit.size or len(hit.content)
    return {
        "ref": str(Ref(hit.store, hit.id)),
        "store": hit.store,
        "theme": hit.theme,
        "private": hit.theme.startswith("@"),
        "kind": hit.kind,
        "at": hit.at.isoformat(),
        "session_id": hit.session_id,
        "content": result["content"],
        "chars": chars,
        "cut": "excerpt_of_chars" in result,
        "pending": answer.mode == "hybrid" and hit.similarity is None,
        "structure": hit.structure,
        "marks": found,
        "similarity": result["similarity"],
        "why": result["explain"] | {"said": _said(hit)},
        "around": [
            {
                "ref": str(Ref("turns", turn.id)),
                "role": turn.kind,
                "at": turn.at.isoformat(),
                "content": said["content"],
            }
            for turn, said in zip(hit.around, result.get("around", ()), strict=True)
        ],
    }


def _said(hit: Hit) -> str:
    """Return in one sentence why a row was found."""
    ways = []
    if hit.word_rank is not None:
        ways.append(f"by its words, as number {hit.word_rank}: it has {hit.coverage:.0%} of what the question asks")
    if hit.vector_rank is not None:
        near = "" if hit.similarity is None else f", with a similarity of {hit.similarity:.2f}"
        ways.append(f"by its meaning, as number {hit.vector_rank}{near}")
    found = "Found " + " and ".join(ways) if ways else "Found because it stands beside a turn that matches"
    if hit.rerank_rank is not None:
        found += f"; the reranker made it number {hit.rerank_rank}"
    return found + "."


ROUTES = (PageRoute("/search", search),)
