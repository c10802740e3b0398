"""Scores of how well texts answer a question, from the bundled cross-encoder in this process."""

from __future__ import annotations

import errno
import hashlib
import logging
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path

from ..domain.errors import EmbedderError, EmbedderUnavailable
from ..domain.lru import LruDict
from ..domain.text import digest
from .embedder import Counters, readable
from .onnx_session import OnnxSession, SharedModels, Translated, exclusively, load_session

logger = logging.getLogger(__name__)

MODEL = "ms-marco-MiniLM-L-12-v2"
LANGUAGE = "english"  # of the questions and texts that it was trained on
# No other model is accepted: the scores of another file would mean something else.
SHA256 = {
    "model.onnx": "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
}
QUESTION_MAX_CHARS = 200  # it was trained on short questions, and finds less than the search for a longer message
_TEXT_MAX_CHARS = 2_000  # only bounds what is tokenized; of that, the tokens below are read
_PAIR_MAX_TOKENS = 128  # time and memory grow with it
_MENDS = f"run: hermes-pgvector model install {MODEL}"
_MAX_REMEMBERED = 256  # questions: all pages of one must follow a single order, however many texts were scored

Logits = tuple[float, ...]


class CrossEncoder:
    """Scores with the model in `folder`, loaded from the first question on. Safe to call from several threads.

    All cross-encoders of a folder in a process share one model, which scores one text at a time: that bounds memory
    and CPU.
    """

    def __init__(self, folder: Path, *, threads: int = 1) -> None:
        self._shared: _SharedModel | None = _models.of(folder, threads)
        self._counters = Counters("rerank_texts", "rerank_cache_hits")
        self._lock = threading.Lock()
        self._remembered: LruDict[bytes, Logits] = LruDict(_MAX_REMEMBERED)

    def logits(self, question: str, texts: Sequence[str], *, until: float) -> Logits:
        """Return one number for each of the first texts, see `logits_of`."""
        return self.logits_of([(question, text) for text in texts], until=until)

    def logits_of(self, pairs: Sequence[tuple[str, str]], *, until: float) -> Logits:
        """Return one number for each of the first pairs of question and text, as many as are scored by `until`
        (monotonic).

        A higher number is a better answer; above 0 a text more likely answers than not. None are scored while the model
        is being loaded, or if it cannot be loaded. Raises EmbedderError when it fails.
        """
        shared = self._shared
        session = shared.ready() if shared is not None else None
        if shared is None or session is None:
            return ()
        pairs = [(readable(question, QUESTION_MAX_CHARS), text) for question, text in pairs]
        key = digest("\0".join(chain.from_iterable(pairs)))
        with self._lock:
            known = self._remembered.use(key)
        if known is not None:
            self._counters.add(rerank_cache_hits=1)
            return known
        scored = shared.logits(session, pairs, until)
        self._counters.add(rerank_texts=len(scored))
        if scored:
            with self._lock:
                self._remembered[key] = scored
        return scored

    def load(self) -> None:
        """Load the model now. Raises EmbedderError."""
        if self._shared is not None:
            self._shared.load()

    def state(self) -> str:
        """Return `closed` if the model works, `open` if it cannot, `idle`, `loading`, or `none` if not installed."""
        return self._shared.state() if self._shared is not None else "none"

    def stats(self) -> dict[str, int]:
        """Return texts scored, and questions answered from the cache."""
        return self._counters.snapshot()

    def close(self) -> None:
        """Release the model; the last one to do so frees its memory."""
        self._shared = None


class _SharedModel:
    """The model, shared within a process."""

    def __init__(self, folder: Path, threads: int) -> None:
        self._folder = folder
        self._threads = threads
        self._session: OnnxSession | None = None
        self._loading = threading.Lock()
        self._scoring = threading.Lock()
        self._unusable: tuple[int, ...] = ()  # signature of the model file when loading failed

    def ready(self) -> OnnxSession | None:
        """Return the model if it is loaded; else start loading it, unless it is missing or was found unusable."""
        if self.state() == "idle":
            threading.Thread(target=self._load_in_background, name="hermes-pgvector-rerank", daemon=True).start()
        return self._session

    def load(self) -> None:
        """Load the model, unless it is loaded. Raises EmbedderError."""
        with self._loading:
            if self._session is not None:
                return
            found = _signature(self._folder)
            try:
                _check_files(self._folder)
                session = load_session(self._folder, self._threads)
            except EmbedderError:
                self._unusable = found
                raise
            session.tokenizer.enable_truncation(max_length=_PAIR_MAX_TOKENS)
            self._session = session

    def state(self) -> str:
        if self._session is not None:
            return "closed"
        if self._loading.locked():
            return "loading"
        found = _signature(self._folder)
        if not found:
            return "none"
        return "open" if found == self._unusable else "idle"

    def logits(self, session: OnnxSession, pairs: Sequence[tuple[str, str]], until: float) -> Logits:
        """Score one text after another, while there is time for one more like the last. Raises EmbedderError."""
        scored: list[float] = []
        took_s = 0.0
        with Translated(f"the local model {MODEL} failed"), suppress(EmbedderUnavailable):
            for question, text in pairs:
                began = time.monotonic()
                with exclusively(self._scoring, until - took_s, MODEL):
                    pair = session.tokenizer.encode(question, readable(text, _TEXT_MAX_CHARS))
                    scored.append(float(session.run(pair, session.outputs[0].name)[0]))
                took_s = time.monotonic() - began
        return tuple(scored)

    def _load_in_background(self) -> None:
        try:
            self.load()
        except EmbedderError as exc:
            logger.warning("hermes-pgvector: results are not reranked: %s", exc)


_models = SharedModels(_SharedModel)


def _signature(folder: Path) -> tuple[int, ...]:
    """Return what changes when the model is installed anew; empty if it is not installed."""
    try:
        found = (folder / "model.onnx").stat()
    except OSError:
        return ()
    return found.st_ino, found.st_mtime_ns, found.st_size


def _check_files(folder: Path) -> None:
    """Raise EmbedderError unless every file has the expected checksum."""
    for name, expected in SHA256.items():
        try:
            if not (folder / name).is_file():  # reading a pipe would block
                raise FileNotFoundError(errno.ENOENT, "there is no such file")
            with (folder / name).open("rb") as file:
                found = hashlib.file_digest(file, "sha256").hexdigest()
        except OSError as exc:
            raise EmbedderError(f"{folder / name} cannot be read: {exc.strerror or exc}; {_MENDS}") from exc
        if found != expected:
            raise EmbedderError(f"{folder / name} is damaged: its sha256 is {found}, expected {expected}; {_MENDS}")
