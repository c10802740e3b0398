"""Adding an item to a list of config.yaml that stands line by line, and taking one out."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hermes_memory_pgvector.config.sources import set_values
from hermes_memory_pgvector.domain.errors import ConfigurationError

ENABLED = ("plugins", "enabled")
HEAD = "plugins:\n  enabled:"


def edited(home: Path, text: str, value: list[str]) -> str:
    path = home / "config.yaml"
    path.write_bytes(text.encode())
    set_values(home, {ENABLED: value})
    after = path.read_bytes().decode()
    assert yaml.safe_load(after)["plugins"]["enabled"] == value
    return after


@pytest.mark.parametrize(
    ("before", "value", "after"),
    [
        ("\n  - a # one\n", ["a", "p"], "\n  - a # one\n  - p\n"),
        ("\n    - a", ["a", "p"], "\n    - a\n    - p\n"),
        ("\r\n  - a\r\nx: 1\r\n", ["a", "p"], "\r\n  - a\r\n  - p\r\nx: 1\r\n"),
        ("\n  # on\n  - a\n  - p  # us\n  - b # c\n", ["a", "b"], "\n  # on\n  - a\n  - b # c\n"),
        (" # on\n  - p\n  other: 1\n", [], " [] # on\n  other: 1\n"),
    ],
)
def test_only_the_items_own_line_changes(tmp_path: Path, before: str, value: list[str], after: str) -> None:
    assert edited(tmp_path, HEAD + before, value) == HEAD + after


@pytest.mark.parametrize("text", ["\n    - [a]\n", "\n    - a\n    - b\n", "\n    -\n      a\n"])
def test_more_than_that_is_refused_with_what_to_write(tmp_path: Path, text: str) -> None:
    with pytest.raises(ConfigurationError, match="by hand"):
        edited(tmp_path, HEAD + text, ["x", "y", "z"])
