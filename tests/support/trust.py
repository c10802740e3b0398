"""Whose certificates the tests and what they start load: one that nobody has the key of, unless a test says so.

Clients for TLS are made everywhere, by the host several times in a turn, and to load the machine's certificates for
each takes most of such a turn.
"""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import certifi

# One authority, whose key nobody has.
_NOBODY = Path(__file__).resolve().parents[1] / "data" / "authority.pem"

# For the environment of a process. The second, for else the host checks the machine's certificates in each turn.
TRUST_NOBODY = {"SSL_CERT_FILE": str(_NOBODY), "HERMES_SKIP_SSL_GUARD": "1"}


def trust_nobody() -> None:
    """Have this process and what it starts load no other certificates, but pip those that it loads now."""
    os.environ.setdefault("PIP_CERT", ssl.get_default_verify_paths().cafile or certifi.where())
    os.environ.update(TRUST_NOBODY)
