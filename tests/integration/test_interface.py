"""The interface that the host calls: complete, constant, and open to what newer hosts pass."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent.memory_provider import MemoryProvider

from hermes_memory_pgvector.host import guard
from hermes_memory_pgvector.host.provider import PgvectorMemoryProvider
from tests.conftest import MakeProvider
from tests.support.memory import called, landed

# Hooks the host looks for with getattr, so that its base class does not name them.
_UNNAMED = ["post_setup", "get_status_config"]
_HOOKS = sorted(
    name
    for name, member in inspect.getmembers(MemoryProvider)
    if not name.startswith("_") and not isinstance(member, property)
)


def test_trap_15_every_method_of_the_hosts_interface_is_our_own() -> None:
    classes = [each for each in PgvectorMemoryProvider.__mro__ if each.__module__.startswith("hermes_memory_pgvector.")]
    own = {name for each in classes for name in vars(each)}
    assert {"name", *_HOOKS, *_UNNAMED} <= own, "one would be inherited from object on a host without it"
    assert len(_HOOKS) >= 18
    assert not inspect.isabstract(PgvectorMemoryProvider)


@pytest.mark.parametrize("hook", [*_HOOKS, *_UNNAMED])
def test_trap_15_a_hook_takes_arguments_of_newer_hosts(hook: str) -> None:
    parameters = inspect.signature(getattr(PgvectorMemoryProvider, hook)).parameters.values()
    assert any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def test_trap_15_our_parameters_go_by_the_hosts_names() -> None:
    for hook in _HOOKS:
        theirs = inspect.signature(getattr(MemoryProvider, hook)).parameters.values()
        ours = list(inspect.signature(getattr(PgvectorMemoryProvider, hook)).parameters)
        wanted = [parameter.name for parameter in theirs if parameter.kind is not parameter.VAR_KEYWORD]
        assert [name for name in ours if name in wanted] == wanted, hook


def test_trap_15_hooks_called_with_unknown_arguments_do_their_work(make_provider: MakeProvider) -> None:
    more: dict[str, Any] = {"turn_author": "ada", "require_checkpoint": True, "trace": object()}
    provider = make_provider(**more)
    assert provider.is_available(**more)
    provider.on_turn_start(1, "hello", remaining_tokens=100, **more)
    provider.sync_turn("Where does the Atlas release plan live these days?", "In the wiki.", session_id="s", **more)
    provider.on_memory_write("add", "memory", "Atlas is blue", {}, **more)
    provider.on_delegation("Look it up", "It is blue", child_session_id="c", **more)
    landed(provider)
    assert "Atlas is blue" in provider.prefetch("Is Atlas blue?", session_id="s", **more)
    provider.queue_prefetch("Which colour is Atlas?", session_id="s", **more)
    answer = json.loads(provider.handle_tool_call("recall_memory", {"query": "atlas"}, **more))
    assert answer["count"] == 1
    provider.on_session_switch("s2", parent_session_id="s", reset=True, rewound=False, reason="new", **more)
    provider.on_session_end([], **more)
    assert provider.on_pre_compress([], **more) == ""
    assert provider.system_prompt_block(**more)
    assert provider.get_tool_schemas(**more)
    assert provider.get_config_schema(**more)
    assert provider.backup_paths(**more) == []
    provider.shutdown(**more)
    assert not guard.failures


def test_trap_15_hooks_on_a_provider_that_was_never_initialised_are_harmless(tmp_path: Path) -> None:
    provider = PgvectorMemoryProvider({"dsn": "host=/nowhere"})
    provider.on_turn_start(1, "hello")
    provider.sync_turn("a question of some length, asked too early", "and its answer")
    provider.on_memory_write("add", "memory", "Atlas is blue")
    provider.on_delegation("a", "b")
    provider.on_session_switch("s2")
    provider.on_session_end([])
    provider.queue_prefetch("Which colour is Atlas?")
    assert provider.prefetch("Which colour is Atlas?") == ""
    assert "doctor" in called(provider, "recall_memory", {"query": "atlas"})["error"]
    provider.shutdown()
    provider.shutdown()


def test_need_25_the_prompt_block_is_the_same_for_every_session(make_provider: MakeProvider) -> None:
    blocks = {PgvectorMemoryProvider().system_prompt_block()}
    first = make_provider()
    blocks.add(first.system_prompt_block())
    first.on_memory_write("add", "memory", "Atlas is blue")
    landed(first)
    blocks.add(first.system_prompt_block())
    blocks.add(make_provider({"sync_turns": False}, gateway_session_key="sales", session_id="x").system_prompt_block())
    first.shutdown()
    blocks.add(first.system_prompt_block())
    (block,) = blocks
    assert len(block) < 1000


def test_need_25_the_block_is_true_with_and_without_tools() -> None:
    """Where the host hides the tools, the block must not order the model to call them."""
    block = PgvectorMemoryProvider().system_prompt_block()
    names = [schema["name"] for schema in PgvectorMemoryProvider().get_tool_schemas()]
    for name in names:
        sentence = next(part for part in block.replace("\n", " ").split(". ") if name in part)
        assert sentence.startswith("When the tools "), sentence


def test_need_25_the_tools_are_the_same_before_and_after_initialize(make_provider: MakeProvider) -> None:
    schemas: list[Callable[[], object]] = [PgvectorMemoryProvider().get_tool_schemas, make_provider().get_tool_schemas]
    before, after = (json.dumps(schema()) for schema in schemas)
    assert before == after
    provider = make_provider()
    provider.get_tool_schemas()[0]["name"] = "spoilt"
    assert json.dumps(provider.get_tool_schemas()) == before
    for schema in provider.get_tool_schemas():
        assert "error" not in called(provider, schema["name"], {"query": "anything"})
