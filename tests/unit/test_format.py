"""Sizes, durations and counts as people read them."""

from __future__ import annotations

import pytest

from hermes_memory_pgvector.domain.format import format_bytes, format_duration, plural


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 bytes"), (1, "1 byte"), (999, "999 bytes"), (1000, "1.0 KB"), (1_234_567, "1.2 MB"),
        (999_999, "1.0 MB"), (5e9, "5.0 GB"), (2.5e15, "2,500.0 TB"),
    ],
)  # fmt: skip
def test_bytes(count: float, shown: str) -> None:
    assert format_bytes(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "1 s"), (89.4, "89 s"), (90, "2 min"), (3600, "60 min"), (5400, "1 h 30 min"), (7500, "2 h 5 min"),
        (273_600, "3 d 4 h"),
    ],
)  # fmt: skip
def test_durations(seconds: float, shown: str) -> None:
    assert format_duration(seconds) == shown


def test_counts() -> None:
    assert plural(1, "memory", "memories") == "1 memory"
    assert plural(1200, "memory", "memories") == "1,200 memories"
    assert plural(0, "turn") == "0 turns"
