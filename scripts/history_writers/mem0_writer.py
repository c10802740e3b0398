"""Lets mem0ai write facts, run by the interpreter of an environment that has it: FOLDER URL DSN.

URL is an embedding endpoint; the facts go to a local qdrant in FOLDER, then to a table of the database DSN.
"""

import os
import sys

os.environ["MEM0_TELEMETRY"] = "False"
os.environ["OPENAI_API_KEY"] = "none"
folder, url, dsn = sys.argv[1:]
os.environ["MEM0_DIR"] = folder

from mem0 import Memory  # noqa: E402

STORES = [
    {"provider": "qdrant", "config": {"path": f"{folder}/qdrant", "on_disk": True}},
    {"provider": "pgvector", "config": {"connection_string": dsn, "hnsw": False}},
]
OPENAI = {"model": "any", "openai_base_url": f"{url}/v1"}

for store in STORES:
    store["config"] |= {"collection_name": "mem0", "embedding_model_dims": 4}
    memory = Memory.from_config(
        {
            "vector_store": store,
            "embedder": {"provider": "openai", "config": OPENAI | {"embedding_dims": 4}},
            "llm": {"provider": "openai", "config": OPENAI},
            "history_db_path": f"{folder}/history.db" if store["provider"] == "qdrant" else ":memory:",
        }
    )
    # As hermes-agent's provider calls it: a tool's fact, and a turn of a chat.
    own = {"user_id": "hermes-user", "agent_id": "hermes", "infer": False, "metadata": {"channel": "cli"}}
    kept = memory.add([{"role": "user", "content": "The staging cluster runs Postgres 15."}], **own)
    dropped = memory.add([{"role": "user", "content": "The office is on the second floor."}], **own)
    memory.add([{"role": "user", "content": "thanks"}], **own)
    memory.add(
        [
            {"role": "user", "content": "Ana wants the reports on Mondays."},
            {"role": "assistant", "content": "The reports go out on Mondays at nine."},
        ],
        **own | {"user_id": "4915112345678", "metadata": {"channel": "telegram"}},
    )
    memory.add(
        [{"role": "user", "content": "The tenant's budget is ten."}], **own | {"metadata": {"channel": "api_server"}}
    )
    memory.update(kept["results"][0]["id"], text="The staging cluster runs Postgres 16.")
    memory.delete(dropped["results"][0]["id"])
