"""What a process logs only once."""

from __future__ import annotations

from hermes_memory_pgvector.host import guard


def forget_warnings() -> None:
    """Let every warning be logged once more."""
    guard._warned.clear()
    guard._unknown.clear()
