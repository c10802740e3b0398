"""Regular expressions that are compiled by their first use: of some hundred, most processes need a few."""

from __future__ import annotations

import functools
import re
from typing import Any, AnyStr, cast

ready_pattern = functools.cache(re.compile)


def late_pattern(pattern: AnyStr, flags: re.RegexFlag = re.NOFLAG) -> re.Pattern[AnyStr]:
    """Return a pattern that its first use compiles. A module has its patterns in this form."""
    return cast("re.Pattern[AnyStr]", _LatePattern(pattern, flags))


class _LatePattern:
    """Stands for a compiled pattern, and keeps each of its attributes from when it is first asked for."""

    def __init__(self, *source: object) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        value = getattr(ready_pattern(*self._source), name)
        setattr(self, name, value)  # from now on Python finds it without this method
        return value
