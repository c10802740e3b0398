"""The endpoints: whether they answer, and how fast."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from ...config.settings import Settings
from ...config.sources import read_section
from ...domain.errors import EmbedderError, HermesPgvectorError
from ...embed.factory import embedder_for, reranker_for
from ...embed.model_folder import LOCAL, is_local, local_folder, read_model_folder
from ..common.spool_views import inspect_spools
from .check import Check, DoctorContext

_QUESTION = "Is anybody there?"
_FRESH_S = 60.0  # a living process tells its counters every five seconds
_TEXTS = ("Somebody is there.", "It rains in Lisbon.")


def check_endpoints(context: DoctorContext) -> Iterator[Check]:
    """By what recall goes, why, and what to run for more; and who puts results in order, where somebody does."""
    yield _embedding(context)
    if context.settings.rerank_url:
        yield _reranker(context.settings, context.rerank_key)


def _embedding(context: DoctorContext) -> Check:
    settings = context.settings
    if not settings.embed_url:
        return Check(
            "embedding",
            "note",
            "none: recall goes by words, not by meaning, since embed_url names neither an endpoint nor a model",
            f"{_how(context.home)}; or set plugins.pgvector.embed_url and embed_model to an endpoint of yours",
        )
    local = is_local(settings.embed_url)
    try:
        if local and (pid := _lender(context)):
            name = settings.embed_url.strip()[len(LOCAL) :].strip()
            return Check("embedding", "ok", f"local model {name} works in the agent of process {pid}")
        embedder = embedder_for(settings, context.embed_key, home=context.home)
        assert embedder is not None
        started = time.monotonic()
        try:
            embedder.embed_query(_QUESTION, timeout_s=settings.embed_timeout_s)
        finally:
            embedder.close()
    except (EmbedderError, HermesPgvectorError) as exc:
        check = "hermes-pgvector model verify" if local else "check embed_url, embed_model and dims"
        return Check("embedding", "fail", str(exc), f"{check}; recall goes by words meanwhile")
    which = f"local model {embedder.model} in this process," if local else f"{embedder.model} answers with"
    return Check("embedding", "ok", f"{which} {settings.dims} dimensions, in {_since_ms(started)} ms")


def _how(home: Path) -> str:
    """Return the command that gives recall by meaning; where words were chosen, `model choose` leaves it at that."""
    section, _ = read_section(home)
    chosen = isinstance(section, dict) and section.get("embed_url") is not None
    return "hermes-pgvector model install --use" if chosen else "hermes-pgvector model choose"


def _lender(context: DoctorContext) -> str:
    """Return the process id of an agent here that has embedded with the local model and still can; empty without one.

    What it says is as good as loading the model here, which costs more than all other checks. Raises EmbedderError
    where the model is gone, of which the agent knows nothing yet.
    """
    name = read_model_folder(local_folder(context.settings.embed_url, context.home)).name
    for view in inspect_spools(context.home):
        said = view.report
        fresh = view.living and view.report_age_s is not None and view.report_age_s < _FRESH_S
        if fresh and (said.get("embed_model"), said.get("endpoint")) == (name, "closed") and said.get("embed_texts"):
            return view.pid
    return ""


def _reranker(settings: Settings, api_key: str) -> Check:
    name = "reranking"
    try:
        reranker = reranker_for(settings, api_key)
        started = time.monotonic()
        try:
            reranker.scores(_QUESTION, _TEXTS, timeout_s=max(settings.rerank_deadline_s, settings.embed_timeout_s))
        finally:
            reranker.close()
    except HermesPgvectorError as exc:
        return Check(
            name, "fail", str(exc), "check rerank_url, rerank_model and rerank_api; results keep their order meanwhile"
        )
    took_ms = _since_ms(started)
    said = f"{settings.rerank_model or 'the endpoint'} answers in {took_ms} ms"
    if took_ms > settings.rerank_deadline_s * 1000:
        return Check(
            name, "note", f"{said}, later than rerank_deadline_s allows: most results keep their order",
            "raise plugins.pgvector.rerank_deadline_s, or lower rerank_candidates",
        )  # fmt: skip
    return Check(name, "ok", said)


def _since_ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
