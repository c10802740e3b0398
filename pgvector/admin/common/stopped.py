"""Says how far long work came that is stopped before its end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

from ...domain.errors import EmbedderError, StoreMisconfigured, StoreReadOnly, StoreUnavailable
from .console import warn


@contextmanager
def said_if_stopped(text: str | Callable[[], str]) -> Iterator[None]:
    """Warn with `interrupted: TEXT` if the block is stopped in the middle of its work.

    That is by Ctrl-C, a signal that ends the command, or the loss of the database or the endpoint.
    """
    try:
        yield
    except (KeyboardInterrupt, StoreUnavailable, psycopg.OperationalError, EmbedderError) as exc:
        # These show before there is anything to go on with, and say themselves what to do.
        if not isinstance(exc, StoreMisconfigured | StoreReadOnly):
            warn(f"interrupted: {text if isinstance(text, str) else text()}")
        raise
