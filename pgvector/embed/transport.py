"""What the ways to an endpoint have in common: the moment by which they are over, what they answer, how they fail."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

# Recall embeds one question at a time and the drain one batch: more would only queue in the endpoint.
MAX_CONNECTIONS = 8
KEEPALIVE_S = 30.0


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock, and how many seconds it was away when it was set."""

    at: float
    total_s: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """Return the moment `seconds` from now."""
        return cls(time.monotonic() + seconds, seconds)

    def left_s(self) -> float:
        """Return the seconds to go; 0 or less when it has passed."""
        return self.at - time.monotonic()


class TransportError(Exception):
    """There is no complete answer."""


class AllBusy(TransportError):
    """No connection became free by the deadline."""


class ConnectTooSlow(TransportError):
    """No connection was made by the deadline."""


class AnswerTooSlow(TransportError):
    """The answer was not complete by the deadline."""


class TransportClosed(Exception):
    """Nothing can be asked any more."""


@dataclass(frozen=True, slots=True)
class OpenReply:
    """The head of a reply, with header names in lower case, and the body as it comes, which may be packed."""

    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]


class Transport(Protocol):
    """Asks one server, over connections that are kept alive. Safe to call from several threads."""

    def answer(
        self, url: str, content: bytes | None, headers: Mapping[str, str], deadline: Deadline
    ) -> AbstractContextManager[OpenReply]:
        """Post `content`, or with None send a GET, and yield what comes back.

        That, and reading the body, raises TransportError, and TransportClosed after `close`.
        """
        ...

    def close(self) -> None:
        """Close all connections, also those in use, whose requests end at once."""
        ...


def addresses(host: str, port: int) -> list[str]:
    """Return the addresses of a host, in the order in which to try them. Raises TransportError."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as exc:
        raise TransportError(f"cannot resolve {host}: {exc}") from exc
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))
