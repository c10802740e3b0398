"""A dictionary of bounded size."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

_K = TypeVar("_K")
_V = TypeVar("_V")


class LruDict(OrderedDict[_K, _V]):
    """The `max_items` keys that were set or used last; threads that share it must lock it."""

    def __init__(self, max_items: int) -> None:
        super().__init__()
        self._max_items = max_items

    def __setitem__(self, key: _K, value: _V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._max_items:
            self.popitem(last=False)

    def use(self, key: _K) -> _V | None:
        """Return the value of a key, if there is one, and mark it as just used, which `get` does not."""
        if key in self:
            self.move_to_end(key)
        return self.get(key)
