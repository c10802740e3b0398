"""Trial of an embedding model: whether it answers, how fast, and whether the database takes its vectors."""

from __future__ import annotations

import time
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from ...config.settings import Settings
from ...domain.errors import ConfigurationError, EmbedderError, EmbedderUnavailable
from ...domain.types import EmbeddingSpace
from ...embed.embedder import space_of
from ...embed.factory import embedder_for
from ...embed.model_folder import is_local
from ..common.given_dims import MAX_DIMS, dims_given

_TEXT = "Is anybody there?"


@dataclass(frozen=True, slots=True)
class Room:
    """The vectors that a database can take: `held` is their space, None if the tables do not exist yet.

    `can_resize`: the tables hold no vector yet, and setup may change them.
    """

    held: EmbeddingSpace | None = None
    can_resize: bool = False


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of a trial. `resize`: the tables must first be changed to the model's vector length."""

    space: EmbeddingSpace
    took_ms: float
    resize: bool = False


def try_embedding(settings: Settings, api_key: str, home: Path, room: Room) -> Trial:
    """Embed one text with the model that the settings name, whatever their `dims` says.

    Raises EmbedderError or ConfigurationError, which say why the model cannot be used and what can be done.
    """
    try:
        given = dims_given(settings, api_key, home=home)
    except EmbedderUnavailable as exc:
        raise EmbedderError(f"{exc}; start the endpoint, or correct its URL") from exc
    dims = _fitting(settings, given, room)
    embedder = embedder_for(replace(settings, dims=dims), api_key, home=home)
    if embedder is None:
        raise ConfigurationError("embed_url names neither an endpoint nor a model")
    with closing(embedder):
        try:
            began = time.monotonic()
            embedder.embed_query(_TEXT, timeout_s=settings.embed_timeout_s)
            took_ms = (time.monotonic() - began) * 1000
            space = space_of(embedder)
        except EmbedderError:
            if dims != given and room.held is not None:
                raise ConfigurationError(_mismatch(settings, given, room.held)) from None
            raise
    return Trial(space, took_ms, _needs_resize(settings, space, room.held))


def _needs_resize(settings: Settings, space: EmbeddingSpace, held: EmbeddingSpace | None) -> bool:
    """Return whether the tables have another vector length. Raises ConfigurationError if vectors are not comparable."""
    if held is None or held.dims != space.dims:
        return held is not None
    if held.model and not space.comparable(held):
        raise ConfigurationError(
            f"the database holds vectors of {held.model}, which those of {space.model} cannot be compared with; "
            + _remedy(settings)
        )
    return False


def require_room(settings: Settings, model: str, dims: int, room: Room) -> bool:
    """Return whether the tables must first be changed to `dims`, for a model that cannot be tried yet.

    Raises ConfigurationError if the tables hold other vectors.
    """
    held = room.held
    if held is None or (held.dims == dims and held.model in ("", model)):
        return False
    if not room.can_resize:
        raise ConfigurationError(_mismatch(settings, dims, held))
    return held.dims != dims


def _fitting(settings: Settings, given: int, room: Room) -> int:
    """Return the vector length to ask the model for."""
    held = room.held
    may_be_shorter = not is_local(settings.embed_url)  # some models give shorter vectors when asked
    if held is not None and held.dims != given and not room.can_resize:
        if held.dims < given and may_be_shorter:
            return held.dims
        raise ConfigurationError(_mismatch(settings, given, held))
    if given > MAX_DIMS:
        if settings.dims < given and may_be_shorter:
            return settings.dims
        raise ConfigurationError(f"the model gives {given} dimensions, and at most {MAX_DIMS:,} can be stored")
    return given


def _mismatch(settings: Settings, given: int, held: EmbeddingSpace) -> str:
    whose = f" of {held.model}" if held.model else ""
    return (
        f"the model gives {given} dimensions, and the database holds vectors{whose} of {held.dims}; name a model of "
        f"{held.dims} dimensions, or {_remedy(settings)}"
    )


def _remedy(settings: Settings) -> str:
    model = "" if is_local(settings.embed_url) else f" --model {settings.embed_model}"
    admin = " --admin-dsn DSN" if settings.dsn else ""
    return f"change the database: hermes-pgvector reembed --url {settings.embed_url}{model}{admin} --yes"
