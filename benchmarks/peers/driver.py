"""One product in a process of its own: JSON lines in, JSON lines out, nothing but the hooks that the host calls.

    python -P driver.py MODULE:CLASS

Runs in every product's environment, so it needs the standard library alone. A request is `{"do": NAME, ...}`, its
answer an object; "error" in it says what went wrong. At the end of its input the process ends as an agent does that
never says goodbye: nothing is shut down, but what is registered to run at exit runs.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import json
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SESSION = "session-a"

Answer = dict[str, Any]


def texts(number: int, odd: str = "") -> tuple[str, str]:
    """A turn's two texts, different for each number, with `odd` in the middle of both."""
    return (
        f"What is the status of ticket {number} in the queue {odd}of the platform team, and who looks after it today?",
        f"Ticket {number} waits for a review of its {odd}second draft; Robin looks after it and expects to be done.",
    )


def timed_us(call: Callable[..., object], *args: object, **named: object) -> float:
    """Microseconds that the call took."""
    started = time.perf_counter_ns()
    call(*args, **named)
    return (time.perf_counter_ns() - started) / 1000


class Driver:
    """The provider instances of this process, by their numbers."""

    def __init__(self, provider: Any) -> None:
        self._provider = provider
        self._open: list[Any] = []

    def do_open(self, request: Answer) -> Answer:
        """Make and initialise an instance for each theme, until `max_s`; `keep` false lets go of them at once.

        `{theme}` in a text of the configuration stands for the theme.

        With `message`, the time is that of a request which finds no instance: until its message has been answered.
        """
        took, end = [], time.monotonic() + request.get("max_s", 3600)
        for theme in request["themes"]:
            if time.monotonic() > end:
                break
            config = {
                name: value.replace("{theme}", theme) if isinstance(value, str) else value
                for name, value in request["config"].items()
            }
            made = self._provider(config)
            about = {
                "hermes_home": request["home"],
                "platform": "api_server",
                "agent_context": "primary",
                "agent_identity": "default",
                "agent_workspace": "hermes",
                "gateway_session_key": theme,
            }
            took.append(timed_us(made.initialize, SESSION, **about))
            if "message" in request:
                took[-1] += timed_us(made.prefetch, f"{request['message']} {len(took)}?", session_id=SESSION)
            if request.get("turn"):
                made.sync_turn(*texts(request["turn"] + len(took)), session_id=SESSION)
            if request.get("keep", True):
                self._open.append(made)
            del made
        return {"us": took}

    def do_turns(self, request: Answer) -> Answer:
        """`count` turns by each of the first `writers` instances, a thread each, `pause_s` apart."""
        writers, count, pause_s = request.get("writers", 1), request["count"], request.get("pause_s", 0.0)
        took: list[list[float]] = [[] for _ in range(writers)]

        def write(writer: int) -> None:
            made = self._open[writer]
            for number in range(count):
                pair = texts(request["first"] + writer * count + number, request.get("odd", ""))
                took[writer].append(timed_us(made.sync_turn, *pair, session_id=SESSION))
                if pause_s:
                    time.sleep(pause_s)

        began = time.time()
        threads = [threading.Thread(target=write, args=(writer,)) for writer in range(writers)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return {"us": [us for each in took for us in each], "began": began}

    def do_memories(self, request: Answer) -> Answer:
        """`count` entries of the built-in memory, `pause_s` apart, by the instance of that number."""
        took = []
        made = self._open[request.get("instance", 0)]
        about: dict[str, Any] = {"session_id": SESSION}
        # As the host calls it: a hook that takes no metadata gets none.
        more = {"metadata": about} if "metadata" in inspect.signature(made.on_memory_write).parameters else {}
        for number in range(request["first"], request["first"] + request["count"]):
            text = f"Fact {number}: {texts(number, request.get('odd', ''))[1]}"
            took.append(timed_us(made.on_memory_write, "add", "memory", text, **more))
            time.sleep(request.get("pause_s", 0.0))
        return {"us": took}

    def do_ask(self, request: Answer) -> Answer:
        """The tool, asked each of the questions by the instance of that number.

        `ids` are those of all rows that it shows, in order: what it puts around one comes after that one.
        """
        took, answers, ids = [], [], []
        made = self._open[request.get("instance", 0)]
        for query in request["queries"]:
            arguments = {"query": query, "limit": request["limit"], **request["arguments"]}
            started = time.perf_counter_ns()
            text = made.handle_tool_call(request["tool"], arguments)
            took.append((time.perf_counter_ns() - started) / 1000)
            hits = json.loads(text).get("results", ())
            answers.append([hit["content"] for hit in hits])
            shown = [row for hit in hits for row in (hit, *hit.get("around", ()))]
            ids.append(list(dict.fromkeys(row["fact_id"] if "fact_id" in row else row["id"] for row in shown)))
        return {"us": took, "answers": answers, "ids": ids}

    def do_prefetch(self, request: Answer) -> Answer:
        """What is put before each of the messages by the instance of that number.

        With `queued_s`, the message before was named as the host does at the end of a turn, so many seconds earlier.
        """
        took, shown = [], []
        made = self._open[request.get("instance", 0)]
        for number, query in enumerate(request["queries"]):
            if request.get("sessions"):  # a session a message: what was shown in it before is not shown again
                made.on_session_switch(f"{request['sessions']}-{number}", reset=True)
            if request.get("queued_s"):
                made.queue_prefetch(request["queries"][number - 1], session_id="")
                time.sleep(request["queued_s"])
            started = time.perf_counter_ns()
            try:
                text = made.prefetch(query, session_id="")
            except Exception as exc:  # noqa: BLE001 - the host goes on without, once it has waited for it
                print(f"prefetch: {type(exc).__name__}: {exc}", file=sys.stderr)
                text = ""
            took.append((time.perf_counter_ns() - started) / 1000)
            shown.append(text)
        return {"us": took, "answers": shown}

    def do_state(self, request: Answer) -> Answer:
        """Threads, open files and resident memory of this process."""
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
        threads = len(os.listdir("/proc/self/task"))
        files = len(os.listdir("/proc/self/fd"))
        return {"threads": threads, "files": files, "rss_mb": round(pages * os.sysconf("SC_PAGE_SIZE") / 1e6, 1)}

    def do_shutdown(self, request: Answer) -> Answer:
        """Shut every instance down, and let go of it."""
        took = [timed_us(made.shutdown) for made in self._open]
        self._open.clear()
        return {"us": took}


def _leave(number: int, frame: object) -> None:
    raise SystemExit(0)  # as a gateway does: what is registered to run at exit runs


def main() -> None:
    """Answer until there is nothing more to read."""
    signal.signal(signal.SIGTERM, _leave)
    out = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what the product prints is not part of the protocol
    module, _, name = sys.argv[1].partition(":")
    started = time.perf_counter_ns()
    driver = Driver(getattr(importlib.import_module(module), name))
    print(json.dumps({"import_us": (time.perf_counter_ns() - started) / 1000}), file=out, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = getattr(driver, f"do_{request['do']}")(request)
        except Exception as exc:  # noqa: BLE001 - whatever a product raises is an answer here
            answer = {"error": f"{type(exc).__name__}: {exc}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
