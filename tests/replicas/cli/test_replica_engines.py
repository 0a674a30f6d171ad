"""`penstock replica --engine tensorrt_llm`: its options, what is wrong with them, and its process."""

import asyncio
import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from protos.types import Shape
from replicas.cli.model_tokenizer import LoadTokenizer
from replicas.cli.replica_engines import engines_of
from replicas.cli.trtllm_options import adapter_paths
from replicas.engines.tensorrt_llm.options import Options
from replicas.engines.tensorrt_llm.trtllm_engine import TensorRtLlmEngine
from tests.fake_tensorrt_llm import package as fake_tensorrt_llm
from tests.fake_tensorrt_llm.llm import POISON
from tests.harness import submit_of, worker_at

BASE = ["replica", "--engine", "tensorrt_llm", "--model", "m", "--tokenizer", "mistral-tekken"]


def words(line: str) -> list[str]:
    return line.split()


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The engine's options that a command line becomes."""
    fake_tensorrt_llm.install(monkeypatch)

    def parse(*line: str) -> Options:
        found: list[Options] = []

        def note(arguments: Any, load_tokenizer: LoadTokenizer) -> list[Any]:
            for _, engine in engines_of(arguments, load_tokenizer):
                assert isinstance(engine, TensorRtLlmEngine)
                found.append(engine._options)
            raise ValueError("noted")

        monkeypatch.setattr("replicas.cli.replica_command.engines_of", note)
        assert main([*BASE, "--port", "50051", *line]) == 2
        (options,) = found
        return options

    return parse


def test_a_plain_command_line(options: Any) -> None:
    found = options("--tp", "4", "--ep", "2", "--max-sequence-tokens", "4096")
    assert (found.shape, found.max_sequence_tokens, found.checkpoint) == (Shape(tp=4, ep=2), 4096, "m")
    assert found.end_ids
    assert found.vocab_size
    assert len(found.tokenizer_hash) == 16
    assert found.kv.events
    assert found.lora is None


def test_every_group_of_options_arrives(options: Any) -> None:
    found = options(
        *words("--tp 8 --ep 4 --pp 2 --cp 2 --moe-tp 2 --attention-dp --role prefill --max-sequence-tokens 4096"),
        *words(
            "--kv-fraction 0.5 --kv-tokens 9000 --kv-host-gib 0.5 --kv-block-tokens 64 --kv-dtype fp8 --kv-no-profiling"
        ),
        *words("--scheduler static_batch --chunking equal_progress --max-batch-size 16 --max-num-tokens 512"),
        *words("--retain-prompt 80 --retain-prompt-seconds 1.5 --retain-answer 10 --transceiver NIXL"),
        *words("--adapter a=/a --adapter b=/b=c --lora-rank 8 --guided-backend xgrammar --end-id 5 --end-id 6"),
        *("--llm-option", 'cp_config={"cp_type": "helix"}', "--model-version", "v2", "--checkpoint", "/w"),
    )
    assert (found.context_parallel, found.moe_tp, found.attention_dp, found.role.value) == (2, 2, True, "prefill")
    kv = found.kv
    assert (kv.free_memory_fraction, kv.max_tokens, kv.host_bytes, kv.tokens_per_block) == (0.5, 9000, 2**29, 64)
    assert not kv.profiled
    assert (found.scheduler.value, found.chunking.value) == ("STATIC_BATCH", "EQUAL_PROGRESS")
    assert (found.max_batch_size, found.max_num_tokens) == (16, 512)
    assert (found.retention.prompt_ms, found.retention.decode_priority) == (1500, 10)
    assert found.lora.paths == {"a": "/a", "b": "/b=c"}
    assert (found.end_ids, found.extra, found.version, found.checkpoint) == (
        (5, 6),
        {"cp_config": {"cp_type": "helix"}},
        "v2",
        "/w",
    )


def test_the_checkpoint_says_how_long_its_context_is(options: Any, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"max_position_embeddings": 1234}))
    assert options("--checkpoint", str(tmp_path)).max_sequence_tokens == 1234


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ((), "--max-sequence-tokens"),
        (("--max-sequence-tokens", "10", "--listen", "127.0.0.1:1"), "give one address"),
        (("--max-sequence-tokens", "10", "--adapter", "a"), "NAME=PATH"),
        (("--max-sequence-tokens", "10", "--tokenizer", "/nowhere"), "no tokenizer: /nowhere: no such folder"),
        (("--max-sequence-tokens", "10", "--max-adapters", "2"), "--max-adapters is for --engine simulated"),
        (("--max-sequence-tokens", "10", "--kv-fraction", "7"), "fraction"),
        (("--max-sequence-tokens", "10", "--tp", "3", "--ep", "2"), "expert parallelism"),
    ],
)
def test_what_is_wrong_is_said(
    line: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_tensorrt_llm.install(monkeypatch)
    assert main([*BASE, "--port", "50051", *line]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (("--guided-backend", "xgrammar"), "--guided-backend is for --engine tensorrt_llm"),
        (("--cp", "2"), "--cp is for --engine tensorrt_llm"),
        (("--adapter", "a"), "--adapter of the simulated engine needs --max-adapters"),
    ],
)
def test_what_a_simulated_engine_has_not(line: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replica", "--engine", "simulated", "--model", "m", "--port", "1", *line]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("given", ["0", "1.5", "x", "-1"])
def test_an_error_is_not_hidden_behind_all_options(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*BASE, "--port", "1", "--tp", given])
    usage, problem = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage: penstock replica --engine")
    assert problem == "penstock replica: error: argument --tp: must be a whole number of at least 1"


def test_a_machine_without_the_library_is_told_the_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "tensorrt_llm", None)
    assert main([*BASE, "--port", "1", "--max-sequence-tokens", "10"]) == 2
    assert "penstock[tensorrt-llm]" in capsys.readouterr().err
    assert main([*BASE, "--max-sequence-tokens", "10"]) == 2
    assert "--listen or --port" in capsys.readouterr().err


def test_adapters_are_named_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        adapter_paths(["a=/x", "a=/y"])


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["terminated", "engine lost"])
async def test_a_process_serves_and_exits_as_its_supervisor_needs(ending: str, state_dir: Path) -> None:
    command = [sys.executable, "-m", "tests.fake_tensorrt_llm.cli", *BASE, "--max-sequence-tokens", "1000"]
    command += ["--listen", "127.0.0.1:0", "--probe-seconds", "1", "--probe-timeout-seconds", "1"]
    process = await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE)
    assert process.stderr is not None
    try:
        address = ""
        while not address:
            line = (await process.stderr.readline()).decode()
            assert line, "it ended before it served"
            found = re.search(r"serving on (127\.0\.0\.1:\d+)", line)
            address = found.group(1) if found else ""
        async with worker_at(address) as worker:
            welcome = await worker.hello()
            assert welcome.info.engine == "tensorrt_llm"
            assert welcome.info.kv_blocks_total > 0
            await worker.send((1, submit_of(30)))
            await worker.finished(1)
            assert len(worker.tokens[1]) == 30
            if ending == "engine lost":
                await worker.send((2, submit_of(5, prompt=POISON)))
                await worker.finished(2, ack=False)
                failure = worker.finishes[2].failure
                assert failure is not None
                assert failure.code == "engine_error"
        if ending == "terminated":
            process.send_signal(signal.SIGTERM)
        await process.stderr.read()
        assert await process.wait() == (0 if ending == "terminated" else 1)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
