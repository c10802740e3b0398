"""Machines whose clock is wrong."""

from __future__ import annotations

# Before a program's other lines: its own clock is so many seconds ahead of the one that everybody else has.
CLOCK_AHEAD = """
import datetime, time
ahead_s = {ahead_s!r}
real, real_ns, true = time.time, time.time_ns, datetime.datetime
time.time = lambda: real() + ahead_s
time.time_ns = lambda: real_ns() + int(ahead_s * 1e9)

class Ahead(true):
    @classmethod
    def now(cls, tz=None):
        return true.now(tz) + datetime.timedelta(seconds=ahead_s)

datetime.datetime = Ahead
"""
