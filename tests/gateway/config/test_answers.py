"""Files of scripted answers in the configuration."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.fleets.local_replicas import replica_command
from gateway.server.machine_checks import resolve


def loaded(folder: Path, **simulated: Any) -> Config:
    path = folder / "penstock.yaml"
    pool = {"name": "p", "engine": "simulated", "replicas": 1, "simulated": simulated}
    model = {"name": "m", "tokenizer": "mistral-tekken", "context": 4096, "pools": [pool]}
    path.write_bytes(msgspec.json.encode({"models": [model]}))
    return load_config(path)


def test_local_replicas_are_told_their_answers(tmp_path: Path) -> None:
    (tmp_path / "answers.jsonl").write_text('{"contains": "a", "answer": "b"}\n')
    config = loaded(tmp_path, answers="answers.jsonl")
    command = replica_command(config, 0, 0)
    assert command[command.index("--answers") + 1] == str(tmp_path / "answers.jsonl")
    resolve(config, "f", ["mistral-tekken"])
    assert "--answers" not in replica_command(loaded(tmp_path), 0, 0)


@pytest.mark.parametrize(("text", "said"), [(None, "No such file"), ("hello", "line 1: JSON is malformed")])
def test_what_is_wrong_with_the_file_is_said_before_anything_starts(
    tmp_path: Path, text: str | None, said: str
) -> None:
    if text is not None:
        (tmp_path / "answers.jsonl").write_text(text)
    with pytest.raises(ConfigError, match=r"models\[0\].pools\[0\].simulated.answers: .*answers.jsonl") as error:
        resolve(loaded(tmp_path, answers="answers.jsonl"), "f", ["mistral-tekken"])
    assert said in str(error.value)
