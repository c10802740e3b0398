"""What of other themes is private: what was said in a chat of a messaging platform, unless the operator shares it.

A row's address is the theme of the chat it was said in, as far as that is known, and the kind of chat:

| Row | Address |
|---|---|
| of a chat's theme | `@slack/default/<digest> group`, `... direct` where it was a direct message, or nobody says |
| of another theme, said in a chat | `@slack/default/ group`, `@slack/default/ direct` |
| said elsewhere | none: it is not private |

The fragment `readable` of store/queries/fragments.sql finds the address and compares it with what is shared.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from .theme import ThemeSet, normalise_theme

EVERYTHING: Final = ("%",)  # for the operator, who reads the table itself
_SPECIAL = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


class SharedChats:
    """The setting `shared_chats`: `slack` shares what is said there in groups, `@slack/*` and single themes all."""

    def __init__(self, words: Iterable[str] = (), identity_key: str = "") -> None:
        """`words` of the setting, each a platform, a chat's theme, or how such themes begin (`@slack/*`)."""
        given = [word.strip() for word in words]
        platforms = [normalise_theme(word, identity_key) for word in given if not word.startswith("@")]
        themes = [word for word in given if word.startswith("@")]
        self._themes = ThemeSet([*themes, *(f"@{platform}/*" for platform in platforms)], identity_key)
        self.addresses: tuple[str, ...] = (
            *(f"@{_literally(platform)}/% group" for platform in platforms),
            *(_address(theme, identity_key) for theme in themes),
        )

    def opens(self, theme: str) -> bool:
        """Return whether other sessions may name `theme`: it is no chat's, or one of which something is shared."""
        return not theme.startswith("@") or theme in self._themes


def _address(theme: str, identity_key: str) -> str:
    if theme.endswith("*"):
        return _literally(" ".join(theme[:-1].lower().split())) + "%"
    return _literally(normalise_theme(theme, identity_key)) + " %"


def _literally(text: str) -> str:
    return text.translate(_SPECIAL)
