"""Warnings that are given once in a process."""

from __future__ import annotations

import logging
from collections.abc import Iterable

logger = logging.getLogger(__name__)

_UNKNOWN_THEMES_TOLD = 20  # of a client that makes up theme after theme
_warned: set[str] = set()
_unknown: set[str] = set()


def warn_once(message: str) -> None:
    """Log a WARNING, the first time."""
    if message not in _warned:
        _warned.add(message)
        logger.warning("hermes-pgvector: %s", message)


def warn_unknown_themes(themes: Iterable[str], default: str) -> None:
    """Log a WARNING for each theme that is not allowed, the first time; after many of them one more, and then none."""
    for theme in themes:
        if theme in _unknown or len(_unknown) > _UNKNOWN_THEMES_TOLD:
            continue
        _unknown.add(theme)
        if len(_unknown) > _UNKNOWN_THEMES_TOLD:
            logger.warning("hermes-pgvector: more themes are not in `allowed_themes`: `themes_unknown` counts them")
        else:
            logger.warning(
                "hermes-pgvector: the theme %r is not in `allowed_themes`: %r stands in its place", theme, default
            )


def forget_warnings() -> None:
    """Give every warning once more; for tests."""
    _warned.clear()
    _unknown.clear()
