"""The memory that the build of an HNSW index gets."""

from __future__ import annotations

from pathlib import Path

_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_SHARE = 2  # a build gets at most free memory divided by this


def build_memory(wanted: int, given: int, *, on_this_machine: bool) -> str:
    """Return the maintenance_work_mem for the build of an index that wants `wanted` bytes, as Postgres writes it.

    Empty, for the server's own setting, if its `given` bytes are enough or the server is on another machine.
    """
    free = _free_bytes() if on_this_machine else 0
    chosen = min(wanted, free // _SHARE)
    return f"{chosen // 1024}kB" if chosen > given else ""


def size(count: int) -> str:
    """Return a number of bytes in the units of Postgres' settings, which are powers of 1024."""
    return f"{count / 2**30:,.1f} GB" if count >= 2**30 else f"{count / 2**20:,.0f} MB"


def _free_bytes() -> int:
    """Return the bytes that are free on this machine, within the limit of a container; 0 if that is unknown."""
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
        free = int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return 0
    for limit in _LIMITS:
        try:
            free = min(free, int(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    return free
