"""The memory that the build of an HNSW index gets."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

# The limit and the use of a control group, in both versions of these.
_NAMES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
_SHARE = 2  # a build gets at most free memory divided by this


def build_memory(wanted: int, given: int, *, on_this_machine: bool) -> str:
    """Return the maintenance_work_mem for the build of an index that wants `wanted` bytes, as Postgres writes it.

    Empty, for the server's own setting, if its `given` bytes are enough or the server is on another machine.
    """
    free = int(free_bytes()) if on_this_machine else 0
    chosen = min(wanted, free // _SHARE)
    return f"{chosen // 1024}kB" if chosen > given else ""


def size(count: int) -> str:
    """Return a number of bytes in the units of Postgres' settings, which are powers of 1024."""
    return f"{count / 2**30:,.1f} GB" if count >= 2**30 else f"{count / 2**20:,.0f} MB"


def free_bytes(processes: Path = Path("/proc"), groups: Path = Path("/sys/fs/cgroup")) -> float:
    """Return the bytes that are free on this machine, within the limits of a container or service; 0 if unknown."""
    try:
        free = _table(processes / "meminfo")["MemAvailable"] * 1024
    except (OSError, KeyError):
        return 0
    return min([free, *(_left_in(folder) for folder in _groups_of_us(processes, groups))])


def _groups_of_us(processes: Path, groups: Path) -> Iterator[Path]:
    """Yield the folders of the control groups of this process that may limit its memory, inner ones first."""
    try:
        lines = (processes / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        lines = []
    for _, kinds, path in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if kinds and "memory" not in kinds.split(","):
            continue
        top = groups / "memory" if kinds else groups
        inner = top / path.lstrip("/")
        yield from (folder for folder in (inner, *inner.parents) if folder.is_relative_to(top))


def _left_in(group: Path) -> float:
    """Return how many bytes a control group may still take; what it keeps of files can be dropped."""
    for limit, used in _NAMES:
        try:
            most = int((group / limit).read_text(encoding="ascii"))
            taken = int((group / used).read_text(encoding="ascii"))
        except (OSError, ValueError):  # no such file, or "max"
            continue
        try:
            stat = _table(group / "memory.stat")
        except OSError:
            stat = {}
        files = sum(stat.get(f"total_{name}", stat.get(name, 0)) for name in ("active_file", "inactive_file"))
        return max(0, most - max(0, taken - files))
    return math.inf


def _table(path: Path) -> dict[str, int]:
    """Return the lines of a file of the kernel's that name a number each. Raises OSError."""
    words = (line.replace(":", " ").split() for line in path.read_text(encoding="ascii").splitlines())
    return {name: int(number) for name, number, *_ in filter(lambda each: len(each) > 1, words) if number.isdigit()}
