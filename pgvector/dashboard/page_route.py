"""One address of the API and what answers it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .params import Params
from .served_homes import ServedHome


@dataclass(frozen=True)
class PageRoute:
    """One address below the API. Only those with `changes` may change anything; they take a JSON body."""

    path: str
    answer: Callable[[ServedHome, Params], Mapping[str, Any]]
    changes: bool = False
