"""What settings say of single themes: in which language words are stemmed, and how long turns are kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from .theme import normalise_theme

DEFAULT_LANGUAGE: Final = "english"
# What Postgres 15 and later bring along; `simple` stems nothing and leaves no word out.
LANGUAGES: Final = (
    "simple", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "finnish", "french", "german",
    "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali", "norwegian", "portuguese",
    "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
)  # fmt: skip


class Languages:
    """The language of every theme: `default`, or what a pair `theme=language` says.

    The theme of a pair may end with `*`; of several pairs that fit, the first one counts.
    """

    def __init__(self, default: str = DEFAULT_LANGUAGE, pairs: Sequence[str] = ()) -> None:
        self._default = default
        split = [pair.rpartition("=") for pair in pairs]
        self._named = [(normalise_theme(theme), language) for theme, _, language in split]
        self.all: tuple[str, ...] = tuple(dict.fromkeys([default, *(language for _, _, language in split)]))

    def of(self, theme: str) -> str:
        """Return the language of one theme."""
        for named, language in self._named:
            if theme == named or (named.endswith("*") and theme.startswith(named[:-1])):
                return language
        return self._default


ROLES: Final = ("user", "assistant", "system", "tool")
ROLE: Final = f"(?:{'|'.join(ROLES)})"  # a pattern
PATTERN: Final = rf".+=(?:forever|[1-9][0-9]{{0,4}} ?d?(?: +{ROLE})*)"
