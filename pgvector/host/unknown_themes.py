"""What there is to say where a tool call names a theme in which nothing stands."""

from __future__ import annotations

import difflib
import time
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ..domain.errors import HermesPgvectorError, InvalidArgument
from ..domain.fork_safety import at_import
from ..domain.types import Scope
from .tool_scopes import ToolScope

if TYPE_CHECKING:
    from ..runtime.process import Runtime

_MOST = 3  # names that are suggested
_ALIKE = 0.6


class ThemeNotes:
    """Tells of themes that hold nothing. `ends`: when an answer is due (monotonic)."""

    def __init__(self, runtime: Runtime, here: ToolScope, ends: float) -> None:
        self._runtime = runtime
        self._here = here
        self._ends = ends

    def about(self, scope: Scope) -> str:
        """Return a note where `scope` names another theme in which this session can find nothing; else nothing.

        Themes of like names are told as far as this session may read something in them, chats never.
        """
        if scope.kind != "theme" or scope.own:
            return ""
        with at_import:
            from ..store.known_themes import theme_holds, theme_names
        try:
            with self._runtime.backend.connection(max(0.05, self._ends - time.monotonic())) as conn:
                if theme_holds(conn, scope):
                    return ""
                near = difflib.get_close_matches(scope.theme, self._open(theme_names(conn)), n=2 * _MOST, cutoff=_ALIKE)
                known = [name for name in near if theme_holds(conn, replace(scope, theme=name))][:_MOST]
        except HermesPgvectorError:
            return ""
        meant = f"; did you mean {' or '.join(map(repr, known))}?" if known else ""
        return f"no theme of the name {scope.theme!r} holds anything that can be read here{meant}"

    def _open(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if not name.startswith("@") and self._may_read(name)]

    def _may_read(self, theme: str) -> bool:
        try:
            self._here.policy.reach.check(theme, own=frozenset(), chat=self._here.place.chat)
        except InvalidArgument:
            return False
        return True
