"""`penstock replica --standby`: a process that becomes the replica that it is told to be."""

import asyncio
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gateway.cli.main import main
from replicas.fast_start.standby import OrderRefused, give_order
from tests.harness import submit_of, worker_at

MODULES = {"simulated": "gateway.cli.main", "tensorrt_llm": "tests.fake_tensorrt_llm.cli"}
ORDER = ["--model", "m", "--tokenizer", "mistral-tekken", "--max-sequence-tokens", "1000", "--tp", "2"]


class Standby:
    """The process, and the lines that it has said."""

    def __init__(self, process: asyncio.subprocess.Process, path: Path) -> None:
        self.process, self.path = process, path

    async def says(self, text: str) -> str:
        assert self.process.stderr is not None
        while text not in (line := (await self.process.stderr.readline()).decode()):
            assert line, f"it ended before it said {text}"
        return line

    async def ended(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return await self.process.wait()


async def standing_by(engine: str, path: Path, *options: str) -> Standby:
    command = [sys.executable, "-m", MODULES[engine], "replica", "--engine", engine, "--standby", str(path), *options]
    return Standby(await asyncio.create_subprocess_exec(*command, stderr=subprocess.PIPE), path)


@pytest.mark.parametrize("engine", ["simulated", "tensorrt_llm"])
async def test_it_becomes_the_replica_that_it_is_told_to_be(engine: str, state_dir: Path) -> None:
    standby = await standing_by(engine, state_dir / "wait.sock")
    try:
        await standby.says("waiting for an order")
        address = f"unix:{state_dir}/replica.sock"
        with pytest.raises(OrderRefused, match="--model"):
            await asyncio.to_thread(give_order, standby.path, ["--engine", engine, "--listen", address])
        with pytest.raises(OrderRefused, match="unrecognized arguments: --wrong"):
            await asyncio.to_thread(give_order, standby.path, ["--engine", engine, "--wrong"])
        await asyncio.to_thread(give_order, standby.path, ["--engine", engine, "--listen", address, *ORDER])
        await standby.says("started in")
        async with worker_at(address) as worker:
            welcome = await worker.hello()
            assert (welcome.info.engine, welcome.info.model, welcome.info.shape.tp) == (engine, "m", 2)
            await worker.send((1, submit_of(30)))
            await worker.finished(1)
            assert len(worker.tokens[1]) == 30
        assert await standby.ended() == 0
    finally:
        if standby.process.returncode is None:
            standby.process.kill()
            await standby.process.wait()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_while_it_waits_it_can_be_ended(number: signal.Signals, state_dir: Path) -> None:
    standby = await standing_by("simulated", state_dir / "wait.sock")
    await standby.says("waiting for an order")
    assert await standby.ended(number) == 0
    assert not standby.path.exists()


async def test_while_it_waits_it_reads_weights_ahead_and_ends_when_nobody_looks(state_dir: Path) -> None:
    (state_dir / "a.safetensors").write_bytes(bytes(20 << 20))
    standby = await standing_by(
        "simulated", state_dir / "wait.sock", "--preload", str(state_dir), "--standby-seconds", "1"
    )
    assert "0.02 of 0.02 GB of weights are in the page cache" in await standby.says("page cache")
    await standby.says("nobody has looked here for 1 s")
    assert await standby.process.wait() == 0
    assert not standby.path.exists()


@pytest.mark.parametrize("folder", ["nowhere", ""])
def test_what_holds_no_weights_cannot_be_read_ahead(
    folder: str, state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--model", "m", "--port", "50051", "--preload", str(state_dir / folder)]
    assert main(["replica", "--engine", "simulated", *options]) == 2
    assert "penstock replica: --preload: " in capsys.readouterr().err


def test_seconds_of_waiting_are_for_who_waits(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", "m", "--port", "50051", "--standby-seconds", "5"]
    assert main(["replica", "--engine", "simulated", *options]) == 2
    assert "--standby-seconds goes with --standby" in capsys.readouterr().err


async def test_an_order_that_no_engine_can_be_made_of_ends_it(state_dir: Path) -> None:
    standby = await standing_by("simulated", state_dir / "wait.sock")
    await standby.says("waiting for an order")
    wrong = ["--engine", "simulated", "--listen", "127.0.0.1:0", "--model", "m", "--profile", "none"]
    await asyncio.to_thread(give_order, standby.path, wrong)
    assert "no profile none" in await standby.says("penstock replica:")
    assert await standby.process.wait() == 2


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--model", "m"], "with --standby the order gives --model"),
        (["--port", "1"], "with --standby the order gives --listen"),
        (["--speed", "2"], "with --standby the order gives --speed"),
    ],
)
def test_the_order_gives_the_options(
    options: list[str], problem: str, state_dir: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replica", "--engine", "simulated", "--standby", str(state_dir / "s"), *options]) == 2
    assert problem in capsys.readouterr().err


def test_without_a_model_there_is_no_replica(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replica", "--engine", "simulated", "--port", "50051"]) == 2
    assert "give the model's name: --model" in capsys.readouterr().err
