from pathlib import Path

import pytest

from gateway.cli.main import main

PLAIN = "models: [{name: m, tokenizer: t, context: 9, pools: [{name: p, engine: simulated, replicas: 1}]}]"


@pytest.mark.parametrize(("text", "said"), [(PLAIN, "no pool has a launcher"), ("a: 1\na: 2", "is given twice")])
def test_what_cannot_be_controlled_is_one_line(
    tmp_path: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "penstock.yaml"
    path.write_text(text)
    assert main(["controller", "--config", str(path)]) == 1
    printed = capsys.readouterr().err
    assert printed.startswith(f"penstock controller: {path}: ")
    assert printed.count("\n") == 1
    assert said in printed
