"""What a model's folder says, for the shapes in which models are published."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from hermes_memory_pgvector.domain.errors import ConfigurationError, EmbedderError
from hermes_memory_pgvector.embed.instructions import Instructions
from hermes_memory_pgvector.embed.model_folder import is_local, local_folder, read_model_folder


def folder_of(place: Path, name: str, files: dict[str, Any]) -> Path:
    folder = place / name
    for file, content in {"model.onnx": "", "tokenizer.json": "{}", **files}.items():
        if content is None:
            continue
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        (folder / file).write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    ("name", "files", "pooling"),
    [
        ("bge-base-en", {}, "cls"),
        ("Qwen3-Embedding-0.6B", {}, "last"),
        ("all-mpnet-base-v2", {}, "mean"),
        ("bge-x", {"1_Pooling/config.json": {"pooling_mode_mean_tokens": True, "include_prompt": True}}, "mean"),
        ("m", {"1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}}, "cls"),
        ("m", {"1_Pooling/config.json": {"pooling_mode_lasttoken": True}}, "last"),
        ("m", {"1_Pooling/config.json": {"pooling_mode": "cls"}}, "cls"),
        ("m", {"model.json": {"pooling": "cls"}}, "cls"),
    ],
)
def test_how_tokens_become_one_vector(tmp_path: Path, name: str, files: dict[str, Any], pooling: str) -> None:
    assert read_model_folder(folder_of(tmp_path, name, files)).pooling == pooling


def test_a_pooling_that_is_not_built_is_refused(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "m", {"1_Pooling/config.json": {"pooling_mode_max_tokens": True}})
    with pytest.raises(EmbedderError, match="asks for max_tokens; one of cls, mean, last works"):
        read_model_folder(folder)
    assert read_model_folder(folder, pooling="mean").pooling == "mean"


@pytest.mark.parametrize(
    ("files", "tokens"),
    [
        ({}, 512),
        ({"sentence_bert_config.json": {"max_seq_length": 256}, "config.json": {"max_position_embeddings": 512}}, 256),
        ({"tokenizer_config.json": {"model_max_length": 10**30}, "config.json": {"max_position_embeddings": 384}}, 384),
        ({"config.json": {"max_position_embeddings": 514, "model_type": "xlm-roberta"}}, 512),
        ({"config.json": {"max_position_embeddings": 8192}}, 1024),
    ],
)
def test_how_many_tokens_it_reads(tmp_path: Path, files: dict[str, Any], tokens: int) -> None:
    assert read_model_folder(folder_of(tmp_path, "m", files)).max_tokens == tokens


@pytest.mark.parametrize("file", ["onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx", "other.onnx"])
def test_where_the_model_lies(tmp_path: Path, file: str) -> None:
    folder = folder_of(tmp_path, "m", {"model.onnx": None, file: ""})
    assert read_model_folder(folder).onnx == folder / file


def test_several_models_and_no_main_one_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match="several"):
        read_model_folder(folder_of(tmp_path, "m", {"model.onnx": None, "a.onnx": "", "b.onnx": ""}))


def test_a_pipe_or_folder_in_the_place_of_a_model_is_none(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, "m", {"model.onnx": None})
    os.mkfifo(folder / "model.onnx")
    (folder / "other.onnx").mkdir()
    with pytest.raises(EmbedderError, match=r"no \.onnx file"):
        read_model_folder(folder)


def test_its_prompts(tmp_path: Path) -> None:
    prompts = {"prompts": {"query": "Q: ", "passage": "P: ", "other": 3}}
    folder = folder_of(tmp_path, "m", {"config_sentence_transformers.json": prompts})
    assert read_model_folder(folder).prompts == Instructions("P: ", "Q: ")


def test_which_folder_the_setting_means(tmp_path: Path) -> None:
    assert local_folder("local:my-model", tmp_path) == tmp_path / "pgvector" / "models" / "my-model"
    assert local_folder(" LOCAL: my-model ", tmp_path) == tmp_path / "pgvector" / "models" / "my-model"
    assert local_folder("local:/models/x", tmp_path) == Path("/models/x")
    assert is_local("local:x") and not is_local("http://localhost:1")
    for wrong in ("local:", "local:..", "local:a b"):
        with pytest.raises(ConfigurationError, match="local:NAME"):
            local_folder(wrong, tmp_path)
