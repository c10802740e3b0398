"""all-mpnet-base-v2 (768 dims) in numpy, from its safetensors file: a larger model without a larger toolbox.

Only texts with the same number of tokens are computed together, so nothing is padded and nothing is masked.
Apart from rounding, the vectors are those of the published model: mean of the last layer, unit length, 384 tokens.
Where PyTorch is installed it multiplies, in bfloat16, which is several times faster and moves a cosine by some 0.002.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy
import tokenizers

try:
    import torch
except ImportError:
    torch = None

Array = numpy.ndarray[Any, numpy.dtype[numpy.float32]]

MAX_TOKENS = 384
LAYERS, HEADS = 12, 12
_BUCKETS, _FAR = 32, 128  # of relative positions: half of them each way, the last one for everything farther off
_FIRST_POSITION = 2  # the table of positions begins with two rows that no token uses
_BATCH_TOKENS = 2048


class MpnetModel:
    """A sentence model; not for several threads at once."""

    def __init__(self, folder: Path) -> None:
        self._weights = read_safetensors(folder / "model.safetensors")
        self._halves: dict[str, Any] = {}
        self._tokenizer: Any = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(max_length=MAX_TOKENS)
        self._tokenizer.no_padding()

    def embed_all(self, texts: Sequence[str]) -> list[list[float]]:
        """The unit vector of each text, in order."""
        encoded = sorted(
            ((each.ids, place) for place, each in enumerate(self._tokenizer.encode_batch(list(texts)))),
            key=lambda each: len(each[0]),
        )
        vectors: list[list[float]] = [[] for _ in texts]
        for length, group in groupby(encoded, key=lambda each: len(each[0])):
            alike = list(group)
            step = max(1, _BATCH_TOKENS // length)
            for start in range(0, len(alike), step):
                batch = alike[start : start + step]
                for (_, place), vector in zip(batch, self._run([ids for ids, _ in batch]), strict=True):
                    vectors[place] = vector.astype(float).tolist()
        return vectors

    def _run(self, ids: list[list[int]]) -> Array:
        """`(texts, 768)` of texts of one length."""
        tokens = numpy.array(ids)
        length = tokens.shape[1]
        positions = self._weights["embeddings.position_embeddings.weight"][_FIRST_POSITION : _FIRST_POSITION + length]
        state = self._norm(
            "embeddings.LayerNorm", self._weights["embeddings.word_embeddings.weight"][tokens] + positions
        )
        bias = self._weights["encoder.relative_attention_bias.weight"][_buckets(length)].transpose(2, 0, 1)
        for layer in range(LAYERS):
            name = f"encoder.layer.{layer}"
            state = self._norm(
                f"{name}.attention.LayerNorm", state + self._attention(f"{name}.attention.attn", state, bias)
            )
            inner = _gelu(self._dense(f"{name}.intermediate.dense", state))
            state = self._norm(f"{name}.output.LayerNorm", state + self._dense(f"{name}.output.dense", inner))
        mean = state.mean(axis=1)
        unit: Array = mean / numpy.linalg.norm(mean, axis=1, keepdims=True)
        return unit

    def _attention(self, name: str, state: Array, bias: Array) -> Array:
        texts, length, width = state.shape
        query, key, value = (
            self._dense(f"{name}.{part}", state).reshape(texts, length, HEADS, width // HEADS).transpose(0, 2, 1, 3)
            for part in "qkv"
        )
        scores = query @ key.transpose(0, 1, 3, 2) / math.sqrt(width // HEADS) + bias
        scores = numpy.exp(scores - scores.max(axis=-1, keepdims=True))
        mixed = (scores / scores.sum(axis=-1, keepdims=True)) @ value
        return self._dense(f"{name}.o", mixed.transpose(0, 2, 1, 3).reshape(texts, length, width))

    def _dense(self, name: str, values: Array) -> Array:
        flat = values.reshape(-1, values.shape[-1])
        if torch is None:
            product = flat @ self._weights[f"{name}.weight"].T
        else:
            if name not in self._halves:
                self._halves[name] = torch.from_numpy(self._weights[f"{name}.weight"].copy()).bfloat16()
            half = self._halves[name]
            product = torch.nn.functional.linear(torch.from_numpy(flat).bfloat16(), half).float().numpy()
        return (product + self._weights[f"{name}.bias"]).reshape(*values.shape[:-1], -1)

    def _norm(self, name: str, values: Array) -> Array:
        centred = values - values.mean(axis=-1, keepdims=True)
        scaled = centred / numpy.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-5)
        normed: Array = scaled * self._weights[f"{name}.weight"] + self._weights[f"{name}.bias"]
        return normed


def read_safetensors(path: Path) -> dict[str, Array]:
    """The float32 tensors of a safetensors file by name."""
    body = numpy.memmap(path, dtype=numpy.uint8, mode="r")
    header_bytes = int(body[:8].view(numpy.uint64)[0])
    header = json.loads(body[8 : 8 + header_bytes].tobytes())
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__" and entry["dtype"] == "F32":
            start, end = (8 + header_bytes + offset for offset in entry["data_offsets"])
            tensors[name] = body[start:end].view(numpy.float32).reshape(entry["shape"])
    return tensors


def _buckets(length: int) -> Any:
    """`(length, length)`: the number of the bucket of each pair of places; near ones alone, far ones by logarithm."""
    offset = numpy.arange(length)[None, :] - numpy.arange(length)[:, None]
    half, near = _BUCKETS // 2, _BUCKETS // 4
    distance = numpy.abs(offset)
    by_logarithm = near + numpy.log(numpy.maximum(distance, 1) / near) / math.log(_FAR / near) * (half - near)
    return numpy.where(offset > 0, half, 0) + numpy.where(
        distance < near, distance, numpy.minimum(by_logarithm.astype(int), half - 1)
    )


def _gelu(values: Array) -> Array:
    """x * Phi(x), the error function by a rational approximation (Abramowitz and Stegun 7.1.26, off by < 2e-7)."""
    if torch is not None:
        exact: Array = torch.nn.functional.gelu(torch.from_numpy(values)).numpy()
        return exact
    scaled = numpy.abs(values) * numpy.float32(1 / math.sqrt(2))
    t = 1 / (1 + numpy.float32(0.3275911) * scaled)
    series = numpy.zeros_like(t)
    for factor in (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592):
        series = (series + numpy.float32(factor)) * t
    erf = numpy.sign(values) * (1 - series * numpy.exp(-scaled * scaled))
    result: Array = values * (1 + erf) / 2
    return result
