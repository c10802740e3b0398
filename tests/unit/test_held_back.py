"""A block that no signal cuts short: what came meanwhile has its effect at the end."""

from __future__ import annotations

import signal

import pytest

from hermes_memory_pgvector.admin.common.repeat import held_back


def test_a_signal_in_a_block_that_fails_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt) as raised, held_back():
        signal.raise_signal(signal.SIGINT)
        raise OSError("no space left")

    assert isinstance(raised.value.__cause__, OSError)


def test_a_block_within_another_one_is_not_where_a_signal_ends_both() -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), held_back():
        with held_back():
            signal.raise_signal(signal.SIGINT)
        done.append("the rest")

    assert done == ["the rest"]
