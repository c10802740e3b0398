"""A process that can open no more files, as one that has too many open."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def at_most_open_files(most: int) -> Iterator[None]:
    """Let this process, and those that it starts in the block, open no file descriptor from that number on."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
