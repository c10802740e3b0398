"""A long-running gateway: it makes a provider instance per request and never shuts one down."""

from __future__ import annotations

import json

from tests.support.gateway import Gateway
from tests.support.hermes import HermesHome, describe
from tests.support.model_server import ModelServer
from tests.support.stored import STORED_TIMEOUT_S, Database
from tests.support.waiting import until

# The size of the process-wide pool when the settings say nothing.
POOL_MAX = 4

WARM_UP_REQUESTS = 12
REQUESTS = 30  # the warm-up included

# The host's own executor may still grow after the warm-up; a leak of one thread a request is three times that.
THREADS_SLACK = 6

# Noise of the allocator over 800 instances; a leak of an instance with its buffers would be far more.
MEMORY_SLACK_KB = 8 * 1024

STATEMENT = "The harbour office opens at half past seven on weekdays."

# What the API server does with 1,000 requests: an instance each, initialised, used, and dropped without a shutdown.
MAKE_INSTANCES = """
import gc, json, os, resource, sys, threading, weakref
import psycopg
from plugins.memory import load_memory_provider

def resident_kb():
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize() // 1024

def measure():
    gc.collect()
    return {"threads": threading.active_count(), "resident_kb": resident_kb()}

references = []

def make(index):
    provider = load_memory_provider("pgvector")
    provider.get_tool_schemas()
    provider.initialize(f"session-{index}", platform="api_server", hermes_home=os.environ["HERMES_HOME"],
                        agent_context="primary", agent_identity="default", agent_workspace="hermes",
                        gateway_session_key=f"key-{index % 7}")
    provider.system_prompt_block()
    if index % 50 == 0:
        provider.on_turn_start(1, "When does the harbour office open?")
        provider.prefetch("When does the harbour office open?", session_id="")
        provider.sync_turn(f"Message {index}: the harbour office opens at half past seven on weekdays.",
                           "Thank you, I have noted the opening hours.", session_id=f"session-{index}")
    references.append(weakref.ref(provider))

for index in range(200):
    make(index)
early = measure()
for index in range(200, 1000):
    make(index)
late = measure()
with psycopg.connect(sys.argv[1]) as connection:
    connections, = connection.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
        " AND backend_type = 'client backend' AND pid <> pg_backend_pid()").fetchone()
print(json.dumps({"early": early, "late": late, "connections": connections,
                  "alive": sum(reference() is not None for reference in references)}))
"""


def test_need_10_requests_leave_the_gateways_threads_and_connections_flat(
    gateway: Gateway, model: ModelServer, database: Database
) -> None:
    most_connections = warm_threads = 0
    messages = [f"Request {index}: {STATEMENT}" for index in range(REQUESTS)]
    for index, message in enumerate(messages):
        assert gateway.post_chat(message, key=f"key-{index % 5}").status == 200, gateway.log()
        most_connections = max(most_connections, database.client_connections())
        if index + 1 == WARM_UP_REQUESTS:
            warm_threads = gateway.thread_count

    until(lambda: gateway.thread_count <= warm_threads + THREADS_SLACK, 10)
    assert 1 <= most_connections <= POOL_MAX
    until(lambda: all(database.themes_of_turn(message) for message in messages), STORED_TIMEOUT_S)


def test_need_10_a_thousand_instances_leave_no_thread_connection_or_memory(active_home: HermesHome, dsn: str) -> None:
    completed = active_home.python("-c", MAKE_INSTANCES, dsn)
    assert completed.returncode == 0, describe(completed)
    report = json.loads(completed.stdout.splitlines()[-1])

    assert report["late"]["threads"] <= report["early"]["threads"], report
    assert report["late"]["resident_kb"] <= report["early"]["resident_kb"] + MEMORY_SLACK_KB, report
    assert report["connections"] <= POOL_MAX, report
    assert report["alive"] == 0, report
