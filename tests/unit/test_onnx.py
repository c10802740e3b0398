"""The local model: the vectors of the reference, whoever asks for them, and nothing worse than an EmbedderError."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from operator import mul
from pathlib import Path
from typing import Any

import numpy
import onnxruntime
import pytest

from hermes_memory_pgvector.domain.errors import EmbedderError, EmbedderUnavailable
from hermes_memory_pgvector.embed.embedder import Vector
from hermes_memory_pgvector.embed.instructions import instructions_for
from hermes_memory_pgvector.embed.onnx import OnnxEmbedder
from tests.support.blocked_packages import PoorEnvironment
from tests.support.embedding_server import OnnxModel
from tests.support.local_models import link_model
from tests.support.model_files import MODEL_DIMS, MODEL_NAME, model_dir
from tests.support.waiting import until

TEXTS = [
    "hello world",
    "The payments gateway answers ERR_CONN_42 when its pool is exhausted.",
    "Grüße aus Köln, 東京 and Ελλάδα",
    "word " * 2_000,
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return link_model(tmp_path)


@pytest.fixture(scope="module")
def reference() -> OnnxModel:
    return OnnxModel(model_dir())


def embedder_of(folder: Path, **arguments: Any) -> OnnxEmbedder:
    return OnnxEmbedder(folder=folder, **{"dims": MODEL_DIMS, **arguments})


def similarity(one: Vector, other: Vector) -> float:
    return float(sum(map(mul, one, other)))


def test_documents_and_questions_have_the_vectors_of_the_reference(folder: Path, reference: OnnxModel) -> None:
    embedder = embedder_of(folder)

    documents = embedder.embed_documents(TEXTS, timeout_s=60)
    question = embedder.embed_query("where is it?", timeout_s=60)

    assert embedder.model == MODEL_NAME
    for text, vector in zip(TEXTS, documents, strict=True):
        assert vector == pytest.approx(reference.embed(text), abs=1e-6)
    prefix = instructions_for(MODEL_NAME).query
    assert prefix
    assert question == pytest.approx(reference.embed(prefix + "where is it?"), abs=1e-6)
    assert embedder.stats()["embed_texts"] == len(TEXTS) + 1


def test_a_vocabulary_alone_makes_the_same_tokens(folder: Path) -> None:
    expected = embedder_of(folder).embed_documents(TEXTS, timeout_s=60)
    other = link_model(folder.parent, "bge-with-vocab")
    (other / "tokenizer.json").unlink()

    assert embedder_of(other).embed_documents(TEXTS, timeout_s=60) == expected


@pytest.mark.parametrize(
    ("file", "content", "pool"),
    [
        ("1_Pooling/config.json", {"pooling_mode_mean_tokens": True}, lambda tokens: tokens.mean(axis=0)),
        ("1_Pooling/config.json", {"pooling_mode": "lasttoken"}, lambda tokens: tokens[-1]),
        ("1_Pooling/config.json", {"pooling_mode_cls_token": True}, lambda tokens: tokens[0]),
    ],
)
def test_a_folder_says_how_its_tokens_become_a_vector(
    tmp_path: Path, reference: OnnxModel, file: str, content: dict[str, Any], pool: Callable[[Any], Any]
) -> None:
    folder = link_model(tmp_path, "of-no-known-family")
    (folder / file).parent.mkdir()
    (folder / file).write_text(json.dumps(content), encoding="utf-8")

    (vector,) = embedder_of(folder).embed_documents(["a red bicycle"], timeout_s=60)

    encoding = reference._tokenizer.encode("a red bicycle")
    values = {"input_ids": encoding.ids, "attention_mask": encoding.attention_mask, "token_type_ids": encoding.type_ids}
    feed = {name: numpy.array([each], dtype=numpy.int64) for name, each in values.items()}
    expected = pool(reference._session.run(None, feed)[0][0])
    assert vector == pytest.approx((expected / numpy.linalg.norm(expected)).tolist(), abs=1e-6)


def test_the_folders_own_prompts_go_first_and_settings_before_them(tmp_path: Path, reference: OnnxModel) -> None:
    folder = link_model(tmp_path)
    prompts = {"prompts": {"query": "Q: ", "document": "D: "}}
    (folder / "config_sentence_transformers.json").write_text(json.dumps(prompts), encoding="utf-8")

    own = embedder_of(folder)
    assert own.embed_query("x", timeout_s=60) == pytest.approx(reference.embed("Q: x"), abs=1e-6)
    assert own.embed_documents(["x"], timeout_s=60)[0] == pytest.approx(reference.embed("D: x"), abs=1e-6)
    given = embedder_of(folder, query_prefix="")
    assert given.embed_query("x", timeout_s=60) == pytest.approx(reference.embed("x"), abs=1e-6)


def test_a_text_has_one_vector_whatever_it_travels_with_and_whoever_asks(folder: Path) -> None:
    embedder = embedder_of(folder)
    expected = embedder.embed_documents(TEXTS, timeout_s=60)
    questions = embedder.embed_query("where is it?", timeout_s=60)

    with ThreadPoolExecutor(8) as threads:
        documents = [threads.submit(embedder.embed_documents, TEXTS[:3], timeout_s=60) for _ in range(8)]
        asked = [threads.submit(embedder.embed_query, "where is it?", timeout_s=60) for _ in range(16)]

    assert all(each.result() == expected[:3] for each in documents)
    assert all(each.result() == questions for each in asked)


def test_all_embedders_of_a_folder_share_one_session(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    real = onnxruntime.InferenceSession

    def counted(path: str, *arguments: Any, **named: Any) -> Any:
        made.append(path)
        return real(path, *arguments, **named)

    monkeypatch.setattr(onnxruntime, "InferenceSession", counted)
    embedders = [embedder_of(folder) for _ in range(4)]
    with ThreadPoolExecutor(4) as threads:
        list(threads.map(lambda each: each.embed_query("hello", timeout_s=60), embedders))
    assert len(made) == 1

    for embedder in embedders:
        embedder.close()
        embedder.close()
    with pytest.raises(EmbedderUnavailable, match="was closed"):
        embedders[0].embed_query("hello", timeout_s=60)
    embedder_of(folder).embed_query("hello", timeout_s=60)
    assert len(made) == 2, "the model stayed in memory after its last embedder was closed"


def test_a_call_under_way_ends_with_the_text_at_hand_when_the_model_is_closed(folder: Path) -> None:
    """A process that ended in the middle of a text would be aborted."""
    embedder = OnnxEmbedder(folder=folder, dims=MODEL_DIMS)
    outcome: list[BaseException] = []

    def embed() -> None:
        try:
            embedder.embed_documents([f"The harbour crane {number}" for number in range(2000)], timeout_s=60)
        except EmbedderUnavailable as exc:
            outcome.append(exc)

    thread = threading.Thread(target=embed)
    thread.start()
    until(lambda: embedder.stats()["embed_texts"] > 0, what="the first text")
    embedder.close()
    done = embedder.stats()["embed_texts"]
    thread.join()
    assert "was closed" in str(outcome[0])
    assert embedder.stats()["embed_texts"] - done <= 1, "counted after its lock is free"


def test_what_was_embedded_before_the_time_ran_out_is_not_embedded_again(folder: Path) -> None:
    embedder = embedder_of(folder)
    embedder.embed_query("load it", timeout_s=60)
    texts = [f"text number {number} " + "of many words " * 40 for number in range(60)]

    rounds = 0
    while True:
        rounds += 1
        try:
            vectors = embedder.embed_documents(texts, timeout_s=0.3)
            break
        except EmbedderUnavailable:
            assert rounds < 500

    assert rounds > 1
    assert len(vectors) == len(texts)
    assert embedder.stats()["embed_texts"] == len(texts) + 1


@pytest.mark.parametrize("text", ["", "  \n", "\0", "\ud800", "x" * 2_000_000, "東" * 5_000, "[PAD]"])
def test_every_text_has_a_vector(folder: Path, text: str) -> None:
    embedder = embedder_of(folder)

    (vector,) = embedder.embed_documents([text], timeout_s=60)

    assert similarity(vector, vector) == pytest.approx(1.0, abs=1e-5)
    assert len(embedder.embed_query(text, timeout_s=60)) == MODEL_DIMS


def test_another_length_of_vectors_is_named_with_the_setting(folder: Path) -> None:
    with pytest.raises(EmbedderError, match="gives vectors of 384 dimensions, the setting `dims` says 768"):
        embedder_of(folder, dims=768).embed_query("hello", timeout_s=60)


def remove_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "vocab.txt").unlink()


def damage_model(folder: Path) -> None:
    (folder / "model.onnx").unlink()
    (folder / "model.onnx").write_bytes(b"not a model" * 100)


def damage_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()
    (folder / "tokenizer.json").write_text('{"model": 3}', encoding="utf-8")


def damage_config(folder: Path) -> None:
    (folder / "tokenizer_config.json").write_text("{", encoding="utf-8")


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (remove_tokenizer, "neither tokenizer.json nor vocab.txt"),
        (lambda folder: (folder / "model.onnx").unlink(), "no .onnx file"),
        (damage_model, "cannot be loaded"),
        (damage_tokenizer, "cannot be loaded"),
        (damage_config, "tokenizer_config.json cannot be read"),
    ],
)
def test_a_damaged_folder_is_an_embedder_error(folder: Path, spoil: Callable[[Path], None], said: str) -> None:
    spoil(folder)
    with pytest.raises(EmbedderError, match=said):
        embedder_of(folder).embed_query("hello", timeout_s=60)


def test_a_missing_folder_is_named_and_found_when_it_comes(tmp_path: Path) -> None:
    embedder = embedder_of(tmp_path / "pgvector" / "models" / MODEL_NAME)
    with pytest.raises(EmbedderError, match="hermes-pgvector model list"):
        embedder.embed_query("hello", timeout_s=60)

    link_model(tmp_path)

    assert len(embedder.embed_query("hello", timeout_s=60)) == MODEL_DIMS


_EMBED_ONCE = """
import sys
from pathlib import Path
from hermes_memory_pgvector.domain.errors import EmbedderError
from hermes_memory_pgvector.embed.onnx import OnnxEmbedder
try:
    print(len(OnnxEmbedder(folder=Path(sys.argv[1]), dims=384).embed_query("hello", timeout_s=60)))
