"""Search in all that the operator may see."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..admin.browse.finding import TYPES, Wanted, is_unlike, scope_of
from ..admin.browse.marking import marks
from ..admin.common import stored_rows
from ..admin.common.refs import Ref
from ..admin.common.row_options import question_text
from ..domain.types import TARGETS, Hit, Scope, Store
from ..recall.render import as_result
from ..store.connection import DeadlineConnection
from ..store.vectors import STORES
from .page_route import PageRoute
from .params import Params
from .rows import as_rows, row_of
from .served_homes import READ_S, ServedHome

_CHARS = 800  # of a text: the part that answers, with what is around it
_RESULTS, _RESULTS_MOST = 10, 50
_AFTER_S = 0.12  # for looking up the rows of the results


def search(served: ServedHome, params: Params) -> Mapping[str, Any]:
    """Return what was found in a theme, a session, or everywhere, best first, and why."""
    started = time.monotonic()
    wanted = _wanted(params)
    stores = wanted.stores()
    ready = served.models.ready(served.context())
    with served.reading() as conn:
        theme, session = params.optional("theme"), params.optional("session")
        everywhere = params.choice("scope", ("all",)) is not None or theme is None
        scope = scope_of(conn, served.rules, served.home, theme=theme, session=session, everywhere=everywhere)
    # One more than is shown tells whether there are others.
    asked = replace(wanted, page=replace(wanted.page, limit=wanted.page.limit + 1))
    left_s = READ_S - _AFTER_S - (time.monotonic() - started)
    answer = ready.searcher.recall(stores, asked.question(stores, scope, max(0.05, left_s)))
    hits = [hit for hit in answer.hits[: wanted.page.limit] if not is_unlike(hit)]
    with served.reading() as conn:
        results = _results(conn, served, hits, wanted.text, scope)
    return {
        "results": results,
        "count": len(results),
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
        params.choice("target", TARGETS),
        params.choice("type", tuple(TYPES)),
        rerank=params.text("rerank") == "" or params.flag("rerank"),
    )


def _results(
    conn: DeadlineConnection, served: ServedHome, hits: Sequence[Hit], question: str, scope: Scope
) -> list[dict[str, Any]]:
    """Return the hits in the page's format, with what matches in each."""
    spoken = served.context().backend.languages.spoken_in(scope)
    excerpts = [as_result(hit, question, explain=True, max_chars=_CHARS) for hit in hits]
    marked = marks(conn, [result["content"] for result in excerpts], question, spoken)
    rows = _rows(conn, served, hits)
    results = []
    for hit, result, parts in zip(hits, excerpts, marked, strict=True):
        row = rows[hit.store, hit.id]
        found = {"content": result["content"], "cut": "excerpt_of_chars" in result, "marks": parts}
        why = {"similarity": result["similarity"], "why": result["explain"] | {"said": _said(hit)}}
        results.append(
            row
            | found
            | why
            | {
                "around": [
                    {
                        "ref": str(Ref("turns", turn.id)),
                        "role": turn.kind,
                        "at": turn.at.isoformat(),
                        "content": said["content"],
                    }
                    for turn, said in zip(hit.around, result.get("around", ()), strict=True)
                ]
            }
        )
    return results


def _rows(conn: DeadlineConnection, served: ServedHome, hits: Sequence[Hit]) -> dict[tuple[Store, int], dict[str, Any]]:
    """Return the stored row of each hit, in the format of a list."""
    found: dict[tuple[Store, int], dict[str, Any]] = {}
    for store in dict.fromkeys(hit.store for hit in hits):
        own = [hit for hit in hits if hit.store == store]
        ids = [hit.id for hit in own]
        beside = stored_rows.beside(conn, store, ids)
        said = stored_rows.structures(conn, ids) if store == "memories" else {}
        listed = [_listed(hit) | beside.get(hit.id, {}) | stored_rows.structure_column(said.get(hit.id)) for hit in own]
        found |= zip([(store, hit.id) for hit in own], as_rows(conn, served, store, listed), strict=True)
    return found


def _listed(hit: Hit) -> dict[str, Any]:
    text = {"content": hit.content, "chars": len(hit.content)}
    who = {"target" if hit.store == "memories" else "role": hit.kind}
    return row_of(hit) | who | {"id": hit.id, "session_id": hit.session_id} | text


def _said(hit: Hit) -> str:
    """Return in one sentence why a row was found."""
    ways = []
    if hit.word_rank is not None:
        ways.append(f"by its words, as number {hit.word_rank}: it has {hit.coverage:.0%} of what the question asks")
    if hit.vector_rank is not None:
        near = "" if hit.similarity is None else f", with a similarity of {hit.similarity:.2f}"
        ways.append(f"by its meaning, as number {hit.vector_rank}{near}")
    beside = "Found because it stands beside a turn that matches, or began a session on the day that the question names"
    found = "Found " + ", and ".join(ways) if ways else beside
    if hit.rerank_rank is not None:
        found += f"; the reranker made it number {hit.rerank_rank}"
    return found + "."


ROUTES = (PageRoute("/search", search),)
