"""The HNSW indexes as an operator sees them."""

from __future__ import annotations

from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SHARE = 2  # one part in so many of what is free


def build_memory(wanted: int, given: int, *, on_this_machine: bool) -> str:
    """Return the maintenance_work_mem to build an index with that wants `wanted` bytes, as Postgres writes it.

    Empty, for the server's own, where that is enough (`given` bytes), or where its machine is not ours to know.
    """
    free = _free_bytes() if on_this_machine else 0
    chosen = min(wanted, free // _SHARE)
    return f"{chosen // 1024}kB" if chosen > given else ""


def size(count: int) -> str:
    """Return a number of bytes in the units of Postgres' own settings, of 1024."""
    return f"{count / 2**30:,.1f} GB" if count >= 2**30 else f"{count / 2**20:,.0f} MB"


def _free_bytes() -> int:
    """Memory that is free on this machine, and that a container leaves us; 0 where that is not known."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 0
    for limit in _LIMITS:
        try:
            free = min(free, int(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):  # none, or "max"
            continue
    return free
