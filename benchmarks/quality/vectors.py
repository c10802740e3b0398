"""Embeds corpora ahead of the benchmarks and keeps the vectors on disk, so that only the first run pays for a model.

    python vectors.py --data DIR [--corpus NAME ...] --model-dir DIR [--cache FILE] [--max-s 400]

DIR holds tokenizer.json and either model.onnx (BERT-like, first token) or model.safetensors (all-mpnet-base-v2).
Stops after --max-s seconds and goes on where it stopped when it is called again; the last line says what is left.
"""

from __future__ import annotations

import argparse
import hashlib
import sqlite3
import sys
import threading
import time
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

sys.path += [str(folder) for folder in Path(__file__).resolve().parents[:3]]
from corpora import ALL_NAMES, NAMES, Theme, read_corpus

from hermes_memory_pgvector.config.settings import Settings
from hermes_memory_pgvector.domain.chunks import chunk_spans, estimate_tokens
from hermes_memory_pgvector.embed.instructions import Instructions, instructions_for
from tests.support.embedding_server import OnnxModel

SLICE = 256  # texts embedded between two commits


class Model(Protocol):
    """What makes vectors of texts."""

    def embed_all(self, texts: Sequence[str]) -> list[list[float]]:
        """The unit vectors of the texts, in order."""


class CachedModel:
    """A model that embeds each text once. Safe for several threads, of which one at a time computes."""

    def __init__(self, folder: Path, cache: Path | None = None) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._model: Model | None = None
        cache = cache or Path.home() / ".cache" / "hermes-pgvector-vectors.sqlite"
        cache.parent.mkdir(parents=True, exist_ok=True)
        self._rows = sqlite3.connect(cache, check_same_thread=False)
        self._rows.execute("CREATE TABLE IF NOT EXISTS vectors (key BLOB PRIMARY KEY, vector BLOB) WITHOUT ROWID")
        with weights_of(folder).open("rb") as file:
            self._digest = hashlib.file_digest(file, "sha256").digest()

    def embed(self, text: str) -> list[float]:
        """The unit vector of one text."""
        return self.embed_all([text])[0]

    def embed_all(self, texts: Sequence[str]) -> list[list[float]]:
        """The unit vectors of the texts, in order."""
        with self._lock:
            for start in range(0, len(missing := self._missing(texts)), SLICE):
                self._add(missing[start : start + SLICE])
            return [self._read(text) for text in texts]

    def missing(self, texts: Sequence[str]) -> list[str]:
        """Those that are not embedded yet, each once."""
        with self._lock:
            return self._missing(texts)

    def _missing(self, texts: Sequence[str]) -> list[str]:
        known = "SELECT 1 FROM vectors WHERE key = ?"
        missing = [each for each in set(texts) if not self._rows.execute(known, (self._key(each),)).fetchone()]
        return sorted(
            missing, key=lambda text: (len(text.split()), text)
        )  # a model may compute equally long ones together

    def _add(self, texts: list[str]) -> None:
        if self._model is None:
            self._model = load_model(self._folder)
        vectors = self._model.embed_all(texts)
        rows = [(self._key(text), array("f", vector).tobytes()) for text, vector in zip(texts, vectors, strict=True)]
        with self._rows:
            self._rows.executemany("INSERT OR REPLACE INTO vectors VALUES (?, ?)", rows)

    def _read(self, text: str) -> list[float]:
        row = self._rows.execute("SELECT vector FROM vectors WHERE key = ?", (self._key(text),)).fetchone()
        return list(array("f", row[0]))

    def _key(self, text: str) -> bytes:
        return hashlib.sha256(self._digest + text.encode()).digest()


class _Onnx:
    def __init__(self, folder: Path) -> None:
        self._model = OnnxModel(folder)

    def embed_all(self, texts: Sequence[str]) -> list[list[float]]:
        return [self._model.embed(text) for text in texts]


def load_model(folder: Path) -> Model:
    """The model in `folder`, by what its weights come in."""
    if weights_of(folder).suffix == ".onnx":
        return _Onnx(folder)
    from mpnet import MpnetModel

    return MpnetModel(folder)


def weights_of(folder: Path) -> Path:
    """The file with the model's weights. Raises FileNotFoundError."""
    for name in ("model.onnx", "model.safetensors"):
        if (folder / name).is_file():
            return folder / name
    raise FileNotFoundError(f"{folder} holds neither model.onnx nor model.safetensors")


def texts_of(themes: Sequence[Theme], instructions: Instructions) -> list[str]:
    """Every text that the benchmarks have embedded: turns, then questions, each after the model's own instruction."""
    turns = [instructions.document + part for each in themes for turn in each.turns for part in _parts(turn.text)]
    return turns + [instructions.query + asked.text for each in themes for asked in each.questions]


def _parts(text: str) -> list[str]:
    """What of a text is embedded: the whole, or the chunks of a long one."""
    tokens = Settings().chunk_tokens
    if estimate_tokens(text) <= tokens:
        return [text]
    return [text[first:end] for first, end in chunk_spans(text, tokens)]


def main() -> None:
    """Embed for a while, say what is left."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--data", type=Path, required=True, metavar="DIR", help="the folder with the corpora")
    options.add_argument(
        "--corpus", nargs="+", default=NAMES, metavar="NAME", help=f"{', '.join(ALL_NAMES)}, or a file there"
    )
    options.add_argument("--model-dir", type=Path, required=True, metavar="DIR")
    options.add_argument("--model-name", metavar="NAME", help="its name, by which instructions are known")
    options.add_argument("--cache", type=Path, metavar="FILE")
    options.add_argument("--max-s", type=float, default=400.0, metavar="S")
    args = options.parse_args()
    end = time.monotonic() + args.max_s
    model = CachedModel(args.model_dir, args.cache)
    instructions = instructions_for(args.model_name or args.model_dir.name)
    texts = texts_of([each for name in args.corpus for each in read_corpus(args.data, name)], instructions)
    left = model.missing(texts)
    while left and time.monotonic() < end:
        model.embed_all(left[:SLICE])
        left = left[SLICE:]
    print(f"{len(left)} texts left")


if __name__ == "__main__":
    main()
