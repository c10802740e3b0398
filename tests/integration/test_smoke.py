"""First light."""
from tests.conftest import MakeProvider
def test_smoke(make_provider: MakeProvider) -> None:
    p = make_provider()
    p.on_memory_write("add", "memory", "The Atlas launch is on 3 May")
    assert p.runtime.writer.flush(20)
    assert "3 May" in p.handle_tool_call("recall_memory", {"query": "atlas launch"})
