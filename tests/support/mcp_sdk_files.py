"""The other line of the MCP SDK: 2.x beside the 1.x that the tests' environment has."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

_WANTED = "mcp>=2,<3"
_TIMEOUT_S = 600


@cache
def newer_sdk() -> Path:
    """A folder for PYTHONPATH with the SDK's line 2.x, fetched to .cache/mcp2 where it is not there yet."""
    folder = Path(__file__).resolve().parents[2] / ".cache" / "mcp2" / sys.implementation.cache_tag
    if not (folder / "complete").exists():
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
        subprocess.run([*pip, "--target", str(folder), _WANTED], check=True, timeout=_TIMEOUT_S, capture_output=True)
        (folder / "complete").touch()
    return folder
