"""Somebody at the memory page in a soak: looks, searches, adds, edits, forgets, and takes back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx

from . import texts
from .clients import Client
from .ledger import PAGE, Ledger
from .mcp_client import McpClient
from .services import Web

_API = "/api/plugins/pgvector"
_TIMEOUT_S = 90.0  # beyond what the page says of the longest change
_REFUSED, _LATER = 400, 503
_SHARED_NUMBER = " of several themes ("  # since a sequence was set back
# Of what can be taken back the page keeps the last hundred changes, for ten minutes.
_UNDOABLE_MOST, _UNDOABLE_S = 20, 500.0


@dataclass
class Shown:
    """A memory that the page shows, and what takes back its last change."""

    theme: str
    number: int
    ref: str


@dataclass
class Undoable:
    """A change, and which memory is gone or stands when it is taken back."""

    token: str
    theme: str
    ref: str
    gone: int | None
    stands: int | None
    until: float


class PageClient(Client):
    """One tab of the page, in a theme of its own; it also changes what MCP clients remembered."""

    door = PAGE
    actions = {  # noqa: RUF012
        "search": 1, "list": 1, "row": 0.5, "agent_view": 1, "overview": 0.3,
        "add": 2, "edit": 2, "forget": 1, "undo": 1, "take": 1,
    }  # fmt: skip

    def __init__(
        self, index: int, web: Web, theme: str, others: Sequence[McpClient], ledger: Ledger, *, seed: int, per_s: float
    ) -> None:
        super().__init__("page", index, ledger, seed=seed, per_s=per_s)
        self._web, self._theme, self._others = web, theme, others
        self._shown: list[Shown] = []
        self._undoable: dict[str, Undoable] = {}  # by ref
        self._life = 0

    def forget_numbers(self) -> None:
        """As said there; what could be taken back cannot be any more."""
        self._shown.clear()
        self._undoable.clear()

    def play(self) -> None:
        """Open the page of each life of the server, by the address that it prints."""
        while not self.closed:
            address = self._web.address() if self._web.serves and self._web.life != self._life else None
            if address is None:
                time.sleep(0.1)
                continue
            self._life = self._web.life
            self._undoable.clear()  # it is in the memory of the server
            base = urlsplit(address)
            with httpx.Client(base_url=f"http://{base.netloc}", timeout=_TIMEOUT_S) as http:
                self._visit(http, base.fragment)

    def _there(self) -> bool:
        return self._web.serves and self._web.life == self._life and not self.closed

    def _visit(self, http: httpx.Client, token: str) -> None:
        try:
            answer = http.post("/session", json={"token": token})
        except httpx.HTTPError:
            time.sleep(0.1)
            return
        if answer.status_code != 200:
            self.accuse(f"the address was not taken: {answer.status_code} {answer.text[:200]}")
        http.headers["X-Hermes-Session-Token"] = answer.json().get("session", "")
        while self._there():
            time.sleep(0.1 if self.paused else self.wait_s())
            if self.paused or not self._there():
                continue
            with self.lock:
                getattr(self, f"_{self.some_action()}")(http)

    # -- looking

    def _look(self, http: httpx.Client, what: str, path: str, **params: str) -> None:
        # Of a theme that holds nothing the page says that there is none.
        if what != "overview" and not self._own():
            return
        begun = self.begin(self._life, what, self._theme, self.next_number())
        self._asked(begun, lambda: http.get(_API + path, params=params), own=what != "overview")

    def _search(self, http: httpx.Client) -> None:
        self._look(http, "search", "/search", q=self._question(), theme=self._theme)

    def _list(self, http: httpx.Client) -> None:
        self._look(http, "list", "/memories", theme=self._theme)

    def _agent_view(self, http: httpx.Client) -> None:
        self._look(http, "agent view", "/agent-view", message=self._question(), theme=self._theme)

    def _overview(self, http: httpx.Client) -> None:
        self._look(http, "overview", "/overview")

    def _row(self, http: httpx.Client) -> None:
        if own := self._own():
            self._look(http, "row", "/row", ref=self.random.choice(own).ref)

    def _own(self) -> list[Shown]:
        return [each for each in self._shown if each.theme == self._theme]

    def _question(self) -> str:
        return texts.question(self._theme, self._shown[-1].number if self._shown else 1)

    # -- changing

    def _take(self, http: httpx.Client) -> None:
        """Take over a memory that was remembered through MCP."""
        other = self.random.choice(self._others)
        if other.remembered:
            number, row = other.remembered.pop()
            self._shown.append(Shown(other.theme, number, f"m{row}"))

    def _add(self, http: httpx.Client) -> None:
        number = self.next_number()
        said = {"theme": self._theme, "content": texts.fact(self._theme, number)}
        if answer := self._change(http, "add", "/add", self._theme, number, said):
            (row,) = answer["rows"]
            self._standing(answer, Shown(self._theme, number, row["ref"]), gone=number, stands=None)

    def _edit(self, http: httpx.Client) -> None:
        if (old := self._some()) is None:
            return
        number = self.next_number()
        said = {"ref": old.ref, "content": texts.fact(old.theme, number)}
        if self.random.random() < 0.5:
            said["expected"] = texts.fact(old.theme, old.number)
        if answer := self._change(http, "edit", "/edit", old.theme, number, said, gone=old.number):
            self._standing(answer, Shown(old.theme, number, old.ref), gone=number, stands=old.number)

    def _forget(self, http: httpx.Client) -> None:
        if (old := self._some()) is None:
            return
        said = {"refs": [old.ref], "theme": old.theme}
        if answer := self._change(http, "forget", "/forget", old.theme, self.next_number(), said, gone=old.number):
            self._note_undo(answer, old.theme, old.ref, gone=None, stands=old.number)

    def _undo(self, http: httpx.Client) -> None:
        now = time.monotonic()
        self._undoable = {ref: each for ref, each in self._undoable.items() if each.until > now}
        if not self._undoable:
            return
        change = self._undoable.pop(self.random.choice(sorted(self._undoable)))
        self._shown = [each for each in self._shown if each.ref != change.ref]
        more = {name: value for name in ("gone", "stands") if (value := getattr(change, name)) is not None}
        done = self._change(http, "undo", "/undo", change.theme, self.next_number(), {"token": change.token}, **more)
        if done and change.stands is not None:
            self._shown.append(Shown(change.theme, change.stands, change.ref))

    def _some(self) -> Shown | None:
        """A memory that stands, taken off our list, and its last change with it."""
        if not self._shown:
            return None
        chosen = self._shown.pop(self.random.randrange(len(self._shown)))
        self._undoable.pop(chosen.ref, None)
        return chosen

    def _standing(self, answer: dict[str, Any], shown: Shown, *, gone: int | None, stands: int | None) -> None:
        self._shown.append(shown)
        self._note_undo(answer, shown.theme, shown.ref, gone=gone, stands=stands)

    def _note_undo(self, answer: dict[str, Any], theme: str, ref: str, *, gone: int | None, stands: int | None) -> None:
        if not answer["undo"]:
            self.accuse(f"nothing to undo after: {answer['says']}")
            return
        until = time.monotonic() + _UNDOABLE_S
        self._undoable[ref] = Undoable(answer["undo"]["token"], theme, ref, gone, stands, until)
        if len(self._undoable) > _UNDOABLE_MOST:
            del self._undoable[next(iter(self._undoable))]

    def _change(
        self, http: httpx.Client, what: str, path: str, theme: str, number: int, said: dict[str, Any], **more: object
    ) -> dict[str, Any] | None:
        begun = self.begin(self._life, what, theme, number, **more)
        return self._asked(begun, lambda: http.post(_API + path, json=said), own=False)

    # -- what is answered

    def _asked(self, begun: dict[str, Any], ask: Callable[[], httpx.Response], *, own: bool) -> dict[str, Any] | None:
        """The answer; None where there is none, or one that says what is wrong."""
        try:
            answer = ask()
        except httpx.HTTPError as exc:
            self.gone(begun)
            time.sleep(1.0)  # a connection may break before the end of its server is known here
            if self._there():
                self.accuse(f"{begun['do']} was not answered: {exc!r}")
            return None
        if answer.status_code == 200:
            self.end(begun, found=True, text=answer.text if own else "")
            return dict(answer.json())
        wrong = f"{answer.status_code} {answer.text[:250]}"
        if answer.status_code != _LATER and _SHARED_NUMBER not in wrong:
            self.accuse(f"{begun['do']} of {begun['theme']}-{begun.get('gone', begun['begin'])}: {wrong}")
        self.end(begun, found=False, error=wrong, nothing=answer.status_code == _REFUSED)
        return None
