"""A sentence-embedding model on disk: its folder, its files, and how its numbers become one vector."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from ..domain.errors import ConfigurationError, EmbedderError
from ..domain.files import read_regular_file
from ..domain.patterns import late_pattern
from .instructions import Instructions

Pooling = Literal["cls", "mean", "last"]
POOLINGS: tuple[Pooling, ...] = get_args(Pooling)
# What `model install` writes beside the files of a model.
MANIFEST = "model.json"
# An embed_url that begins with it names a model on disk, not an endpoint.
LOCAL = "local:"
# Time and memory grow with the square of the length, and longer texts are stored in pieces anyway.
MAX_TOKENS = 1_024

_NAME = late_pattern(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")
_ONNX_FILES = ("model.onnx", "onnx/model.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
_POOLING_FILE = "1_Pooling/config.json"
# For folders without the file above, by the model's name; all others use the mean.
_CLS_FAMILIES = late_pattern(r"bge-|mxbai-embed|arctic-embed", re.IGNORECASE)
_LAST_FAMILIES = late_pattern(r"qwen3-embedding|e5-mistral", re.IGNORECASE)
# Their positions begin after that of the padding, so that two fewer tokens fit than config.json says.
_SHIFTED = frozenset({"roberta", "xlm-roberta", "camembert", "mpnet"})


class ModelFolder(NamedTuple):
    """The facts of a model's folder. `prompts` are the prefixes that it wants before a text, None if it names none."""

    name: str
    path: Path
    onnx: Path
    tokenizer: Path
    lowercase: bool
    pooling: Pooling
    max_tokens: int
    prompts: Instructions | None


def is_local(embed_url: str) -> bool:
    """Return whether the setting names a model on this machine's disk, to be run in this process."""
    return embed_url.strip().lower().startswith(LOCAL)


def local_name(embed_url: str) -> str:
    """Return what stands after `local:`: a model's name or a folder."""
    return embed_url.strip()[len(LOCAL) :].strip()


def models_folder(home: Path) -> Path:
    """Return the folder of the models of a hermes home, each in a folder of its name."""
    return home / "pgvector" / "models"


def is_model_name(name: str) -> bool:
    """Return whether `name` can be the name of an installed model: a word without path separators."""
    return _NAME.fullmatch(name) is not None


def local_folder(embed_url: str, home: Path) -> Path:
    """Return the folder that `local:NAME` or `local:/a/folder` means; does no I/O. Raises ConfigurationError."""
    named = local_name(embed_url)
    if "/" in named or named.startswith("~"):
        return Path(named).expanduser()
    if not is_model_name(named):
        raise ConfigurationError(f"embed_url {embed_url!r} names no model; write local:NAME or local:/path/to/a/folder")
    return models_folder(home) / named


def read_model_folder(path: Path, *, pooling: Pooling | None = None) -> ModelFolder:
    """Read the model in `path`; `pooling` overrides what its files say. Raises EmbedderError if it is no model."""
    if not path.is_dir():
        raise EmbedderError(f"there is no model in {path}; see which there are: hermes-pgvector model list")
    manifest = read_json(path / MANIFEST)
    tokenizing = read_json(path / "tokenizer_config.json")
    return ModelFolder(
        name=path.name,
        path=path,
        onnx=_onnx_file(path),
        tokenizer=_tokenizer_file(path),
        lowercase=bool(tokenizing.get("do_lower_case", True)),
        pooling=pooling or _pooling(path, manifest),
        max_tokens=_max_tokens(path, tokenizing),
        prompts=_prompts(path),
    )


def read_json(path: Path) -> dict[str, Any]:
    """Return the object in a JSON file; empty when there is no such file. Raises EmbedderError when it is damaged."""
    try:
        found = json.loads(read_regular_file(path))
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as exc:
        raise EmbedderError(f"{path} cannot be read: {exc}") from exc
    return found if isinstance(found, dict) else {}


def _onnx_file(path: Path) -> Path:
    for name in _ONNX_FILES:
        if (path / name).is_file():
            return path / name
    # Regular files only: a pipe would block whoever loads the model.
    others = sorted(filter(Path.is_file, (*path.glob("*.onnx"), *path.glob("onnx/*.onnx"))))
    if len(others) == 1:
        return others[0]
    said = "several .onnx files and none is called model.onnx" if others else "no .onnx file"
    raise EmbedderError(f"{path} holds {said}")


def _tokenizer_file(path: Path) -> Path:
    for name in ("tokenizer.json", "vocab.txt"):
        if (path / name).is_file():
            return path / name
    raise EmbedderError(f"{path} holds neither tokenizer.json nor vocab.txt")


def _pooling(path: Path, manifest: dict[str, Any]) -> Pooling:
    if manifest.get("pooling") in POOLINGS:
        return manifest["pooling"]  # type: ignore[no-any-return]
    found = _pooling_modes(read_json(path / _POOLING_FILE))
    if not found:
        return _family_pooling(path.name)
    if len(found) > 1 or found[0] not in POOLINGS:
        raise EmbedderError(f"{path / _POOLING_FILE} asks for {', '.join(found)}; one of {', '.join(POOLINGS)} works")
    return found[0]  # type: ignore[no-any-return]


def _pooling_modes(config: dict[str, Any]) -> list[Any]:
    """Return the modes that sentence-transformers' pooling file asks for, the ones we know under our names."""
    if isinstance(config.get("pooling_mode"), str):
        named = [config["pooling_mode"]]
    else:
        named = [key.removeprefix("pooling_mode_") for key, value in config.items() if value is True]
    known = {"cls_token": "cls", "mean_tokens": "mean", "lasttoken": "last"}
    return [known.get(mode, mode) for mode in named if mode != "include_prompt"]


def _family_pooling(name: str) -> Pooling:
    if _CLS_FAMILIES.search(name):
        return "cls"
    return "last" if _LAST_FAMILIES.search(name) else "mean"


def _max_tokens(path: Path, tokenizing: dict[str, Any]) -> int:
    config = read_json(path / "config.json")
    positions = config.get("max_position_embeddings")
    if isinstance(positions, int) and config.get("model_type") in _SHIFTED:
        positions -= 2
    said = (
        read_json(path / "sentence_bert_config.json").get("max_seq_length"),
        tokenizing.get("model_max_length"),
        positions,
    )
    known = [int(each) for each in said if isinstance(each, (int, float)) and 0 < each < 1_000_000]
    return min(*known, MAX_TOKENS) if known else 512


def _prompts(path: Path) -> Instructions | None:
    prompts = read_json(path / "config_sentence_transformers.json").get("prompts")
    if not isinstance(prompts, dict):
        return None
    texts = {key: text for key, text in prompts.items() if isinstance(text, str)}
    made = Instructions(texts.get("document") or texts.get("passage") or "", texts.get("query") or "")
    return made if made != Instructions() else None
