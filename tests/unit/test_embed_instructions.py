from __future__ import annotations

import pytest

from hermes_memory_pgvector.embed.http_embedder import HttpEmbedder
from hermes_memory_pgvector.embed.instructions import (
    Instructions,
    instructions_for,
    is_matryoshka,
)
from tests.support.scripted_embedder import ScriptedEmbedder

RETRIEVE = "Represent this sentence for searching relevant passages: "


@pytest.mark.parametrize(
    ("model", "document", "query"),
    [
        ("nomic-embed-text", "search_document: ", "search_query: "),
        ("nomic-embed-text:v1.5", "search_document: ", "search_query: "),
        ("nomic-ai/nomic-embed-text-v2-moe", "search_document: ", "search_query: "),
        ("intfloat/e5-base-v2", "passage: ", "query: "),
        ("multilingual-e5-large", "passage: ", "query: "),
        ("bge-small-en-v1.5", "", RETRIEVE),
        ("BAAI/bge-large-en-v1.5", "", RETRIEVE),
        ("mxbai-embed-large", "", RETRIEVE),
        ("mixedbread-ai/mxbai-embed-large-v1", "", RETRIEVE),
        ("snowflake-arctic-embed:22m", "", RETRIEVE),
        ("snowflake-arctic-embed2", "", "query: "),
        ("Snowflake/snowflake-arctic-embed-l-v2.0", "", "query: "),
        ("embeddinggemma:300m", "title: none | text: ", "task: search result | query: "),
        ("deepset-mxbai-embed-de-large-v1", "passage: ", "query: "),
        ("jina-embeddings-v4", "Passage: ", "Query: "),
        ("jina-embeddings-v2-base-en", "", ""),
        ("bge-m3", "", ""),
        ("all-minilm", "", ""),
        ("text-embedding-3-small", "", ""),
        ("some-code5-model", "", ""),
    ],
)
def test_a_model_gets_what_it_was_trained_with(model: str, document: str, query: str) -> None:
    assert instructions_for(model) == Instructions(document, query)


@pytest.mark.parametrize(
    "model",
    ["multilingual-e5-large-instruct", "e5-mistral-7b-instruct", "qwen3-embedding:0.6b", "gte-Qwen2-1.5B-instruct"],
)
def test_instruction_models_get_a_task_with_the_question_only(model: str) -> None:
    instructions = instructions_for(model)

    assert instructions.document == ""
    assert instructions.query.startswith("Instruct: ")
    # Qwen3's own form has no space there.
    assert instructions.query.endswith("\nQuery:" if "qwen3" in model else "\nQuery: ")


def test_the_endpoint_sees_the_instructions() -> None:
    with ScriptedEmbedder(dims=8) as server:
        embedder = HttpEmbedder(url=server.url, model="nomic-embed-text", dims=8)
        embedder.embed_documents(["the cat", "the dog"], timeout_s=10)
        embedder.embed_query("which pet?", timeout_s=10)
        embedder.close()

    assert server.texts == ["search_document: the cat", "search_document: the dog", "search_query: which pet?"]


def test_given_instructions_win() -> None:
    with ScriptedEmbedder(dims=8) as server:
        embedder = HttpEmbedder(
            url=server.url, model="nomic-embed-text", dims=8, instructions=Instructions("doc> ", "ask> ")
        )
        embedder.embed_documents(["the cat"], timeout_s=10)
        embedder.embed_query("which pet?", timeout_s=10)
        embedder.close()

    assert server.texts == ["doc> the cat", "ask> which pet?"]


@pytest.mark.parametrize(
    ("document", "query", "expected"),
    [
        ("auto", "auto", Instructions("search_document: ", "search_query: ")),
        ("", "auto", Instructions("", "search_query: ")),
        ("auto", "", Instructions("search_document: ", "")),
        ("text:", "Find:\\nQ:", Instructions("text: ", "Find:\nQ: ")),
    ],
)
def test_settings_replace_what_is_known(document: str, query: str, expected: Instructions) -> None:
    assert instructions_for("nomic-embed-text", document=document, query=query) == expected


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("text-embedding-3-small", True),
        ("nomic-embed-text", True),
        ("nomic-embed-text:v1.5", True),
        ("nomic-ai/nomic-embed-text-v1", False),
        ("mxbai-embed-large", True),
        ("Qwen/Qwen3-Embedding-0.6B", True),
        ("embeddinggemma", True),
        ("gemini-embedding-001", True),
        ("text-embedding-ada-002", False),
        ("bge-m3", False),
        ("all-minilm", False),
    ],
)
def test_which_vectors_may_be_cut(model: str, expected: bool) -> None:
    assert is_matryoshka(model) is expected
