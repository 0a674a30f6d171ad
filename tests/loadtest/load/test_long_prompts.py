import json
import os
import random
import socketserver
import threading
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from loadtest.load import long_prompts
from loadtest.load.loop_probe import LoopProbe
from loadtest.load.processes import command_line, process_tree


def messages_of(body: bytes) -> list[dict[str, Any]]:
    messages: list[dict[str, Any]] = json.loads(body)["messages"]
    return messages


def test_prompts_share_their_beginning_and_nothing_else() -> None:
    bodies = long_prompts._sharing(random.Random(1), 500, 200)
    stamp = long_prompts._STAMP
    first, *others = [messages_of(body)[-1]["content"] for body in bodies]
    shared = first.index(stamp)
    assert shared > 2_000
    assert all(other[:shared] == first[:shared] for other in others)
    # What is not shared has a number every few hundred characters.
    unique = first[shared:].split(stamp)
    assert len(unique) == 1 + -(-200 // long_prompts._WORDS_PER_STAMP)
    assert max(map(len, unique)) < 700


def test_each_conversation_grows_by_a_turn() -> None:
    spec = long_prompts._conversations(random.Random(1), 30_000, 40)
    chats = [messages_of(body) for body in spec.bodies]
    conversations = spec.warmup
    assert spec.requests + spec.warmup == len(chats)
    for before, after in zip(chats, chats[conversations:], strict=False):
        assert after[: len(before)] == before
        assert [message["role"] for message in after[len(before) :]] == ["assistant", "user"]
    assert len({json.dumps(chat) for chat in chats}) == len(chats)


class _Healthy(socketserver.BaseRequestHandler):
    def handle(self) -> None:
        for _ in range(3):
            if not self.request.recv(4096).startswith(b"GET /healthz "):
                return
            self.request.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")


@pytest.fixture
def healthy() -> Any:
    with socketserver.TCPServer(("127.0.0.1", 0), _Healthy) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server.server_address[1]
        server.shutdown()
        thread.join()


def test_a_probe_measures_round_trips_until_its_connection_ends(healthy: int) -> None:
    with LoopProbe(healthy) as probe:
        probe.join(10)
    assert not probe.is_alive()
    assert len(probe.ms) == 3
    assert min(probe.ms) > 0


def test_the_prompts_command_runs_and_leaves_no_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    children = set(process_tree(os.getpid()))
    output = tmp_path / "prompts.json"
    arguments = ["--tokens", "10000", "--shared", "2000", "--requests", "8", "--rate", "10", "--open-requests", "8"]
    assert main(["bench", "prompts", *arguments, "--json", str(output)]) == 0
    shown = capsys.readouterr().out
    assert all(load in shown for load in ("2,000 shared", "conversations", "220 KB, new", "10/s, new"))
    results = json.loads(output.read_bytes())["results"]
    assert len(results) == 7
    assert all(result["errors"] == {} and result["requests"] == 8 for result in results)
    assert all(result["cpu_ms"] > 0 and result["probe_ms"]["p99"] > 0 for result in results)
    shared, turns, *_, large = results
    assert 8_000 < shared["prompt_tokens"] < 12_000
    assert 4_000 < turns["prompt_tokens"] < 12_000
    assert 200_000 < large["body_bytes"] < 240_000
    left = set(process_tree(os.getpid())) - children
    assert not [command_line(pid) for pid in left if "gateway.cli.main" in command_line(pid)]
