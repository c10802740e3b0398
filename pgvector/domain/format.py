"""Sizes, durations, counts and times as people read them."""

from __future__ import annotations

from datetime import datetime

from .dates import in_zone


def format_bytes(count: float) -> str:
    """Return a number of bytes to one decimal of a unit of 1000: `512 bytes`, `1.2 MB`."""
    if count < 1000:
        return plural(round(count), "byte")
    for unit in ("KB", "MB", "GB"):
        count /= 1000
        if count < 999.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:,.1f} TB"


def format_duration(seconds: float) -> str:
    """Return a duration in two units at most: `3 s`, `45 min`, `2 h 5 min`, `3 d 4 h`; at least `1 s`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    minutes = round(seconds / 60)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 48 else f"{hours // 24} d {hours % 24} h"


def plural(count: int, one: str, many: str = "") -> str:
    """Return a count with its noun: `1 memory`, `1,200 memories`. `many` defaults to `one` with an s."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def local_minute(moment: str) -> str:
    """Return an ISO time to the minute in this machine's zone; the database session's zone may be any other."""
    return in_zone(datetime.fromisoformat(moment), None).strftime("%Y-%m-%d %H:%M")
