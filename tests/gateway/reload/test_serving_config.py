"""What a command finds out of a file that cannot be used; the rest is in tests/e2e/test_refused_configuration.py."""

from pathlib import Path

import pytest

from gateway.config.errors import ConfigError
from gateway.reload.serving_config import serving_config, state_dir_of


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("state: ./data\nmodels: 1\n", "data"),
        ("models: [\nstate: ./data\n", "data"),
        ("state: './da ta'  # a comment\nmodels: {a\n", "da ta"),
        ("models:\n  state: ./data\n  - broken\n", ".penstock"),
        ("a: 1\na: 2\n", ".penstock"),
        ("", ".penstock"),
        ("- a list\n", ".penstock"),
    ],
)
def test_the_state_directory_is_found_whatever_else_is_wrong(text: str, state: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(text)
    assert state_dir_of(file) == tmp_path / state


@pytest.mark.parametrize("text", ["state: 1\n", "models: [\nstate: {a: b}\n", "models: [\nstate: [\n"])
def test_a_state_directory_that_is_none_is_said(text: str, tmp_path: Path) -> None:
    file = tmp_path / "penstock.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError, match=str(file)):
        state_dir_of(file)


def test_without_a_gateway_the_fault_is_raised(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, said in ((None, "cannot be read"), ("models: [", "line 1"), ("models: 1", "models: expected list")):
        file = tmp_path / "penstock.yaml"
        if text is not None:
            file.write_text(text)
        with pytest.raises(ConfigError, match=said):
            serving_config("keys", file)
    assert capsys.readouterr() == ("", "")
