"""Which other themes a tool call may read: the settings `cross_theme` and `shared_chats`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Literal

from .errors import InvalidArgument
from .privacy import SharedChats
from .theme import ThemeRules, ThemeSet

Policy = Literal["none", "agents", "all", "named"]
Offer = Literal["all", "named", "own"]
_POLICIES: Final[dict[str, Policy]] = {"none": "none", "agents": "agents", "all": "all"}


class Reach:
    """What the sessions of a home may read beyond their own themes. Immutable."""

    def __init__(self, words: Sequence[str], rules: ThemeRules, chats: SharedChats) -> None:
        """`words` of the setting: one of none, agents and all alone, or names of themes. `chats` that are shared."""
        self._words = tuple(words)
        self._chats = chats
        self.shared = chats.addresses
        single = words[0].lower() if len(words) == 1 else "none" if not words else ""
        self.policy: Policy = _POLICIES.get(single, "named")
        self._named = ThemeSet(words if self.policy == "named" else (), rules.identity_key)

    def check(self, theme: str, *, own: frozenset[str], chat: bool) -> None:
        """Raises InvalidArgument, naming the setting, when a session may not read `theme`, whether it exists or not."""
        if theme in own:
            return
        if not self._chats.opens(theme):
            raise InvalidArgument(
                "the theme of a messaging chat is read in that chat only, unless the operator shares it (setting "
                "`shared_chats`); leave `scope` out"
            )
        if self._everything(chat) or (self.policy == "named" and theme in self._named):
            return
        raise InvalidArgument(f"this session may not read other themes than its own{self._remedy(chat)}")

    def check_all(self, *, chat: bool) -> None:
        """Raises InvalidArgument, naming the setting, when a session may not read every theme."""
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
        if self.policy == "named":
            return f", except {', '.join(self._words)} (setting `cross_theme`); name one of these, or leave `scope` out"
        why = "agents, and this is a messaging chat" if self.policy == "agents" and chat else self.policy
        return f" (setting `cross_theme`: {why}); leave `scope` out"
