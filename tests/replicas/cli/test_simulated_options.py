"""`penstock replica --engine simulated`: what its engine is given of the tokenizer, and its scripted answers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main
from protos.features import Feature
from protos.types import Guide, GuideKind
from replicas.cli.model_tokenizer import LoadTokenizer
from replicas.cli.replica_engines import engines_of
from replicas.engine import EngineStep
from replicas.engines.simulated import SimulatedEngine
from tests.harness import submit_of, tekken
from tests.loops import bounded, until

BASE = ["replica", "--engine", "simulated", "--model", "mixtral-8x7b", "--port", "50051", "--port", "50052"]


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The engines that a command line becomes."""

    def parse(*line: str) -> list[SimulatedEngine]:
        found: list[SimulatedEngine] = []

        def note(arguments: Any, load_tokenizer: LoadTokenizer) -> list[Any]:
            for _, engine in engines_of(arguments, load_tokenizer):
                assert isinstance(engine, SimulatedEngine)
                found.append(engine)
            raise ValueError("noted")

        monkeypatch.setattr("replicas.cli.replica_command.engines_of", note)
        assert main([*BASE, *line]) == 2
        return found

    return parse


def test_it_honours_guides_and_has_a_script(engines: Any, tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"contains": "[INST]What", "answer": "[TOOL_CALLS]f"}\n')
    engine, other = engines("--instant", "--answers", str(path))
    assert Feature.GUIDED in engine.info.features & other.info.features
    tokenizer = tekken().tokenizer
    asked = tokenizer.encode("[INST]What?[/INST]", special=True)

    async def run() -> None:
        steps: list[EngineStep] = []
        task = asyncio.create_task(engine.run(steps.append))
        engine.submit(1, submit_of(9, prompt=asked, ignore_eos=False))
        engine.submit(2, submit_of(9, prompt=[5], ignore_eos=False, guide=Guide(GuideKind.REGEX, "yes")))
        await until(lambda: sum(len(step.finishes) for step in steps) == 2)
        tokens: dict[int, list[int]] = {1: [], 2: []}
        for step in steps:
            for delta in step.deltas:
                tokens[delta.handle] += delta.token_ids
        assert tokens[1] == [tokenizer.specials["[TOOL_CALLS]"], *tokenizer.encode("f", special=False)]
        assert b"".join(map(tokenizer.token_bytes, tokens[2])) == b"yes"
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    bounded(run)


def test_a_bad_file_of_answers_is_said_with_its_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_text('{"contains": "a", "answer": "b"}\n{"contains": "a"}\n')
    assert main([*BASE, "--answers", str(path)]) == 2
    assert f"{path}, line 2: Object missing required field `answer`" in capsys.readouterr().err
