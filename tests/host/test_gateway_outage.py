"""The real gateway while Postgres and the embedding endpoint accept connections and never answer."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome
from tests.support.limits import LATE_S, NOT_WAITED_S
from tests.support.model_server import PLAIN_ANSWER, ModelServer
from tests.support.waiting import until

QUESTION = "When does the harbour office open on weekdays, and who has the key?"

# A hook that waited for so long on the event loop would hold up the whole gateway. The host's own cap is 8 s; it must
# not be what ended the wait.
DEADLINE_S = 4.0


@pytest.fixture(scope="module")
def model() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture(scope="module")
def stricken_gateway(tmp_path_factory: pytest.TempPathFactory, model: ModelServer) -> Iterator[Gateway]:
    """A warm gateway whose database and embedding endpoint take connections and never say a word."""
    home = HermesHome(tmp_path_factory.mktemp("outage") / "user")
    home.copy_plugin()
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port = listener.getsockname()[1]
        settings = {
            "dsn": f"host=127.0.0.1 port={port} dbname=nowhere user=nobody",
            "embed_url": f"http://127.0.0.1:{port}",
            "dims": 384,
            "prefetch_deadline_s": DEADLINE_S,
        }
        home.write_config(model.base_url, settings)
        with Gateway(home) as gateway:
            assert gateway.post_chat("Warm up the imports of the host, please.").status == 200, gateway.log()
            yield gateway


def test_need_01_turns_go_on_and_are_kept(stricken_gateway: Gateway) -> None:
    questions = [f"Question {index}: {QUESTION}" for index in range(3)]
    for question in questions:
        started = time.monotonic()
        answer = stricken_gateway.post_chat(question, key="marketing")
        elapsed_s = time.monotonic() - started

        assert answer.status == 200, stricken_gateway.log()
        assert answer.text == PLAIN_ANSWER
        assert elapsed_s < DEADLINE_S + LATE_S, stricken_gateway.log()
    spooled = stricken_gateway.home.spool_contains
    until(lambda: all(spooled(question) for question in questions), 30, "the turns in the spool")


def test_need_01_runs_do_not_hold_up_the_hosts_event_loop(stricken_gateway: Gateway, model: ModelServer) -> None:
    questions = [f"Run {index}: {QUESTION}" for index in range(4)]
    latencies_s: list[float] = []
    finished = threading.Event()

    def watch_health() -> None:
        while not finished.wait(0.02):
            started = time.monotonic()
            stricken_gateway.health()
            latencies_s.append(time.monotonic() - started)

    watcher = threading.Thread(target=watch_health)
    watcher.start()
    try:
        for question in questions:
            assert stricken_gateway.start_run(question, key="marketing").status == 202, stricken_gateway.log()
        until(lambda: all(model.requests_saying(question) for question in questions), 30)
    finally:
        finished.set()
        watcher.join(60)

    assert latencies_s
    assert max(latencies_s) < NOT_WAITED_S, stricken_gateway.log()
