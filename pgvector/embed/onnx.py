"""Embeddings from a model on disk, run by onnxruntime on the CPU of this process.

The packages of the extra `model` are imported with the first text; the rest of the program does without them.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from weakref import WeakValueDictionary

from ..domain.commandline import pip_install
from ..domain.errors import EmbedderError, EmbedderUnavailable, HermesPgvectorError
from ..domain.fork_safety import SLOW, fork_lock
from ..domain.text import digest
from .embedder import Counters, Vector, readable
from .instructions import KNOWN, Instructions, instructions_for
from .model_folder import ModelFolder, read_model_folder

PACKAGES = ("onnxruntime", "tokenizers", "numpy")
# Tokens are seldom longer, so nothing that the model would see is cut off.
_CHARS_PER_TOKEN = 32
# Vectors of a call, for the next one where it runs out of time: 2,048 of 1,024 doubles are 16 MB.
_MAX_KEPT = 2_048


class OnnxEmbedder:
    """Embeds with the model in `folder`, loaded with the first text. Safe to call from several threads.

    All embedders of a folder in a process share one session. Besides one document there is one question at work at a
    time, which bounds the memory, and no question waits for a batch of documents. `threads` work on one text.
    A prefix that is `auto` is what the folder says, else what is known of the model's family.
    """

    def __init__(
        self,
        *,
        folder: Path,
        dims: int,
        threads: int = 1,
        document_prefix: str = KNOWN,
        query_prefix: str = KNOWN,
    ) -> None:
        self.model = folder.name
        self.dims = dims
        self._prefixes = document_prefix, query_prefix
        self._folder = folder
        self._known_instructions: Instructions | None = None
        self._shared: _SharedModel | None = _shared_model_of(folder, threads)
        self._kept: dict[bytes, array[float]] = {}
        self._counters = Counters("embed_requests", "embed_texts", "embed_errors", "embed_ms")

    def embed_documents(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """Return one unit vector a text, in order; of a text over the model's length its head counts.

        Raises EmbedderUnavailable when there is no time left, EmbedderError when the model cannot be used. What was
        embedded before the time ran out is not embedded again when the same texts come once more.
        """
        self._counters.add(embed_requests=1)
        with self._counters.timed():
            deadline = time.monotonic() + timeout_s
            shared, model = self._ready(deadline)
            prefix = self._instructions(model.folder).document
            vectors = [self._document(shared.documents, model, prefix + text, deadline) for text in texts]
            self._kept.clear()
            return vectors

    def embed_query(self, text: str, *, timeout_s: float) -> Vector:
        """Return the unit vector of a question. Raises as embed_documents."""
        self._counters.add(embed_requests=1)
        with self._counters.timed():
            deadline = time.monotonic() + timeout_s
            shared, model = self._ready(deadline)
            return self._run(shared.queries, model, self._instructions(model.folder).query + text, deadline)

    def stats(self) -> dict[str, int]:
        """Return calls made, texts embedded, calls failed, and milliseconds spent in calls."""
        return self._counters.snapshot()

    def close(self) -> None:
        """Let go of the model; the last embedder to do so frees its memory. Later calls raise EmbedderUnavailable."""
        self._shared = None

    def _ready(self, deadline: float) -> tuple[_SharedModel, _Model]:
        shared = self._shared
        if shared is None:
            raise EmbedderUnavailable(f"the local model {self.model} was closed")
        model = shared.loaded(deadline)
        if model.dims not in (0, self.dims):
            raise EmbedderError(_other_dims(self.model, model.dims, self.dims))
        return shared, model

    @property
    def instructions(self) -> Instructions:
        """Return the prefixes of documents and questions; by the model's name alone while the folder cannot be read."""
        if self._known_instructions is None:
            try:
                self._known_instructions = self._instructions(read_model_folder(self._folder))
            except EmbedderError:
                return self._instructions(None)
        return self._known_instructions

    def _instructions(self, folder: ModelFolder | None) -> Instructions:
        document, query = self._prefixes
        made = instructions_for(self.model, document=document, query=query)
        prompts = None if folder is None else folder.prompts
        if prompts is None:
            return made
        return Instructions(
            prompts.document if document == KNOWN else made.document, prompts.query if query == KNOWN else made.query
        )

    def _document(self, lock: threading.Lock, model: _Model, text: str, deadline: float) -> Vector:
        key = digest(text)
        vector = self._kept.get(key)
        if vector is None:
            vector = array("d", self._run(lock, model, text, deadline))
            if len(self._kept) < _MAX_KEPT:
                self._kept[key] = vector
        return vector.tolist()

    def _run(self, lock: threading.Lock, model: _Model, text: str, deadline: float) -> Vector:
        with _exclusively(lock, deadline, self.model), _Translated(f"the local model {self.model} failed"):
            vector = model.vector(text)
        if len(vector) != self.dims:
            raise EmbedderError(_other_dims(self.model, len(vector), self.dims))
        self._counters.add(embed_texts=1)
        return vector


def is_loading() -> bool:
    """Tell whether a model is being read in this process right now."""
    return _at_load.locked()


def missing_packages() -> list[str]:
    """Return the packages of the extra `model` that this Python lacks."""
    return [name for name in PACKAGES if find_spec(name) is None]


