"""The boundary to the host: any exception is caught here, and each kind of failure is logged once in a process."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from ..domain.fork_safety import fork_lock
from ..domain.redaction import masked

logger = logging.getLogger(__name__)

_Hook = TypeVar("_Hook", bound=Callable[..., Any])

failures: Counter[str] = Counter()  # by hook and type of error, of this process
_lock = fork_lock()
_UNKNOWN_THEMES_LOGGED = 20  # at most, as a client may make up theme after theme
_warned: set[str] = set()
_unknown: set[str] = set()


def guarded(safe_value: Any) -> Callable[[_Hook], _Hook]:
    """Make a hook return `safe_value` when it fails: counted, and logged the first time an error of its kind occurs."""

    def decorate(hook: _Hook) -> _Hook:
        @functools.wraps(hook)
        def guarded_hook(*args: Any, **kwargs: Any) -> Any:
            try:
                return hook(*args, **kwargs)
            except Exception as exc:
                report(hook.__name__, exc)
                return safe_value() if callable(safe_value) else safe_value

        return guarded_hook  # type: ignore[return-value]

    return decorate


def report(where: str, exc: BaseException) -> None:
    """Count a failure; log one WARNING for each hook and type of error in a process."""
    key = f"{where}:{type(exc).__name__}"
    with _lock:
        failures[key] += 1
        first = failures[key] == 1
    if first:
        said = masked(str(exc)) or "no message"
        logger.warning(
            "hermes-pgvector: %s failed, the agent goes on without it: %s: %s", where, type(exc).__name__, said
        )


def warn_once(message: str) -> None:
    """Log a WARNING, unless this process has logged it before."""
    if message not in _warned:
        _warned.add(message)
        logger.warning("hermes-pgvector: %s", message)


def warn_unknown_themes(themes: Iterable[str], default: str) -> None:
    """Log a WARNING once for each theme that is not allowed; after many of them, one more and then none."""
    for theme in themes:
        if theme in _unknown or len(_unknown) > _UNKNOWN_THEMES_LOGGED:
            continue
        _unknown.add(theme)
        if len(_unknown) > _UNKNOWN_THEMES_LOGGED:
            logger.warning("hermes-pgvector: more themes are not in `allowed_themes`: `themes_unknown` counts them")
        else:
            logger.warning(
                "hermes-pgvector: the theme %r is not in `allowed_themes`: %r is used instead", theme, default
            )