except EmbedderError as error:
    print(error)
"""


@pytest.mark.parametrize("missing", ["onnxruntime", "tokenizers", "numpy"])
def test_without_its_packages_the_model_names_them(tmp_path: Path, folder: Path, missing: str) -> None:
    poor = PoorEnvironment(tmp_path / "site", [missing])

    done = poor.run(_EMBED_ONCE, str(folder), home=tmp_path)

    assert done.returncode == 0, done.stderr
    assert f"needs {missing} in this Python; run: " in done.stdout and "pip install" in done.stdout


def test_the_model_keeps_nothing_in_the_home_for_telemetry(tmp_path: Path, folder: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()

    done = subprocess.run(
        [sys.executable, "-P", "-c", _EMBED_ONCE, str(folder)],
        env={"PATH": os.environ["PATH"], "HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )

    assert done.stdout.strip() == "384", done.stderr
    assert not list(home.rglob("*")), "onnxruntime keeps an id of this machine and what it would send"


_PEAK = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from hermes_memory_pgvector.embed.onnx import OnnxEmbedder
embedder = OnnxEmbedder(folder=Path(sys.argv[1]), dims=384)
long = ["harbour " * (20 + 61 * (number % 9)) for number in range(36)]
with ThreadPoolExecutor(4) as threads:
    jobs = [threads.submit(embedder.embed_documents, long, timeout_s=120) for _ in range(2)]
    jobs += [threads.submit(embedder.embed_query, "harbour " * 512, timeout_s=120) for _ in range(8)]
    [job.result() for job in jobs]
# Not ru_maxrss, which remembers the process that started this one.
status = Path("/proc/self/status")
if status.exists():
    (peak_kb,) = [int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")]
    print(peak_kb * 1024 // 1_000_000)
else:
    import psutil
    print(psutil.Process().memory_info().rss // 1_000_000)
"""


# 225 MB, and where two long texts meet at a bad moment 32 more: onnxruntime takes memory in ever larger pieces.
PEAK_MB = 265


def test_a_process_with_the_model_has_its_memory_bounded(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PEAK, str(folder)], capture_output=True, text=True, timeout=200, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert int(done.stdout) < PEAK_MB
