"""The only place where tests wait for something that happens elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from .limits import LEAST_WAIT_S

T = TypeVar("T")

POLL_S = 0.02


def until(predicate: Callable[[], T], timeout_s: float = LEAST_WAIT_S, what: str = "") -> T:
    """Returns the first true value of `predicate`, asked again and again for `timeout_s` seconds, a minute at least.

    Raises: AssertionError that names `what` was waited for.
    """
    timeout_s = max(timeout_s, LEAST_WAIT_S)
    end = time.monotonic() + timeout_s
    while not (value := predicate()):
        if time.monotonic() >= end:
            raise AssertionError(f"waited {timeout_s} s in vain for {what or predicate}")
        time.sleep(POLL_S)
    return value
