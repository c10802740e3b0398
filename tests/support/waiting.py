"""The only place where tests wait for something that happens elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from .limits import LEAST_WAIT_S

T = TypeVar("T")

POLL_S = 0.02
# Of a long wait: many a predicate makes a connection, and what is waited for needs the machine.
SELDOM_S = 0.1


def until(predicate: Callable[[], T], timeout_s: float = LEAST_WAIT_S, what: str = "") -> T:
    """Returns the first true value of `predicate`, asked again and again for `timeout_s` seconds, a minute at least.

    Raises: AssertionError that names `what` was waited for.
    """
    timeout_s = max(timeout_s, LEAST_WAIT_S)
    began = time.monotonic()
    while not (value := predicate()):
        waited_s = time.monotonic() - began
        if waited_s >= timeout_s:
            raise AssertionError(f"waited {timeout_s} s in vain for {what or predicate}")
        time.sleep(min(max(POLL_S, waited_s / 10), SELDOM_S))
    return value
