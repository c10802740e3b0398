"""`hermes-pgvector facts`."""

from __future__ import annotations

from ..common.commands import Command, Verb

# One a line, by its name in capitals in the module that has it.
_VERBS = (
    Verb("extract", "have a language model propose memories from turns it has not read", "facts.extract_command"),
    Verb("review", "list proposed memories, and accept, edit or reject them", "facts.review_command"),
)
FACTS = Command(
    "hermes-pgvector facts extract --since 7d --url http://localhost:11434/v1 --model qwen3\n"
    "hermes-pgvector facts review --accept-above 0.8",
    actions=_VERBS,
)
