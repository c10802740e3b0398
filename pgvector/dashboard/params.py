"""The parameters of a request, parsed and checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ..admin.common.refs import Ref, parse_refs
from ..admin.common.row_options import Page
from ..domain.dates import parse_when
from ..domain.errors import InvalidArgument
from ..domain.text import clean

_PAGE = 50  # rows, if a request gives no number
_PAGE_MOST = 200


@dataclass(frozen=True)
class Params:
    """The parameters of a request that reads, or the JSON body of one that changes something.

    Every method raises InvalidArgument for a value that cannot be read.
    """

    values: Mapping[str, Any]

    def text(self, name: str) -> str:
        """Return a text as it would be stored, empty if none was given."""
        value = self.values.get(name)
        if value is None:
            return ""
        if not isinstance(value, str):
            raise InvalidArgument(f"{name} must be text")
        return clean(value)

    def optional(self, name: str) -> str | None:
        """Return a text, None if none or an empty one was given."""
        return self.text(name) or None

    def needed(self, name: str) -> str:
        """Return a required text."""
        text = self.text(name)
        if not text.strip():
            raise InvalidArgument(f"{name} is missing")
        return text

    def choice(self, name: str, choices: Sequence[str]) -> str | None:
        """Return one of `choices`, None if nothing was given."""
        text = self.text(name)
        if text and text not in choices:
            raise InvalidArgument(f"{name} must be one of: {', '.join(choices)}")
        return text or None

    def flag(self, name: str) -> bool:
        """Return whether a flag is set; `false` and a missing value mean no."""
        value = self.values.get(name)
        if value in (None, "", "0", "false", False):
            return False
        if value in ("1", "true", True):
            return True
        raise InvalidArgument(f"{name} must be true or false")

    def number(self, name: str, default: int, *, least: int = 0, most: int) -> int:
        """Return a whole number from `least` to `most`."""
        value = self.values.get(name)
        if value in (None, ""):
            return default
        text = str(value)
        if isinstance(value, bool) or len(text) > len(str(most)) or not text.isascii() or not text.isdigit():
            raise InvalidArgument(f"{name} must be a whole number from {least} to {most}")
        number = int(text)
        if not least <= number <= most:
            raise InvalidArgument(f"{name} must be a whole number from {least} to {most}")
        return number

    def moment(self, name: str, *, end: bool = False, now: datetime | None = None) -> datetime | None:
        """Return a time; with `end` the end of the day, month or year that was named."""
        return parse_when(self.optional(name), name, zone=UTC, end=end, now=now)

    def page(self, now: datetime | None = None) -> Page:
        """Return `limit`, `offset`, `since` and `until`; "7d" counts back from `now`, by default by this machine."""
        return Page(
            self.number("limit", _PAGE, least=1, most=_PAGE_MOST),
            self.number("offset", 0, most=10_000_000),
            self.moment("since", now=now),
            self.moment("until", end=True, now=now),
        )

    def refs(self, name: str = "refs") -> list[Ref]:
        """Return the references of rows, at least one: a list, or a text separated by commas."""
        value = self.values.get(name)
        given = value.split(",") if isinstance(value, str) else value
        if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
            raise InvalidArgument(f"{name} must be a list of rows, as m12 or t345")
        return parse_refs(given)

    def ref(self) -> Ref:
        """Return the reference of the one row that `ref` names."""
        refs = self.refs("ref")
        if len(refs) != 1:
            raise InvalidArgument("ref names one row, as m12 or t345")
        return refs[0]
