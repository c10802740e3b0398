"""Ports that stay free until whoever is to have them comes."""

from __future__ import annotations

import random
import socket


def free_port() -> int:
    """A port of loopback on which nobody listens, below those that systems hand out to whoever asks for any."""
    while True:
        port = random.SystemRandom().randrange(12_000, 32_000)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
