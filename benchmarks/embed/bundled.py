"""What the bundled models cost: texts a second at 50 and 300 tokens, memory, the first embedding, disk.

Each figure is of a process of its own with one thread. `raw` is the same model called without our code. With --reranker
also what the cross-encoder adds to a process that embeds, and what a text of 40 and of 128 tokens costs.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import common

RUNS, TOKENS, TEXTS = 5, (50, 300), 40
_EXTRA = ("onnxruntime", "tokenizers", "numpy")

_FIRST = """
import sys, time
began, cpu = time.perf_counter(), time.process_time()
from pathlib import Path
from hermes_memory_pgvector.embed.onnx import OnnxEmbedder
OnnxEmbedder(folder=Path(sys.argv[1]), dims=384).embed_query("Where does a cat like to rest?", timeout_s=60)
print("first_ms", (time.perf_counter() - began) * 1000)
print("first_cpu_ms", (time.process_time() - cpu) * 1000)
"""
_STEADY = """
import sys, time
from pathlib import Path
folder, tokens, texts = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
# One token a word; two more mark beginning and end.
text = " ".join(("harbour", "office", "open", "half", "past", "seven")[i % 6] for i in range(tokens - 2))
batch = [text + " " + str(i) for i in range(texts)]
def peak(name):
    kb = [int(l.split()[1]) for l in Path("/proc/self/status").read_text().splitlines() if l.startswith(name)]
    return kb[0] * 1024 / 1e6
if sys.argv[4] == "ours":
    from hermes_memory_pgvector.embed.onnx import OnnxEmbedder
    embedder = OnnxEmbedder(folder=folder, dims=384)
    embed = lambda: embedder.embed_documents(batch, timeout_s=600)
    embedder.embed_query(text, timeout_s=60)
else:
    import numpy, onnxruntime, tokenizers
    tokenizer = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"])
    def one(text):
        e = tokenizer.encode(text)
        feed = {"input_ids": e.ids, "attention_mask": e.attention_mask, "token_type_ids": e.type_ids}
        session.run(None, {k: numpy.array([v], dtype=numpy.int64) for k, v in feed.items()})
    one(text)
    embed = lambda: [one(each) for each in batch]
began, cpu = time.perf_counter(), time.process_time()
embed()
print("texts_per_s", texts / (time.perf_counter() - began))
print("texts_per_cpu_s", texts / (time.process_time() - cpu))
print("peak_rss_mb", peak("VmHWM"))
"""
_RERANK = """
import sys, time
from pathlib import Path
from hermes_memory_pgvector.embed.cross_encoder import CrossEncoder
from hermes_memory_pgvector.embed.onnx import OnnxEmbedder
def resident():
    kb = [int(l.split()[1]) for l in Path("/proc/self/status").read_text().splitlines() if l.startswith("VmRSS")]
    return kb[0] * 1024 / 1e6
embedder = OnnxEmbedder(folder=Path(sys.argv[1]), dims=384)
embedder.embed_query("Where does a cat like to rest?", timeout_s=60)
before, began, cpu = resident(), time.perf_counter(), time.process_time()
encoder = CrossEncoder(Path(sys.argv[2]))
encoder.load()
print("load_ms", (time.perf_counter() - began) * 1000)
print("load_cpu_ms", (time.process_time() - cpu) * 1000)
words = ("harbour", "office", "open", "half", "past", "seven")
for tokens in (40, 128):
    # Seven words, and three more tokens mark beginnings and ends.
    texts = [" ".join(words[(i + n) % 6] for i in range(tokens - 11)) + " " + str(n) for n in range(40)]
    cpu = time.process_time()
    assert len(encoder.logits("when does the harbour office open up", texts, until=time.monotonic() + 600)) == 40
    print(f"cpu_ms_of_{tokens}_tokens", (time.process_time() - cpu) * 1000 / 40)
print("added_mb", resident() - before)
"""


def figures(program: str, *arguments: str) -> dict[str, float]:
    """What one run of a program prints."""
    done = subprocess.run(
        [sys.executable, "-P", "-c", program, *arguments], stdout=subprocess.PIPE, text=True, check=True
    )
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def median_of(runs: list[dict[str, float]]) -> dict[str, Any]:
    """Median and, where the runs differ, range of every figure."""
    said = {}
    for name in runs[0]:
        values = sorted(run[name] for run in runs)
        said[name] = f"{statistics.median(values):.0f} ({values[0]:.0f}..{values[-1]:.0f})"
    return said


def extra_bytes() -> int:
    """What the extra `model` adds to an environment, its own dependencies with it."""
    seen: set[str] = set()
    waiting = list(_EXTRA)
    total = 0
    while waiting:
        name = re.sub(r"[-_.]+", "-", waiting.pop()).lower()
        if name in seen:
            continue
        seen.add(name)
        try:
            found = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        paths = [Path(str(found.locate_file(file))) for file in found.files or ()]
        total += sum(path.stat().st_size for path in paths if path.is_file())
        waiting += [re.split(r"[^A-Za-z0-9._-]", each)[0] for each in found.requires or () if "extra ==" not in each]
    return total


def main() -> None:
    """Measure and report."""
    parser = common.parser(__doc__)
    parser.add_argument("model", type=Path, metavar="DIR", help="the model's folder, as `model install` makes it")
    parser.add_argument("--reranker", type=Path, metavar="DIR", help="the cross-encoder's folder, likewise")
    parser.add_argument("--runs", type=int, default=RUNS)
    arguments = parser.parse_args()
    folder, runs = str(arguments.model), range(arguments.runs)
    rows: list[dict[str, Any]] = []
    rows.append({"what": "first embedding", **median_of([figures(_FIRST, folder) for _ in runs])})
    for tokens in TOKENS:
        found: dict[str, list[dict[str, float]]] = {"ours": [], "raw": []}
        for _ in runs:
            for how, each in found.items():
                each.append(figures(_STEADY, folder, str(tokens), str(TEXTS), how))
        for how, each in found.items():
            rows.append({"what": f"{tokens} tokens, {how}", **median_of(each)})
    if arguments.reranker:
        rows.append(
            {"what": "reranker", **median_of([figures(_RERANK, folder, str(arguments.reranker)) for _ in runs])}
        )
    disk = sum(path.stat().st_size for path in arguments.model.iterdir()) / 1e6
    rows.append({"what": f"disk: model {disk:.0f} MB, packages of the extra {extra_bytes() / 1e6:.0f} MB"})
    common.report("embed/bundled", {"runs": arguments.runs, "texts": TEXTS}, rows, arguments.json)
    print(json.dumps({"onnxruntime": importlib.metadata.version("onnxruntime")}))


if __name__ == "__main__":
    main()
