"""Adding one item to a YAML list that stands line by line, or taking one out, without touching its other lines."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import yaml


def edit_block_list(
    text: str, name: yaml.Node, node: yaml.SequenceNode, value: list[object], inline: Callable[[object], str]
) -> str | None:
    """`text` with the list `node`, whose name is `name`, made `value`; None for more than one simple item's change.

    The caller checks that the result means what it should.
    """
    import yaml

    if not all(isinstance(item, yaml.ScalarNode) for item in node.value):
        return None
    lines = [_line_of(text, item) for item in node.value]
    starts = [text[line[0] : item.start_mark.index] for line, item in zip(lines, node.value, strict=True)]
    if any(start.strip() != "-" for start in starts):
        return None
    held = [yaml.safe_load(text[item.start_mark.index : item.end_mark.index]) for item in node.value]
    if value[:-1] == held:
        start, end = lines[-1]
        newline = "\r\n" if text[start:end].endswith("\r\n") else "\n"
        lead = "" if text[start:end].endswith("\n") else newline
        return text[:end] + lead + starts[-1] + inline(value[-1]) + newline + text[end:]
    for place, (start, end) in enumerate(lines):
        if held[:place] + held[place + 1 :] == value:
            colon = text.index(":", name.end_mark.index) + 1
            empty = "" if value else " []"
            return text[:colon] + empty + text[colon:start] + text[end:]
    return None


def _line_of(text: str, node: yaml.Node) -> tuple[int, int]:
    """Where the line that a node begins in begins and ends, its line break included."""
    start = text.rfind("\n", 0, node.start_mark.index) + 1
    end = text.find("\n", node.end_mark.index)
    return start, end + 1 if end >= 0 else len(text)
