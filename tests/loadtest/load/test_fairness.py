import json
import os
from pathlib import Path

import pytest

from gateway.cli.main import main
from loadtest.load.processes import command_line, process_tree


def test_the_fairness_command_runs_and_leaves_no_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    children = set(process_tree(os.getpid()))
    output = tmp_path / "fairness.json"
    arguments = ["--prompt-tokens", "3000", "--flood-clients", "2", "--requests", "24", "--repeat", "1"]
    assert main(["bench", "fairness", *arguments, "--json", str(output)]) == 0
    assert "3,000 tokens" in capsys.readouterr().out
    (found,) = json.loads(output.read_bytes())["results"]
    assert (found["prompt_tokens"], found["context"], found["runs"], found["errors"]) == (3000, 32768, 1, 0)
    assert found["ratio"] == pytest.approx(found["beside_ms"]["p99"] / found["alone_ms"]["p99"], rel=0.01)
    # The flood was really there, and none of its prompts came out of a cache whole.
    assert found["flood_requests"] > 0
    assert 2000 < found["flood_input_tokens"] / found["flood_requests"] < 4500
    left = set(process_tree(os.getpid())) - children
    assert not [command_line(pid) for pid in left if "gateway.cli.main" in command_line(pid)]
