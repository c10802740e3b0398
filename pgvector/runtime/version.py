"""The version of the code that this process has loaded, which an upgrade does not change."""

from __future__ import annotations

import re
from pathlib import Path

_MANIFEST = Path(__file__).parents[1] / "plugin.yaml"


def _read() -> str:
    try:
        found = re.search(r'^version: "([^"]+)"$', _MANIFEST.read_text(encoding="utf-8"), re.MULTILINE)
    except OSError:
        return ""
    return found[1] if found else ""


LOADED_VERSION = _read()
