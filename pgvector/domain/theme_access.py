"""Which other themes a tool call may read, by the settings `cross_theme` and `shared_chats`.

What was said in a chat of a messaging platform is private to its theme, unless the operator shares it.

A row's address is the theme of the chat it was said in, as far as that is known, and the kind of chat:

| Row | Address |
|---|---|
| of a chat's theme | `@slack/default/<digest> group`, `... direct` if it was a direct message, or unknown |
| of another theme, said in a chat | `@slack/default/ group`, `@slack/default/ direct` |
| said elsewhere | none: it is not private |

The fragment `readable` of store/queries/fragments.sql finds the address and compares it with what is shared.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

from .errors import InvalidArgument
from .theme import ThemeRules, ThemeSet, beginning_of, is_chat, normalise_theme

EVERYTHING: Final = ("%",)  # for the operator, who reads the table itself
_SPECIAL = str.maketrans({"\\": "\\\\", "%": "\\%", "_": "\\_"})


class SharedChats:
    """The setting `shared_chats`: `slack` shares what its groups say, `@slack/*` and single themes everything."""

    def __init__(self, words: Iterable[str] = (), identity_key: str = "") -> None:
        """Take the `words` of the setting, each a platform, a chat's theme, or a prefix of such themes (`@slack/*`)."""
        given = [word.strip() for word in words]
        platforms = [normalise_theme(word, identity_key) for word in given if not is_chat(word)]
        themes = [word for word in given if is_chat(word)]
        self._themes = ThemeSet([*themes, *(f"@{platform}/*" for platform in platforms)], identity_key)
        self.addresses: tuple[str, ...] = (
            *(f"@{_literally(platform)}/% group" for platform in platforms),
            *(_address(theme, identity_key) for theme in themes),
        )

    def opens(self, theme: str) -> bool:
        """Return whether other sessions may name `theme`: it is not a chat's, or something of that chat is shared."""
        return not is_chat(theme) or theme in self._themes


def _address(theme: str, identity_key: str) -> str:
    if theme.endswith("*"):
        return _literally(beginning_of(theme[:-1])) + "%"
    return _literally(normalise_theme(theme, identity_key)) + " %"


def _literally(text: str) -> str:
    return text.translate(_SPECIAL)


Policy = Literal["none", "agents", "all", "named"]
Offer = Literal["all", "named", "own"]
_POLICIES: Final[dict[str, Policy]] = {"none": "none", "agents": "agents", "all": "all"}


class Reach:
    """The themes that the sessions of a home may read besides their own. Immutable."""

    def __init__(self, words: Sequence[str], rules: ThemeRules, chats: SharedChats) -> None:
        """Take the `words` of the setting (none, agents or all alone, or names of themes) and the shared `chats`."""
        self._words = tuple(words)
        self._chats = chats
        self.shared = chats.addresses
        single = words[0].lower() if len(words) == 1 else "none" if not words else ""
        self.policy: Policy = _POLICIES.get(single, "named")
        self._named: ThemeSet | frozenset[str] = ThemeSet(words if self.policy == "named" else (), rules.identity_key)
        self._by_token = False

    @classmethod
    def of_token(cls, themes: Sequence[str], rules: ThemeRules, chats: SharedChats) -> Reach:
        """Return the reach of sessions whose token is bound to these themes, each given by its whole name."""
        reach = cls((), rules, chats)
        reach._words = tuple(themes)
        named = frozenset(map(rules.resolve_name, themes))
        reach._named, reach.policy = named, "named" if len(named) > 1 else "none"
        reach._by_token = True
        return reach

    def allows(self, theme: str, *, chat: bool) -> bool:
        """Return whether a session may read `theme`, which is not its own."""
        named = self.policy == "named" and theme in self._named
        return self._chats.opens(theme) and (named or self._everything(chat))

    def check(self, theme: str, *, chat: bool) -> None:
        """Raise InvalidArgument, naming the setting, unless this `allows` a theme, whether it exists or not."""
        if self.allows(theme, chat=chat):
            return
        if not self._chats.opens(theme):
            raise InvalidArgument(
                "the theme of a messaging chat is read in that chat only, unless the operator shares it (setting "
                "`shared_chats`); leave `scope` out"
            )
        raise InvalidArgument(f"this session may not read other themes than its own{self._remedy(chat)}")

    def check_all(self, *, chat: bool) -> None:
        """Raise InvalidArgument, naming the setting, when a session may not read every theme."""
        if not self._everything(chat):
            raise InvalidArgument(f"scope `all` is not allowed in this session{self._remedy(chat)}")

    def offer(self, *, chat: bool) -> Offer:
        """Return what a session may name as a scope: `all` themes, those `named` in the setting, or only its `own`."""
        if self._everything(chat):
            return "all"
        return "named" if self.policy == "named" else "own"

    def _everything(self, chat: bool) -> bool:
        return self.policy == "all" or (self.policy == "agents" and not chat)

    def _remedy(self, chat: bool) -> str:
        if self._by_token:
            what = "name one of these, or leave" if self.policy == "named" else "leave"
            return f": its token is for {', '.join(self._words)} alone; {what} `scope` out"
        if self.policy == "named":
            return f", except {', '.join(self._words)} (setting `cross_theme`); name one of these, or leave `scope` out"
        why = "agents, and this is a messaging chat" if self.policy == "agents" and chat else self.policy
        return f" (setting `cross_theme`: {why}); leave `scope` out"
