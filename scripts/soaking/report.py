"""The figures of a soak: how often, how long, what was wrong; judged, printed, and as the tables of a page."""

from __future__ import annotations

import statistics
from collections import Counter
from typing import Any

from .driver import AgentHandle
from .faults import Schedule, World
from .ledger import HOOKS, PAGE, Verdict

# Beyond the deadlines: for a thread that is given its turn late, on a machine that does other things as well.
MARGIN_MS = 1500.0
HOOK_BOUND_MS = 1000.0
# A tool that writes may wait for its own writes first, and asks the database twice.
BOUNDS_MS = {
    "prefetch": 500 + MARGIN_MS,
    "recall_memory": 2000 + MARGIN_MS,
    "recall_conversation": 2000 + MARGIN_MS,
    "memory_profile": 2000 + MARGIN_MS,
    "remember": 2000 + MARGIN_MS,
    "forget": 2000 + MARGIN_MS,
    "shutdown": 1000 + MARGIN_MS,
    "end by SIGTERM": 10_000.0,
    "end by quit": 10_000.0,
    "server's end by SIGTERM": 10_000.0,
    "server's end by quit": 10_000.0,
    **dict.fromkeys(("mcp remember", "mcp forget", "mcp recall", "mcp profile"), 2000 + MARGIN_MS),
    "mcp turn": 2000 + MARGIN_MS,
    **{f"{PAGE} {what}": 1000 + MARGIN_MS for what in ("search", "list", "row", "agent view", "overview")},
    # As long as it waits for Postgres, and then for a vector.
    **{f"{PAGE} {what}": 30_000 + MARGIN_MS for what in ("add", "edit", "forget", "undo")},
}
MEMORY_BOUND_MB = 30.0


def figures(
    world: World, schedule: Schedule, settled_s: list[float], verdict: Verdict, *, judge_times: bool
) -> dict[str, Any]:
    """Everything worth keeping of a run; bounds are judged here."""
    ledger, spared = world.ledger, schedule.spared
    hooks = [ms for what in HOOKS for ms in ledger.took_ms[what]]
    hooks += ledger.took_ms["switch"]
    took = {"hooks": hooks}
    took |= {what: ledger.took_ms[what] for what in sorted({*ledger.took_ms, *BOUNDS_MS} - {*HOOKS, "switch"})}
    times = {what: _spread(values) for what, values in took.items() if values}
    # While a machine gives a thread its turn seconds late, times say nothing of us: `--no-times` leaves them unjudged.
    for what, spread in times.items() if judge_times else ():
        bound = BOUNDS_MS.get(what, HOOK_BOUND_MS)
        if spread["worst"] > bound:
            ledger.accuse(f"{what} took {spread['worst']:.0f} ms, more than {bound:.0f}")
    memory = _growth(spared)
    if memory.get("grown_mb", 0) > MEMORY_BOUND_MB:
        ledger.accuse(f"the memory of {spared.name} grew by {memory['grown_mb']} MB")
    for agent in world.agents:
        for what, count in agent.failed.items():
            ledger.accuse(f"{agent.name}: an error reached the border to the host {count} times: {what}")
        for said in agent.logged:
            if said.startswith(("ERROR", "CRITICAL")) and "refused and is lost" not in said:
                ledger.accuse(f"{agent.name} logged {said}")
    for service in world.services:
        for line in service.complaints():
            ledger.accuse(f"{service.name} logged {line}")
    logged = sum((agent.logged for agent in world.agents), Counter())
    return {
        "faults": dict(schedule.counts.most_common()),
        "verbs": dict(schedule.verb_exits.most_common()),
        "lives": sum(agent.life for agent in world.agents),
        "lives_of_servers": {service.name: service.life for service in world.services},
        "accepted": dict(ledger.accepted),
        "refused": dict(ledger.refused),
        "unclear": dict(ledger.unclear),
        "recalls": dict(ledger.recalls.most_common()),
        "errors_told": dict(ledger.errors.most_common(20)),
        "stored": {"turns": len(ledger.turns), "facts": len(ledger.facts)},
        "verdict": verdict.counts,
        "times_ms": times,
        "settled_s": {"median": round(statistics.median(settled_s), 1), "worst": round(max(settled_s), 1)},
        "memory": memory,
        "logged": dict(logged.most_common(40)),
        "violations": [*ledger.wrong, *(f"{name}: {each}" for name, found in vars(verdict).items() for each in found)],
    }