def dims_of(folder: Path) -> int:
    """Return how many floats the model in `folder` gives, found by running it. Raises EmbedderError."""
    with _Translated(f"the local model {folder.name} failed"):
        return len(_load(folder, threads=1).vector("-"))


@dataclass(frozen=True, slots=True)
class _Model:
    """A loaded model. `dims` is 0 where only a run can tell."""

    folder: ModelFolder
    dims: int
    _tokenizer: Any
    _session: Any
    _inputs: tuple[tuple[str, str], ...]
    _output: str
    _is_pooled: bool

    def vector(self, text: str) -> Vector:
        """Return the unit vector of one text: one, since an int8 model's numbers depend on what else is in a batch."""
        import numpy

        encoding = self._tokenizer.encode(readable(text, self.folder.max_tokens * _CHARS_PER_TOKEN))
        length = len(encoding.ids)
        values = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
            "position_ids": range(length),
        }
        feed = {name: numpy.array([values[name]], dtype=dtype) for name, dtype in self._inputs}
        found = self._session.run([self._output], feed)[0][0].astype(numpy.float32)
        if not self._is_pooled:
            found = self._pooled(found)
        norm = float(numpy.linalg.norm(found))
        if not 0.0 < norm < float("inf"):
            raise EmbedderError(f"the local model {self.folder.name} gave a vector without a direction")
        unit: Vector = (found / norm).astype(float).tolist()
        return unit

    def _pooled(self, tokens: Any) -> Any:
        match self.folder.pooling:
            case "cls":
                return tokens[0]
            case "last":
                return tokens[-1]
        return tokens.mean(axis=0)


class _SharedModel:
    """The place of one model in a process: loaded once, by the first thread that needs it."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.documents = threading.Lock()
        self.queries = threading.Lock()
        self._folder = folder
        self._threads = threads
        self._loading = threading.Lock()
        self._model: _Model | None = None

    def loaded(self, deadline: float) -> _Model:
        """Return the model. Raises EmbedderUnavailable while another thread loads it, EmbedderError if it is none."""
        if self._model is None:
            with _exclusively(self._loading, deadline, self._folder.name):
                if self._model is None:
                    self._model = _load(self._folder, self._threads)
        return self._model


_shared_models: WeakValueDictionary[tuple[Path, int], _SharedModel] = WeakValueDictionary()
_shared_models_lock = fork_lock()
_at_load = fork_lock(SLOW)  # a child of a half-done import would wait for it for ever


def _shared_model_of(folder: Path, threads: int) -> _SharedModel:
    key = (Path(os.path.realpath(folder)), threads)
    with _shared_models_lock:
        shared = _shared_models.get(key)
        if shared is None:
            shared = _shared_models[key] = _SharedModel(folder, threads)
        return shared


def _forget_after_fork() -> None:
    """Drop the models: a lock of one may be held by a thread that the child does not have."""
    _shared_models.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)


def _load(path: Path, threads: int) -> _Model:
    folder = read_model_folder(path)
    with _Translated(f"the local model {folder.name} cannot be loaded"), _at_load:
        try:
            import numpy  # noqa: F401
            import onnxruntime
            import tokenizers
        except ImportError as exc:
            lacking = ", ".join(missing_packages()) or f"a working {exc.name} ({exc})"
            raise EmbedderError(
                f"the local model {folder.name} needs {lacking} in this Python; run: {pip_install(*PACKAGES)}"
            ) from exc
        onnxruntime.set_default_logger_severity(3)
        session = onnxruntime.InferenceSession(
            str(folder.onnx), _options(onnxruntime, threads), providers=["CPUExecutionProvider"]
        )
        tokenizer = _tokenizer(tokenizers, folder)
        output, is_pooled, dims = _output(session)
        return _Model(folder, dims, tokenizer, session, _inputs(session), output, is_pooled)


def _options(onnxruntime: Any, threads: int) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    # A plan of memory is kept for every length that occurs, and texts have all lengths.
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


def _output(session: Any) -> tuple[str, bool, int]:
    """Return the output to read, whether it is one vector a text already, and its length if the model tells."""
    outputs = session.get_outputs()
    by_rank = {len(each.shape): each for each in reversed(outputs)}
    named = {each.name: each for each in outputs}
    chosen = named.get("sentence_embedding") or by_rank.get(3) or by_rank.get(2)
    if chosen is None:
        raise EmbedderError("the model has no output that could be an embedding")
    last = chosen.shape[-1]
    return chosen.name, len(chosen.shape) == 2, last if isinstance(last, int) else 0


class _Translated:
    """Whatever a native library raises in the block becomes an EmbedderError; ours stay as they are."""

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
def _exclusively(lock: threading.Lock, deadline: float, name: str) -> Iterator[None]:
    """Hold the lock; raises EmbedderUnavailable when there is no time left."""
    left_s = deadline - time.monotonic()
    if left_s <= 0 or not lock.acquire(timeout=min(left_s, threading.TIMEOUT_MAX)):
        raise EmbedderUnavailable(f"the local model {name} had no time left for a text")
    try:
        yield
    finally:
        lock.release()


def _other_dims(name: str, gives: int, dims: int) -> str:
    return (
        f"the local model {name} gives vectors of {gives} dimensions, the setting `dims` says {dims}; "
        f"set plugins.pgvector.dims to {gives}, which the database has to have, too"
    )
