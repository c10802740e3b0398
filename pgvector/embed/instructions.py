"""What is known of embedding models by their names: their prefixes, and whether their vectors may be cut.

Models trained with such instructions lose recall without them; models trained without lose recall with them.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ..domain.patterns import late_pattern
from ..domain.text import is_of_other_script

_RETRIEVE = "Represent this sentence for searching relevant passages: "
_TASK = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery: "
KNOWN = "auto"  # the setting that stands for the prefix that the model is known to want


class Instructions(NamedTuple):
    """Prefixes, put before the text without anything between."""

    document: str = ""
    query: str = ""


# The first match wins, so a special member of a family stands before the family.
_FAMILIES: tuple[tuple[str, Instructions], ...] = (
    (r"nomic-embed-text", Instructions("search_document: ", "search_query: ")),
    (r"e5-\w+-instruct|e5-mistral|gte-qwen|stella[-_]en|sfr-embedding|linq-embed", Instructions("", _TASK)),
    (r"(?<![a-z0-9])e5-", Instructions("passage: ", "query: ")),
    (r"bge-(small|base|large)-zh", Instructions("", "为这个句子生成表示以用于检索相关文章：")),
    (r"bge-(small|base|large)", Instructions("", _RETRIEVE)),
    (r"mxbai-embed-de", Instructions("passage: ", "query: ")),
    (r"mxbai-embed", Instructions("", _RETRIEVE)),
    (r"arctic-embed-?(l-|m-)?(v)?2(?!\d)", Instructions("", "query: ")),
    (r"arctic-embed", Instructions("", _RETRIEVE)),
    (r"qwen3-embedding", Instructions("", _TASK.rstrip(" "))),
    (r"embedding-?gemma", Instructions("title: none | text: ", "task: search result | query: ")),
    (r"jina-embeddings-v4", Instructions("Passage: ", "Query: ")),
    (
        r"jina-embeddings-v3",
        Instructions(
            "Represent the document for retrieval: ", "Represent the query for retrieving evidence documents: "
        ),
    ),
)
# Trained so that the head of a vector is a smaller vector of the same text.
_MATRYOSHKA = late_pattern(
    r"text-embedding-3-|nomic-embed-text(?![:-]v1(?!\.5))|mxbai-embed-(large|2d|xsmall)|qwen3-embedding"
    r"|embedding-?gemma|gemini-embedding|jina-embeddings-v[345]|arctic-embed-?(l-|m-)?(v)?(2(?!\d)|1\.5)"
)


_ENGLISH = late_pattern(r"(?:^|[-_/.])en(?:[-_/.:]|$)|(?<![a-z])minilm-l(?:6|12)-v2|all-mpnet", re.IGNORECASE)


def is_for_english(model: str) -> bool:
    """Return whether a model is for texts in English only, as far as its name says."""
    return _ENGLISH.search(model) is not None and "multilingual" not in model.lower()


def cannot_read(model: str, text: str) -> bool:
    """Return whether a model is for English and a text in another script, of which it knows next to nothing."""
    return is_for_english(model) and is_of_other_script(text)


def instructions_for(model: str, *, document: str = KNOWN, query: str = KNOWN) -> Instructions:
    """Return the prefixes given, and for `auto` those that the family of `model` was trained with, if it is known.

    A given prefix may hold \\n for a new line. One that ends in a colon gets a space, which settings cannot end in.
    """
    known = _known(model)
    return Instructions(
        known.document if document == KNOWN else _given(document), known.query if query == KNOWN else _given(query)
    )


def is_matryoshka(model: str) -> bool:
    """Return whether vectors of `model` may be cut to fewer dimensions."""
    return _MATRYOSHKA.search(model.lower()) is not None


def _known(model: str) -> Instructions:
    name = model.lower()
    for pattern, instructions in _FAMILIES:
        if re.search(pattern, name):
            return instructions
    return Instructions()


def _given(prefix: str) -> str:
    text = prefix.replace("\\n", "\n")
    return f"{text} " if text.endswith(":") else text