def _spread(values: list[float]) -> dict[str, float]:
    ordered = sorted(values)
    at = {"p50": 0.5, "p99": 0.99, "worst": 1.0}
    return {"calls": len(ordered)} | {
        name: round(ordered[min(len(ordered) - 1, int(share * len(ordered)))], 2) for name, share in at.items()
    }


def _growth(agent: AgentHandle) -> dict[str, float]:
    """Memory of a process over its life: the last fifth against the second one, for the first is the start."""
    fifth = len(agent.memory_mb) // 5
    if fifth < 3:
        return {}
    early, late = agent.memory_mb[fifth : 2 * fifth], agent.memory_mb[-fifth:]
    (then, now) = (statistics.median(each[1] for each in some) for some in (early, late))
    return {
        "then_mb": round(then, 1),
        "now_mb": round(now, 1),
        "grown_mb": round(now - then, 1),
        "most_threads": max(each[2] for each in agent.memory_mb),
        "most_files": max(each[3] for each in agent.memory_mb),
    }


def show(found: dict[str, Any], minutes: float, seed: int) -> None:
    """The summary."""
    print(f"\n{minutes:g} minutes, seed {seed}, {found['lives']} lives of the agents")
    for title in ("faults", "accepted", "refused", "unclear", "recalls", "verbs"):
        print(f"\n{title}:")
        for name, count in found[title].items():
            print(f"  {count:8d}  {name}")
    print("\nms                      calls       p50       p99     worst")
    for what, spread in found["times_ms"].items():
        print(f"{what:20s} {spread['calls']:8d} {spread['p50']:9.2f} {spread['p99']:9.2f} {spread['worst']:9.2f}")
    print(f"\nuntil all had arrived (s): {found['settled_s']}")
    print(f"memory of the agent that lived all the time: {found['memory']}")
    print(f"verdict: {found['verdict']}")
    for wrong in found["violations"][:40]:
        print(f"VIOLATION {wrong}")


def tables(found: dict[str, Any], minutes: float) -> list[dict[str, Any]]:
    """What benchmarks/page.py puts into a page: what happened and what came of it, and how long calls took."""
    counts = {
        "writes accepted": sum(found["accepted"].values()),
        "of them in memory only, or under way, when their process was killed": sum(found["unclear"].values()),
        "faults": sum(found["faults"].values()),
        "lives of the agents": found["lives"],
        "lives of the MCP servers and the page's": sum(found["lives_of_servers"].values()),
        "turns stored": found["stored"]["turns"],
        "recalls": sum(found["recalls"].values()),
        **{what.replace("_", " "): count for what, count in found["verdict"].items()},
        "violations of any kind": len(found["violations"]),
    }
    notes = [
        f"{minutes:g} minutes. Everything had arrived {found['settled_s']['median']} s after all faults had ended, "
        f"at most {found['settled_s']['worst']} s. Memory of the agent that lived all the time: "
        f"{found['memory'].get('then_mb')} MB, later {found['memory'].get('now_mb')} MB."
    ]
    times = [
        {"what": what} | {name if name == "calls" else f"{name}, ms": each for name, each in spread.items()}
        for what, spread in found["times_ms"].items()
    ]
    return [
        {
            "name": "soak",
            "rows": [{"what": what, "count": f"{count:,}"} for what, count in counts.items()],
            "notes": notes,
        },
        {"name": "soak-times", "rows": times, "notes": []},
    ]
