"""The options of the setup wizard, and its questions at the terminal."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from ...config.settings import Settings


@dataclass(frozen=True)
class SetupOptions:
    """The wizard's options; None leaves the choice to the wizard. `source` is a wheel or folder of a model.

    `keep_api_key`: write the endpoint's key from the environment into .env.
    """

    dsn: str | None = None
    admin_dsn: str = ""
    embed_url: str | None = None
    embed_model: str | None = None
    source: Path | None = None
    keep_api_key: bool = False
    attended: bool = False


class Cancelled(KeyboardInterrupt):
    """The terminal was closed, or input ended at a question."""


class Terminal:
    """Asks on `stream` and reads from stdin. Raises Cancelled at the end of input, KeyboardInterrupt at Ctrl-C."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    @staticmethod
    def can_ask() -> bool:
        """Return whether stdin and stdout are terminals, so that somebody can answer."""
        return all(each is not None and not each.closed and each.isatty() for each in (sys.stdin, sys.stdout))

    def line(self, question: str, default: str = "", *, shown: str = "") -> str:
        """Ask for a line; an empty one means `default`, which is displayed as `shown` if it must stay hidden."""
        suffix = f" [{shown or default}]" if shown or default else ""
        self._stream.write(f"{question}{suffix}: ")
        self._stream.flush()
        given = sys.stdin.readline()
        if not given:
            self._stream.write("\n")
            raise Cancelled
        return given.strip() or default

    def secret(self, question: str) -> str:
        """Ask for a secret without echoing it; it may be empty."""
        try:
            return getpass.getpass(f"{question}: ", stream=self._stream).strip()
        except EOFError:
            raise Cancelled from None

    def choice(self, question: str, options: Mapping[str, str], default: str) -> str:
        """Ask for one of the options by its number; return its key."""
        keys = list(options)
        self._stream.write(f"{question}\n")
        for number, key in enumerate(keys, 1):
            self._stream.write(f"  {number}) {options[key]}\n")
        while True:
            given = self.line("Number", str(keys.index(default) + 1))
            if given in keys:
                return given
            if given.isdecimal() and 1 <= int(given) <= len(keys):
                return keys[int(given) - 1]
            self._stream.write(f"write a number from 1 to {len(keys)}\n")

    def agrees(self, question: str, *, default: bool) -> bool:
        """Ask for yes or no."""
        while True:
            given = self.line(f"{question} [{'Y/n' if default else 'y/N'}]").lower()
            if given in ("", "y", "yes", "n", "no"):
                return default if not given else given.startswith("y")
            self._stream.write("yes or no\n")


@dataclass
class Interview:
    """The base of the wizard's steps: current settings, options, terminal, output, and notes printed at the end."""

    home: Path
    current: Settings
    options: SetupOptions
    ask: Terminal
    say: Callable[[str], None]
    notes: list[str]
