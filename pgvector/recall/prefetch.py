"""What is put before a turn without being asked for."""

from __future__ import annotations

from ..domain.models import Hit, Scope
from ..domain.settings import Settings
from .render import render_block
from .search import Searcher

MIN_COVERAGE = 0.35  # share of the question's weight in words that makes a hit good enough without a vector


def prefetch_block(searcher: Searcher, text: str, scope: Scope, settings: Settings) -> str:
    """A block of what is remembered for `text`, best first; empty when nothing is good enough.

    Raises StoreUnavailable or DeadlineExceeded within `prefetch_deadline_s`.
    """
    found = searcher.recall(
        ["memories", "turns"], text, scope, limit=settings.prefetch_limit * 2, deadline_s=settings.prefetch_deadline_s
    )
    worth = [hit for hit in found.hits if is_worth_showing(hit, settings.min_similarity)]
    return render_block(worth[: settings.prefetch_limit], max_tokens=settings.prefetch_max_tokens)


def is_worth_showing(hit: Hit, min_similarity: float) -> bool:
    """Whether a hit is close enough in meaning, or holds enough of the question's rare words."""
    return (hit.similarity is not None and hit.similarity >= min_similarity) or hit.coverage >= MIN_COVERAGE
