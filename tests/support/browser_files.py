"""The real Chromium of the tests.

Fetch it with `PYTHONPATH=. python -m tests.support.browser_files DIR`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from .debian_files import DebianProgram

_CHROMIUM = DebianProgram(
    package="chromium-headless-shell",
    file="usr/lib/chromium/chromium-headless-shell",
    variable="PGVECTOR_TEST_CHROMIUM",
    # First the one that has no windows at all, which is quicker.
    names=("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome"),
    # Its data; and a machine without a screen may have no font.
    beside=("chromium-common", "fonts-dejavu-core"),
    advice="install it (Debian: apt-get install chromium-headless-shell), or name one in PGVECTOR_TEST_CHROMIUM",
)


@cache
def browser_program() -> tuple[Path, Mapping[str, str]]:
    """Return Chromium, and the environment that it runs in; fetched to .cache/chromium where the machine has none.

    Raises RuntimeError when it cannot be had.
    """
    return _CHROMIUM.find(Path(__file__).resolve().parents[2] / ".cache" / "chromium")


if __name__ == "__main__":
    print(_CHROMIUM.find(Path(sys.argv[1]).absolute())[0])
