"""The one place where any exception is caught: at the border to the host."""

from __future__ import annotations

import functools
import logging
from collections import Counter
from collections.abc import Callable
from typing import Any, TypeVar

from ..domain.fork_safety import fork_lock
from ..domain.redaction import masked

logger = logging.getLogger(__name__)

_Hook = TypeVar("_Hook", bound=Callable[..., Any])

failures: Counter[str] = Counter()  # by hook and type of error, of this process
_lock = fork_lock()


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
    """Count a failure; one WARNING for each hook and type of error in a process."""
    key = f"{where}:{type(exc).__name__}"
    with _lock:
        failures[key] += 1
        first = failures[key] == 1
    if first:
        said = masked(str(exc)) or "no message"
        logger.warning(
            "hermes-pgvector: %s failed, the agent goes on without it: %s: %s", where, type(exc).__name__, said
        )
