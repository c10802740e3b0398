"""The results of a tool's answer: an exchange once, within a size, and what all have in common said once."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ..domain.chunks import estimate_tokens
from ..domain.types import Hit
from .block import exchanges_in, is_question, other_half
from .render import RESULT_MAX_CHARS, as_result

_LEAST_CHARS = 200  # of a text; less of it says nothing
_FRAME_TOKENS = 100  # of the answer around its results
_COMMON = ("theme", "session_id")


def folded(hits: Sequence[Hit]) -> list[Hit]:
    """Return the hits, of an exchange only one half: the answer to a question, else what fits better.

    The other half stands around it. Which one it is does not depend on how many hits there are.
    """
    return [_shown_half(found) for found in exchanges_in(hits)]


def _shown_half(found: Sequence[Hit]) -> Hit:
    first = found[0]
    if not is_question(first):
        return first
    answer = found[1] if len(found) > 1 else other_half(first)
    if answer is None:
        return first
    return answer if answer.around else replace(answer, around=(first,))


def results_within(hits: Sequence[Hit], question: str, max_tokens: int, *, explain: bool) -> list[dict[str, Any]]:
    """Return the first of `hits` as a tool returns them, about `max_tokens` in all; one at least.

    Long texts are cut to the part that answers, so that as many as possible find room.
    """
    results: list[dict[str, Any]] = []
    left = max_tokens - _FRAME_TOKENS
    for place, hit in enumerate(hits):
        result, cost = _fitted(hit, question, left // (len(hits) - place), explain=explain)
        if results and cost > left:
            break
        results.append(result)
        left -= cost
    return results


def _fitted(hit: Hit, question: str, tokens: int, *, explain: bool) -> tuple[dict[str, Any], int]:
    """Return the result with as much of its text as fits, and what it costs."""
    chars = RESULT_MAX_CHARS
    while True:
        result = as_result(hit, question, explain=explain, max_chars=chars)
        cost = estimate_tokens(json.dumps(result, ensure_ascii=False))
        if cost <= tokens or chars == _LEAST_CHARS:
            return result, cost
        longest = min(chars, max(len(hit.content), _LEAST_CHARS))
        chars = max(_LEAST_CHARS, min(longest * tokens // cost, longest * 9 // 10))


def without_common(results: Sequence[dict[str, Any]]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """Return the theme and the session that all results share, and the results without them."""
    common = {
        name: results[0][name]
        for name in _COMMON
        if results and name in results[0] and all(result.get(name) == results[0][name] for result in results)
    }
    return common, [{name: value for name, value in result.items() if name not in common} for result in results]
