"""What was used last stays."""

from __future__ import annotations

from hermes_memory_pgvector.domain.lru import LruDict


def test_the_keys_used_last_are_kept() -> None:
    known: LruDict[str, int] = LruDict(2)
    known["a"], known["b"] = 1, 2

    assert (known.use("a"), known.use("x"), known.get("b")) == (1, None, 2)
    known["c"] = 3
    assert list(known.items()) == [("a", 1), ("c", 3)], "looking with get() does not count as use"
    known["a"] = 4
    known["d"] = 5
    assert list(known.items()) == [("a", 4), ("d", 5)]
