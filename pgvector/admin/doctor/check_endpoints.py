"""The endpoints: whether they answer, and how fast."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

from ...config.settings import Settings
from ...config.sources import read_section
from ...domain.commandline import pip_install
from ...domain.errors import EmbedderError, EmbedderUnavailable, HermesPgvectorError
from ...domain.theme import Languages
from ...embed.cross_encoder import LANGUAGE, MODEL
from ...embed.factory import cross_encoder_for, embedder_for, reranker_for
from ...embed.model_folder import is_local, is_model_name, local_folder, local_name, models_folder, read_model_folder
from ...embed.onnx_session import missing_packages
from ...recall.reranking import rerank_deadline_s
from ..common.model_source import CATALOGUE
from ..common.spool_views import inspect_spools
from .check import Check, DoctorContext, fail, note, ok
from .stored_samples import made_otherwise

_QUESTION = "Is anybody there?"
_FRESH_S = 60.0  # a living process publishes its counters every five seconds
_TEXTS = ("Somebody is there.", "It rains in Lisbon.")


def check_endpoints(context: DoctorContext) -> Iterator[Check]:
    """Yield how recall works, why, and how to improve it; and what reranks the results, unless that is off."""
    yield _embedding(context)
    if context.settings.rerank == "auto":
        by_endpoint = context.settings.rerank_url
        yield _reranker(context.settings, context.keys.rerank) if by_endpoint else _bundled_reranker(context)


def _embedding(context: DoctorContext) -> Check:
    settings = context.settings
    if not settings.embed_url:
        return note(
            "embedding",
            "none: recall goes by words, not by meaning, since embed_url names neither an endpoint nor a model",
            f"{_how(context.home)}; or set plugins.pgvector.embed_url and embed_model to an endpoint of yours",
        )
    local = is_local(settings.embed_url)
    try:
        if local and (pid := _agent_with_the_model(context)):
            name = local_name(settings.embed_url)
            return ok("embedding", f"local model {name} works in the agent of process {pid}")
        embedder = embedder_for(settings, context.keys.embed, home=context.home)
        assert embedder is not None
        started = time.monotonic()
        with closing(embedder):
            embedder.embed_query(_QUESTION, timeout_s=settings.embed_timeout_s)
            took_ms = _since_ms(started)
            other = made_otherwise(context, embedder)
    except HermesPgvectorError as exc:
        return fail("embedding", str(exc), f"{_remedy(exc, context)}; recall goes by words meanwhile")
    if other:
        return _other_model(embedder.model, other, settings)
    which = f"local model {embedder.model} in this process," if local else f"{embedder.model} answers with"
    return ok("embedding", f"{which} {settings.dims} dimensions, in {took_ms} ms")


def _other_model(name: str, other: str, settings: Settings) -> Check:
    former = (
        "put its former files back" if is_local(settings.embed_url) else "have the endpoint serve the former one again"
    )
    return fail(
        "embedding",
        f"{name} is another model than the one that has made the vectors in the database: {other}",
        f"{former}; or embed everything anew, for all who use this database: "
        f"hermes-pgvector reembed --again --yes{' --admin-dsn DSN' if settings.dsn else ''}",
    )


def _remedy(exc: HermesPgvectorError, context: DoctorContext) -> str:
    url = context.settings.embed_url
    if not is_local(url):
        if isinstance(exc, EmbedderUnavailable):
            return "start the endpoint or wait for it, or correct embed_url"
        return f"check embed_url, embed_model, dims and the API key in {context.settings.embed_api_key_env}"
    if is_model_name(name := local_name(url)) and not (models_folder(context.home) / name).is_dir():
        return f"hermes-pgvector model install {name}{'' if name in CATALOGUE else ' --from DIR'}"
    busy = "; if that finds nothing, this machine is too busy: raise embed_timeout_s"
    return f"hermes-pgvector model verify{busy if isinstance(exc, EmbedderUnavailable) else ''}"


def _how(home: Path) -> str:
    """Return the command that enables recall by meaning; `model choose` does not if recall by words was chosen."""
    section, _ = read_section(home)
    chosen = isinstance(section, dict) and section.get("embed_url") is not None
    return "hermes-pgvector model install --use" if chosen else "hermes-pgvector model choose"


def _agent_with_the_model(context: DoctorContext) -> str:
    """Return the pid of an agent here that has embedded with the local model and still can; empty if there is none.

    Its report is as good as loading the model here, which costs more than all other checks. Raises EmbedderError if the
    model is gone, which the agent does not know yet.
    """
    name = read_model_folder(local_folder(context.settings.embed_url, context.home)).name
    return _agent_that(
        context, lambda said: (said.get("embed_model"), said.get("endpoint")) == (name, "closed"), "embed_texts"
    )


def _agent_that(context: DoctorContext, works: Callable[[Mapping[str, object]], bool], counter: str) -> str:
    for view in inspect_spools(context.home):
        fresh = view.living and view.report_age_s is not None and view.report_age_s < _FRESH_S
        if fresh and works(view.report) and view.report.get(counter):
            return view.pid
    return ""


def _bundled_reranker(context: DoctorContext) -> Check:
    """Return whether the bundled cross-encoder works, or how to get it."""
    name, folder = "reranking", models_folder(context.home) / MODEL
    if LANGUAGE not in Languages(context.settings.text_language, context.settings.text_languages).all:
        return ok(name, f"none: the bundled {MODEL} reads English, and no theme is in English here")
    if not folder.is_dir():
        return note(
            name,
            f"none: {MODEL}, which is bundled, is not installed; results keep the order of the search",
            f"hermes-pgvector model install {MODEL}; or set plugins.pgvector.rerank to off",
        )
    if lacking := missing_packages():
        return note(name, f"none: {MODEL} needs {', '.join(lacking)} in this Python", pip_install(*lacking))
    if pid := _agent_that(context, lambda said: said.get("reranker") == "closed", "rerank_texts"):
        return ok(name, f"{MODEL} works in the agent of process {pid}")
    encoder = cross_encoder_for(context.settings, context.home)
    try:
        encoder.load()
        started = time.monotonic()
        encoder.logits(_QUESTION, _TEXTS, until=started + context.settings.embed_timeout_s)
    except EmbedderError as exc:
        return fail(name, str(exc), "hermes-pgvector model verify; results keep their order meanwhile")
    finally:
        encoder.close()
    return ok(name, f"{MODEL} in this process, two texts in {_since_ms(started)} ms")


def _reranker(settings: Settings, api_key: str) -> Check:
    name, deadline_s = "reranking", rerank_deadline_s(settings)
    try:
        with closing(reranker_for(settings, api_key)) as reranker:
            started = time.monotonic()
            reranker.scores(_QUESTION, _TEXTS, timeout_s=max(deadline_s, settings.embed_timeout_s))
    except HermesPgvectorError as exc:
        return fail(name, str(exc), "check rerank_url, rerank_model and rerank_api; results keep their order meanwhile")
    took_ms = _since_ms(started)
    said = f"{settings.rerank_model or 'the endpoint'} answers in {took_ms} ms"
    if took_ms > deadline_s * 1000:
        return note(
            name,
            f"{said}, later than rerank_deadline_s allows: most results keep their order",
            "raise plugins.pgvector.rerank_deadline_s, or lower rerank_candidates",
        )
    return ok(name, said)


def _since_ms(started: float) -> int:
    return round((time.monotonic() - started) * 1000)
