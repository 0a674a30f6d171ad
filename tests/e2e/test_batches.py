"""Batches with the official client, through a gateway that is killed in the middle and starts again."""

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai

from loadtest.load.processes import memory_mb
from tests.e2e.stack import HANGS_SECONDS, MODEL, PENSTOCK, Stack, eventually

REQUESTS = 130


def lines(count: int, max_tokens: int) -> bytes:
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": max_tokens}
    request = {"method": "POST", "url": "/v1/chat/completions", "body": body}
    return b"".join(json.dumps({"custom_id": f"line {n}", **request}).encode() + b"\n" for n in range(count))


def own_key(stack: Stack) -> str:
    """One that outlives a restart, which makes a new quickstart key."""
    made = stack.run("keys", "create", "--name", "batches", "--json")
    assert made.returncode == 0, made.stderr
    return str(json.loads(made.stdout)["key"])


def polled(client: openai.OpenAI, batch_id: str, until: Callable[[Any], bool]) -> Any:
    """The batch once that holds."""
    deadline = time.monotonic() + HANGS_SECONDS
    while True:
        with contextlib.suppress(openai.APIConnectionError, openai.InternalServerError):
            batch = client.batches.retrieve(batch_id)
            if until(batch):
                return batch
            assert time.monotonic() < deadline, batch
        time.sleep(0.02)


def test_a_batch_outlives_everything(start: Callable[..., Stack]) -> None:
    stack = start(workers=2, simulated="pace_ms: 4", more="batches: {max_concurrency: 6}\n")
    key = own_key(stack)
    with openai.OpenAI(base_url=stack.base_url, api_key=key, max_retries=0, timeout=HANGS_SECONDS) as client:
        file = client.files.create(file=("in.jsonl", lines(REQUESTS, 40)), purpose="batch")
        assert client.files.content(file.id).read() == lines(REQUESTS, 40)
        made = client.batches.create(
            input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h", metadata={"a": "b"}
        )
        assert made.status == "validating"
        # One worker is killed, ...
        polled(client, made.id, lambda batch: batch.status == "in_progress")
        os.kill(stack.workers[0], signal.SIGKILL)
        eventually(lambda: len(stack.workers) == 2, "the worker is replaced")
        # ... and a moment later everything at once.
        time.sleep(0.3)
        for pid in stack.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        stack.wait()
        eventually(lambda: not stack.processes(), "everything is gone")
        stack.start()
        assert polled(client, made.id, lambda batch: True).status in ("in_progress", "finalizing", "completed")
        ended = polled(client, made.id, lambda batch: batch.status == "completed")
        assert (ended.request_counts.total, ended.request_counts.completed) == (REQUESTS, REQUESTS)
        found = [json.loads(line) for line in client.files.content(ended.output_file_id).iter_lines()]
        assert sorted(line["custom_id"] for line in found) == sorted(f"line {n}" for n in range(REQUESTS))
        assert {line["response"]["status_code"] for line in found} == {200}
        assert ended.error_file_id is None
        assert {each.id for each in client.batches.list()} == {made.id}
        assert client.files.delete(file.id).deleted


def test_a_file_of_the_largest_size_is_taken_and_checked_in_bounded_memory(start: Callable[..., Stack]) -> None:
    stack = start(workers=1)
    (worker,) = stack.workers
    count = 50_000
    filler = "x" * (99_000_000 // count - len(lines(1, 1)))
    data = lines(count, 1).replace(b"Hello!", filler.encode())
    assert 95_000_000 < len(data) < 100_000_000
    with openai.OpenAI(base_url=stack.base_url, api_key=stack.key, max_retries=0, timeout=60) as client:
        # What a first request brings into memory is not the file's.
        client.batches.list()
        idle = memory_mb(worker)[0]
        # The peak begins anew.
        Path(f"/proc/{worker}/clear_refs").write_text("5")
        file = client.files.create(file=("in.jsonl", data), purpose="batch")
        assert file.bytes == len(data)
        made = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        checked = polled(client, made.id, lambda batch: batch.status != "validating")
        assert (checked.status, checked.request_counts.total) == ("in_progress", count)
        above = memory_mb(worker)[1] - idle
        assert above < 50, f"{above:.1f} MB above idle"
        client.batches.cancel(made.id)
        polled(client, made.id, lambda batch: batch.status == "cancelled")


def batch(stack: Stack, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Runs `penstock batch` as a person would."""
    environment = {**os.environ, "OPENAI_BASE_URL": stack.base_url, "OPENAI_API_KEY": stack.key}
    environment.pop("PENSTOCK_API_KEY", None)
    return subprocess.run(
        [PENSTOCK, "batch", *arguments],
        capture_output=True,
        text=True,
        timeout=HANGS_SECONDS,
        env=environment,
        check=False,
    )


def test_the_command(stack: Stack, tmp_path: Path) -> None:
    given, got = tmp_path / "in.jsonl", tmp_path / "out.jsonl"
    given.write_bytes(lines(5, 3))
    done = batch(stack, "submit", str(given), "--metadata", "a=b", "--wait")
    assert done.returncode == 0, done.stderr
    batch_id = done.stdout.splitlines()[0]
    assert "5 of 5" in done.stdout
    status = json.loads(batch(stack, "status", batch_id, "--json").stdout)
    assert (status["status"], status["metadata"]) == ("completed", {"a": "b"})
    assert batch(stack, "results", batch_id, "--output", str(got)).returncode == 0
    assert batch(stack, "results", batch_id).stdout == got.read_text()
    assert {json.loads(line)["custom_id"] for line in got.read_text().splitlines()} == {f"line {n}" for n in range(5)}
    assert batch_id in batch(stack, "list").stdout
    given.write_bytes(b"{\n")
    failed = batch(stack, "submit", str(given), "--wait")
    assert failed.returncode == 1
    assert "line 1: invalid_json_line" in failed.stdout
    for arguments, problem in (
        (("status", "batch_nothing"), "No such Batch object"),
        (("status", "../x"), "is no id"),
        (("results", batch_id, "--errors"), "has no errors"),
        (("cancel", batch_id), "Cannot cancel"),
        (("submit", str(tmp_path / "none")), "cannot read"),
    ):
        refused = batch(stack, *arguments)
        assert (refused.returncode, refused.stdout) == (1, "")
        assert problem in refused.stderr
        assert refused.stderr.count("\n") == 1
