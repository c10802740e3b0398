"""Adding an item to a list of config.yaml that stands line by line, and taking one out."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from hermes_memory_pgvector.admin.common.yaml_file import set_values

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
        ("\n  - a\n# x\nx: 1\n", ["a", "p"], "\n  - a\n  - p\n# x\nx: 1\n"),
        ("\n  # on\n  - a\n  - p  # us\n  - b # c\n", ["a", "b"], "\n  # on\n  - a\n  - b # c\n"),
        (" # on\n  - p\n  other: 1\n", [], " [] # on\n  other: 1\n"),
        ("\n  # on\n  - p # us\n  # b\n  - b\n", ["b"], "\n  # on\n  # b\n  - b\n"),
        ("\n  - p # us\n\n# x\nx: 1\n", [], " []\n\n# x\nx: 1\n"),
        (" a # on\nx: 1\n", ["b"], " [b] # on\nx: 1\n"),
        (" 5\n", ["b"], " [b]\n"),
    ],
)
def test_only_the_items_own_line_changes(tmp_path: Path, before: str, value: list[str], after: str) -> None:
    assert edited(tmp_path, HEAD + before, value) == HEAD + after


@pytest.mark.parametrize("text", ["\n    - [a]\n", "\n    - a # one\n    - b\n", "\n    -\n      a\n"])
def test_all_of_a_list_can_change(tmp_path: Path, text: str) -> None:
    assert edited(tmp_path, HEAD + text + "  # below\n  x: 1\n", ["x", "y"]).endswith("# below\n  x: 1\n")
