"""The commands `facts` and `reflections`."""

from __future__ import annotations

from ..common.commands import Command, Verb

# One command a line; its constant is its name in capitals in the module, unless another is named after a colon.
_VERBS = (
    Verb("list", "list what a theme knows, by kind, subject, scope and state", "facts.list_command"),
    Verb("add", "store a memory with its kind, subject or scope", "edit.add_command:ADD_FACT"),
    Verb("edit", "change what a memory says, or its kind, subject, scope or state", "edit.command"),
    Verb("delete", "delete memories for good, as forget does", "edit.command:FORGET"),
    Verb("extract", "have a language model propose memories from turns it has not read", "facts.extract_command"),
    Verb("review", "list proposed memories, and accept, edit or reject them", "facts.review_command"),
)
REFLECTIONS = Command(
    "hermes-pgvector reflections list",
    actions=[Verb("list", "list what went well or badly, the newest first", "facts.list_command:LIST_REFLECTIONS")],
)
FACTS = Command(
    "hermes-pgvector facts list --kind decision\n"
    'hermes-pgvector facts add "Tokens last 7 days" --kind decision --subject auth\n'
    "hermes-pgvector facts edit m12 --state closed --yes\n"
    "hermes-pgvector facts delete m12 --yes\n"
    "hermes-pgvector facts extract --since 7d --url http://localhost:11434/v1 --model qwen3\n"
    "hermes-pgvector facts review --accept-above 0.8",
    actions=_VERBS,
)
