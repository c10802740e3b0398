"""Embeddings from a model on disk, run by onnxruntime on the CPU of this process."""

from __future__ import annotations

import threading
import time
from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..domain.errors import EmbedderError, EmbedderUnavailable
from ..domain.text import digest
from .embedder import Counters, Vector, readable
from .instructions import KNOWN, Instructions, instructions_for, is_for_english
from .model_folder import ModelFolder, read_model_folder
from .onnx_session import OnnxSession, SharedModels, Translated, exclusively, load_session

# Tokens are seldom longer, so nothing that the model would see is cut off.
_CHARS_PER_TOKEN = 32
# Vectors kept of a call that runs out of time, for the next one: 2,048 of 1,024 doubles are 16 MB.
_MAX_KEPT = 2_048
_ONE_TEXT_S = 2.0  # longest time of one text, for which `close` waits


class OnnxEmbedder:
    """Embeds with the model in `folder`, loaded with the first text. Safe to call from several threads.

    All embedders of a folder in a process share one session. At most one document and one question are embedded at a
    time, which bounds the memory, and no question waits for a batch of documents. `threads` work on one text.
    The prefix `auto` means what the folder says, else what is known of the model's family.
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
        self._shared: _SharedModel | None = _models.of(folder, threads)
        self._kept: dict[bytes, array[float]] = {}
        self._counters = Counters("embed_requests", "embed_texts", "embed_errors", "embed_ms")

    def embed_documents(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """Return one unit vector a text, in order; a text over the model's maximum length is embedded by its head.

        Raises EmbedderUnavailable when there is no time left, EmbedderError when the model cannot be used. Texts that
        were embedded before the time ran out are not embedded again when the call is retried.
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
        return self.embed_queries([text], timeout_s=timeout_s)[0]

    def embed_queries(self, texts: Sequence[str], *, timeout_s: float) -> list[Vector]:
        """Return the unit vectors of several questions. Raises as embed_documents."""
        self._counters.add(embed_requests=1)
        with self._counters.timed():
            deadline = time.monotonic() + timeout_s
            shared, model = self._ready(deadline)
            prefix = self._instructions(model.folder).query
            return [self._run(shared.queries, model, prefix + text, deadline) for text in texts]

    def rank_of_word(self, word: str) -> int | None:
        """Return the number of a word in the vocabulary, whose first words are the commonest.

        None for a word that it has only in pieces, if the model is for other languages as well, or is not loaded yet.
        """
        model = self._shared.model if self._shared is not None and is_for_english(self.model) else None
        return None if model is None else model.number_of(word)

    def stats(self) -> dict[str, int]:
        """Return calls made, texts embedded, calls failed, and milliseconds spent in calls."""
        return self._counters.snapshot()

    def close(self) -> None:
        """Release the model once the texts in progress are done; the last embedder to do so frees its memory.

        Later calls raise EmbedderUnavailable, and so does the rest of a call in progress.
        """
        shared, self._shared = self._shared, None
        if shared is not None:
            # A process that exits in the middle of a text would be aborted.
            for lock in (shared.documents, shared.queries):
                if lock.acquire(timeout=_ONE_TEXT_S):
                    lock.release()

    def _ready(self, deadline: float) -> tuple[_SharedModel, _Model]:
        shared = self._open()
        model = shared.loaded(deadline)
        if model.dims not in (0, self.dims):
            raise EmbedderError(_other_dims(self.model, model.dims, self.dims))
        return shared, model

    def _open(self) -> _SharedModel:
        if self._shared is None:
            raise EmbedderUnavailable(f"the local model {self.model} was closed")
        return self._shared

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
        with exclusively(lock, deadline, self.model), Translated(f"the local model {self.model} failed"):
            self._open()
            vector = model.vector(text)
        if len(vector) != self.dims:
            raise EmbedderError(_other_dims(self.model, len(vector), self.dims))
        self._counters.add(embed_texts=1)
        return vector


def dims_of(folder: Path) -> int:
    """Return how many floats the model in `folder` gives, found by running it. Raises EmbedderError."""
    with Translated(f"the local model {folder.name} failed"):
        return len(_load(folder, threads=1).vector("-"))


@dataclass(frozen=True, slots=True)
class _Model:
    """A loaded model. `dims` is 0 if only running the model can tell."""

    dims: int
    _session: OnnxSession
    _output: str
    _is_pooled: bool

    @property
    def folder(self) -> ModelFolder:
        """Return the facts of its folder."""
        return self._session.folder

    def number_of(self, token: str) -> int | None:
        """Return the number of a token in the vocabulary; None if it is none."""
        number: int | None = self._session.tokenizer.token_to_id(token)
        return number

    def vector(self, text: str) -> Vector:
        """Return the unit vector of one text."""
        import numpy

        encoding = self._session.tokenizer.encode(readable(text, self.folder.max_tokens * _CHARS_PER_TOKEN))
        found = self._session.run(encoding, self._output)
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
    """One model, shared within a process: loaded once, by the first thread that needs it."""

    def __init__(self, folder: Path, threads: int) -> None:
        self.documents = threading.Lock()
        self.queries = threading.Lock()
        self._folder = folder
        self._threads = threads
        self._loading = threading.Lock()
        self.model: _Model | None = None  # once it is loaded

    def loaded(self, deadline: float) -> _Model:
        """Return the model. Raises EmbedderUnavailable while another thread loads it, EmbedderError if unusable."""
        if self.model is None:
            with exclusively(self._loading, deadline, self._folder.name):
                if self.model is None:
                    self.model = _load(self._folder, self._threads)
        return self.model


_models = SharedModels(_SharedModel)


def _load(path: Path, threads: int) -> _Model:
    session = load_session(path, threads)
    output, is_pooled, dims = _output(session.outputs)
    return _Model(dims, session, output, is_pooled)


def _output(outputs: Sequence[Any]) -> tuple[str, bool, int]:
    """Return the output to read, whether it is already one vector a text, and its length, 0 if that is not known."""
    by_rank = {len(each.shape): each for each in reversed(outputs)}
    named = {each.name: each for each in outputs}
    chosen = named.get("sentence_embedding") or by_rank.get(3) or by_rank.get(2)
    if chosen is None:
        raise EmbedderError("the model has no output that could be an embedding")
    last = chosen.shape[-1]
    return chosen.name, len(chosen.shape) == 2, last if isinstance(last, int) else 0


def _other_dims(name: str, gives: int, dims: int) -> str:
    return (
        f"the local model {name} gives vectors of {gives} dimensions, the setting `dims` says {dims}; "
        f"set plugins.pgvector.dims to {gives}, which the database has to have, too"
    )
