"""The words that embedding models want before a document or a question.

Models trained with such instructions lose recall without them; models trained without lose recall with them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_RETRIEVE = "Represent this sentence for searching relevant passages: "
_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "


@dataclass(frozen=True, slots=True)
class Instructions:
    """Prefixes, put before the text without anything between."""

    document: str = ""
    query: str = ""


# The first match wins, so a special member of a family stands before the family.
_FAMILIES: tuple[tuple[str, Instructions], ...] = (
    (r"nomic-embed-text", Instructions("search_document: ", "search_query: ")),
    (r"e5-\w+-instruct|e5-mistral", Instructions("", _TASK)),
    (r"(?<![a-z0-9])e5-", Instructions("passage: ", "query: ")),
    (r"bge-(small|base|large)-zh", Instructions("", "为这个句子生成表示以用于检索相关文章：")),
    (r"bge-(small|base|large)", Instructions("", _RETRIEVE)),
    (r"mxbai-embed", Instructions("", _RETRIEVE)),
    (r"arctic-embed-?(l-|m-)?(v)?2", Instructions("", "query: ")),
    (r"arctic-embed", Instructions("", _RETRIEVE)),
    (r"qwen3-embedding", Instructions("", _TASK)),
    (r"embedding-?gemma", Instructions("title: none | text: ", "task: search result | query: ")),
)


def instructions_for(model: str) -> Instructions:
    """What the family of `model` was trained with; empty prefixes for a model that is not known."""
    name = model.lower()
    for pattern, instructions in _FAMILIES:
        if re.search(pattern, name):
            return instructions
    return Instructions()
