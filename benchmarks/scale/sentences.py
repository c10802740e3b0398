"""Real sentences with real vectors, for exactness.py."""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.embedding_server import OnnxModel

EVERYTHING = "everything"  # the theme that holds the sentences of all others once more
QUESTIONS = 300
_END = re.compile(r"(?<=[.!?])\s+")


@dataclass
class Stored:
    """What a database is loaded with."""

    dims: int
    sizes: dict[str, int]
    rows: list[tuple[int, str, str, Any]]


def add_options(options: argparse.ArgumentParser) -> None:
    """Those of --sentences."""
    options.add_argument("--sentences", action="store_true", help="real sentences instead of generated vectors")
    options.add_argument("--data", type=Path, metavar="FILE", help="locomo10.json, or text with a sentence a line")
    options.add_argument("--model-dir", type=Path, default=os.environ.get("PGVECTOR_TEST_MODEL"), metavar="DIR")
    options.add_argument("--cache", type=Path, metavar="FILE", help="keep the vectors there (.npz)")


def read(data: Path, model_dir: Path, cache: Path | None, asked: Callable[..., Any]) -> tuple[Stored, list[Any]]:
    """The rows to store, and questions about them: LoCoMo's own, or else every 50th line, which is not stored."""
    themes, questions = _locomo(data) if data.suffix == ".json" else _lines(data)
    texts = sorted({text for said in themes.values() for text in said} | {text for _, text in questions})
    vectors = _embedded(texts, Path(model_dir), cache)
    spoken = [(theme, text) for theme, said in themes.items() for text in said]
    copies = [(EVERYTHING, text) for _, text in spoken] if len(themes) > 1 else []
    rows = [(number, theme, text, vectors[text]) for number, (theme, text) in enumerate(spoken + copies)]
    sizes = {theme: len(said) for theme, said in themes.items()} | ({EVERYTHING: len(copies)} if copies else {})
    step = max(1, len(questions) // QUESTIONS)
    chosen = questions[::step]
    asking = [
        asked(where, sizes[where], text, vectors[text])
        for theme, text in chosen
        for where in ([theme, EVERYTHING] if copies else [theme])
    ]
    return Stored(len(rows[0][3]), sizes, rows), asking


def _locomo(data: Path) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    themes: dict[str, list[str]] = {}
    questions = []
    for conversation in json.loads(data.read_text()):
        theme = conversation["sample_id"]
        sessions = [said for said in conversation["conversation"].values() if isinstance(said, list)]
        texts = [text for said in sessions for turn in said for text in _END.split(turn["text"]) if len(text) > 10]
        themes[theme] = list(dict.fromkeys(texts))
        questions += [(theme, asked["question"]) for asked in conversation["qa"]]
    return themes, questions


def _lines(data: Path) -> tuple[dict[str, list[str]], list[tuple[str, str]]]:
    lines = list(dict.fromkeys(line.strip() for line in data.read_text().splitlines() if line.strip()))
    asked = lines[::50]
    return {EVERYTHING: [line for number, line in enumerate(lines) if number % 50]}, [
        (EVERYTHING, one) for one in asked
    ]


def _embedded(texts: Sequence[str], model_dir: Path, cache: Path | None) -> dict[str, Any]:
    key = hashlib.sha256("\n".join(texts).encode()).hexdigest()
    if cache is not None and cache.exists():
        with np.load(cache) as kept:
            if str(kept["key"]) == key:
                return dict(zip(texts, kept["vectors"], strict=True))
    model = OnnxModel(model_dir)
    vectors = np.array([model.embed(text) for text in texts], dtype=np.float32)
    if cache is not None:
        np.savez(cache, key=key, vectors=vectors)
    return dict(zip(texts, vectors, strict=True))
