"""Commands in what we say, as they can be typed where this runs."""

from __future__ import annotations

import functools
import re
import shlex
import shutil
import sys
from importlib.util import find_spec

_OWN = "hermes-pgvector"
_IN_TEXT = re.compile(rf"\b{_OWN} (?=[a-z])")
_INSTALLED_AS = "hermes_memory_pgvector"


@functools.cache
def own_command() -> str:
    """Return what our commands begin with: a copy of the plugin has no program, only the host's `hermes pgvector`."""
    installed = __name__.partition(".")[0] == _INSTALLED_AS
    within_reach = shutil.which(_OWN) is not None or shutil.which("hermes") is None
    return _OWN if installed and within_reach else "hermes pgvector"


def typed(text: str) -> str:
    """Return the text with each `hermes-pgvector VERB` as it can be typed here."""
    return text if own_command() == _OWN else _IN_TEXT.sub(own_command() + " ", text)


def pip_install(*packages: str) -> str:
    """Return the command that puts packages into this Python."""
    return _pip("install", packages)


def pip_uninstall(*packages: str) -> str:
    """Return the command that takes them out."""
    return _pip("uninstall", packages)


def _pip(verb: str, packages: tuple[str, ...]) -> str:
    python = shlex.quote(sys.executable or "python3")
    # Environments made by uv have no pip.
    pip = f"{python} -m pip {verb}" if find_spec("pip") is not None else f"uv pip {verb} --python {python}"
    return " ".join([pip, *(shlex.quote(package) for package in packages)])
