"""A model on disk, loaded into onnxruntime on the CPU of this process, and its tokenizer.

The packages of the extra `model` are imported with the first model; the rest of the program does without them.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Self, TypeVar
from weakref import WeakValueDictionary

from ..domain.commandline import pip_install
from ..domain.errors import EmbedderError, EmbedderUnavailable, HermesPgvectorError
from ..domain.fork_safety import SLOW, fork_lock
from .model_folder import ModelFolder, read_model_folder

PACKAGES = ("onnxruntime", "tokenizers", "numpy")

_Model = TypeVar("_Model")
_at_load = fork_lock(SLOW)  # a child forked during an import would wait for its end for ever


@dataclass(frozen=True, slots=True)
class OnnxSession:
    """A loaded model."""

    folder: ModelFolder
    tokenizer: Any
    outputs: tuple[Any, ...]
    _session: Any
    _inputs: tuple[tuple[str, str], ...]

    def run(self, encoding: Any, output: str) -> Any:
        """Return an output for one text, as float32. Only one, since an int8 model's numbers depend on its batch."""
        import numpy

        values = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
            "position_ids": range(len(encoding.ids)),
        }
        feed = {name: numpy.array([values[name]], dtype=dtype) for name, dtype in self._inputs}
        return self._session.run([output], feed)[0][0].astype(numpy.float32)


def is_loading() -> bool:
    """Return whether a model is being read in this process right now."""
    return _at_load.locked()


def missing_packages() -> list[str]:
    """Return the packages of the extra `model` that this Python lacks."""
    return [name for name in PACKAGES if find_spec(name) is None]


def load_session(path: Path, threads: int) -> OnnxSession:
    """Load the model in `path`; `threads` work on one text. Raises EmbedderError."""
    folder = read_model_folder(path)
    # An interpreter that exits during the load would abort the process; it waits for the thread of an executor.
    executor = ThreadPoolExecutor(1, "hermes-pgvector-load")
    with Translated(f"the local model {folder.name} cannot be loaded"), executor:
        return executor.submit(_load, folder, threads).result()


def _load(folder: ModelFolder, threads: int) -> OnnxSession:
    with _at_load:
        # The library sends its maker telemetry from the moment of its import, and keeps files for it in the home.
        os.environ["ORT_DISABLE_TELEMETRY"] = "1"
        try:
            import numpy  # noqa: F401
            import onnxruntime
            import tokenizers
        except ImportError as exc:
            lacking = ", ".join(missing_packages()) or f"a working {exc.name} ({exc})"
            raise EmbedderError(
                f"the local model {folder.name} needs {lacking} in this Python; run: {pip_install(*PACKAGES)}"
            ) from exc
        onnxruntime.disable_telemetry_events()  # where somebody else has imported it before
        onnxruntime.set_default_logger_severity(3)
        session = onnxruntime.InferenceSession(
            str(folder.onnx), _options(onnxruntime, threads), providers=["CPUExecutionProvider"]
        )
        outputs = tuple(session.get_outputs())
        return OnnxSession(folder, _tokenizer(tokenizers, folder), outputs, session, _inputs(session))


def _options(onnxruntime: Any, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # Else a memory plan is kept for every length that occurs, and texts have all lengths.
    options.enable_mem_pattern = False
    return options


def _tokenizer(tokenizers: Any, folder: ModelFolder) -> Any:
    if folder.tokenizer.suffix == ".json":
        tokenizer = tokenizers.Tokenizer.from_file(str(folder.tokenizer))
    else:
        vocabulary = tokenizers.models.WordPiece.read_file(str(folder.tokenizer))
        tokenizer = tokenizers.BertWordPieceTokenizer(vocabulary, lowercase=folder.lowercase)
    tokenizer.no_padding()
    tokenizer.enable_truncation(max_length=folder.max_tokens)
    return tokenizer


def _inputs(session: Any) -> tuple[tuple[str, str], ...]:
    known = {"input_ids", "attention_mask", "token_type_ids", "position_ids"}
    inputs = tuple((each.name, "int32" if "int32" in each.type else "int64") for each in session.get_inputs())
    if strange := [name for name, _ in inputs if name not in known]:
        raise EmbedderError(f"the model wants inputs that are not known: {', '.join(strange)}; it does not embed texts")
    return inputs


class Translated:
    """Turns whatever a native library raises in the block into an EmbedderError; our own errors pass unchanged."""

    def __init__(self, what: str) -> None:
        self._what = what

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, Exception) and not isinstance(error, HermesPgvectorError):
            said = " ".join(str(error).split())[:300] or type(error).__name__
            raise EmbedderError(f"{self._what}: {said}") from error


@contextmanager
def exclusively(lock: threading.Lock, deadline: float, name: str) -> Iterator[None]:
    """Hold the lock during the block. Raises EmbedderUnavailable when there is no time left."""
    left_s = deadline - time.monotonic()
    if left_s <= 0 or not lock.acquire(timeout=min(left_s, threading.TIMEOUT_MAX)):
        raise EmbedderUnavailable(f"the local model {name} had no time left for a text")
    try:
        yield
    finally:
        lock.release()


class SharedModels(Generic[_Model]):
    """One model for each folder and number of threads in a process, for as long as it is referenced."""

    def __init__(self, make: Callable[[Path, int], _Model]) -> None:
        self._make = make
        self._lock = fork_lock()
        self._held: WeakValueDictionary[tuple[Path, int], _Model] = WeakValueDictionary()
        if hasattr(os, "register_at_fork"):
            # A lock of a model may be held by a thread that the child does not have.
            os.register_at_fork(after_in_child=self._held.clear)

    def of(self, folder: Path, threads: int) -> _Model:
        """Return the model of a folder, made now if there is none."""
        key = (Path(os.path.realpath(folder)), threads)
        with self._lock:
            model = self._held.get(key)
            if model is None:
                model = self._held[key] = self._make(folder, threads)
            return model
