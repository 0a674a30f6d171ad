"""A rollout through its gates, and replays, for real: workers, a controller, a store and replicas of two versions."""

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.rollouts.replay.corpus import CorpusHead, Entry, corpus_line
from gateway.rollouts.replay.run_file import read_run
from tests.e2e.stack import MODEL, PENSTOCK, Stack, config_text, eventually
from tests.e2e.test_rollouts import Traffic, reached
from tests.ports import free_port

MORE = f"""\
tenants: [{{name: default, chooses_version: true}}]
rollouts:
  - model: {MODEL}
    to: v2
    plan: gates
    stages: [1.0]
    hold_seconds: 0
    min_requests: 8
    warmup: {{requests: 1}}
    gates: {{smoke: 3, golden: golden.ndjson, alike: 1.0}}
    shadow: {{share: 1.0, room: 1.0}}
"""


def corpus(path: Path, count: int) -> None:
    head = CorpusHead(model=MODEL, source="chats", redacted=True)
    bodies = [
        {"messages": [{"role": "user", "content": f"Question {number}"}], "max_tokens": 30, "temperature": 0}
        for number in range(count)
    ]
    entries = [Entry(id=str(number), body=body) for number, body in enumerate(bodies)]
    path.write_bytes(corpus_line(head) + b"".join(map(corpus_line, entries)))


@pytest.fixture(scope="module")
def stack() -> Iterator[Stack]:
    text = config_text(free_port(), workers=2, more=MORE)
    (pool,) = [line for line in text.splitlines() if "name: narrow" in line]
    pools = [pool.replace("name: narrow", f"name: {version}, version: {version}") for version in ("v1", "v2")]
    with tempfile.TemporaryDirectory(prefix="penstock-e2e-", ignore_cleanup_errors=True) as name:
        corpus(Path(name) / "golden.ndjson", 6)
        stack = Stack(Path(name), text.replace(pool, "\n".join(pools)))
        try:
            stack.start()
            yield stack
        finally:
            stack.close()


def replay(stack: Stack, *arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [PENSTOCK, "replay", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=stack.folder,
        env={**os.environ, "PENSTOCK_API_KEY": stack.key, "PENSTOCK_URL": f"http://127.0.0.1:{stack.port}"},
    )


def test_a_candidate_goes_through_its_gates(stack: Stack) -> None:
    with Traffic(stack, 2) as traffic:
        found = reached(stack, "shifting", "rolling_back", "rolled_back")
    assert [event.phase for event in found.history][-4:] == ["smoke", "golden", "shadowing", "shifting"]
    reasons = " ".join(event.reason for event in found.history)
    assert "3 requests were answered without an error" in reasons
    assert "100.0% of 6 answers to the golden set are alike" in reasons
    assert set(traffic.counts) <= {"v1", "v2"}, "a client has seen an error"
    view = json.loads(stack.run("rollout", "status", MODEL, "--json").stdout)["rollout"]
    assert view["shadow"]["differences"]["compared"] >= 8
    assert view["shadow"]["differences"]["candidate_failed"] == 0
    assert "copies: " in stack.run("rollout", "status", MODEL).stdout


def test_a_killed_run_goes_on_and_two_versions_are_compared(stack: Stack) -> None:
    corpus(stack.folder / "corpus.ndjson", 24)
    asked = ["corpus.ndjson", "--concurrency", "1"]
    killed = replay(stack, "run", *asked, "--version", "v1", "--output", "v1.run")
    run = stack.folder / "v1.run"
    eventually(lambda: run.exists() and run.read_bytes().count(b"\n") > 3, "three answers are there")
    killed.kill()
    killed.communicate()
    before = len(read_run_of(run))
    assert 3 <= before < 24
    for version in ("v1", "v2"):
        process = replay(stack, "run", *asked, "--version", version, "--output", f"{version}.run", "--json")
        said, problem = process.communicate(timeout=60)
        assert process.returncode == 0, problem
        told, results = json.loads(said), read_run(stack.folder / f"{version}.run").results
        assert (told["entries"], told["failed"]) == (24, 0), results["0"]
        assert (told["before"] > 0) is (version == "v1")
        assert {result.version for result in results.values()} == {version}
    process = replay(stack, "diff", "corpus.ndjson", "v1.run", "v2.run", "--alike", "1")
    said, problem = process.communicate(timeout=60)
    assert (process.returncode, problem) == (0, "")
    assert said.endswith("PASSED\n")


def read_run_of(path: Path) -> list[bytes]:
    """The whole results of a run that was killed."""
    return path.read_bytes().split(b"\n")[1:-1]
