"""`penstock providers`, in this process."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway.cli.main import main

MODELS = "models: [{name: m, tokenizer: t, context: 9, pools: [{name: p, engine: simulated, replicas: 1}]}]\n"
VARIABLE = "PENSTOCK_TEST_ENCRYPTION_KEY"
OLD, NEW = bytes(range(32)).hex(), bytes(range(32, 64)).hex()
SECRET = "sk-live-0123456789"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Shell:
    """The command line of a configuration."""

    def __init__(self, config: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self.config = config
        self._capsys = capsys
        self._monkeypatch = monkeypatch

    def __call__(self, *arguments: str, given: str | None = "", status: int = 0) -> tuple[str, str]:
        """What a command says that gets this on standard input; None: a terminal."""
        self._monkeypatch.setattr(sys, "stdin", Terminal() if given is None else io.StringIO(given))
        assert main(["providers", *arguments, "--config", str(self.config)]) == status
        said = self._capsys.readouterr()
        assert SECRET not in said.out + said.err
        return said.out, said.err

    def refusal(self, *arguments: str, given: str | None = "") -> str:
        out, err = self(*arguments, given=given, status=1)
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("penstock providers: ")
        return err.removeprefix("penstock providers: ").rstrip()

    def json(self, *arguments: str, given: str = "") -> Any:
        return json.loads(self(*arguments, "--json", given=given)[0])


@pytest.fixture
def penstock(
    store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Shell:
    monkeypatch.setenv(VARIABLE, OLD)
    path = tmp_path / "c.yaml"
    path.write_text(f"{MODELS}store: {{url: '{store_url}', encryption_key: {{env: {VARIABLE}}}}}\n")
    return Shell(path, capsys, monkeypatch)


def test_set_list_and_delete(penstock: Shell) -> None:
    assert "no keys yet" in penstock("list")[1]
    out, _ = penstock("set", "openai", given=f"{SECRET}\n")
    made = dict(line.split(maxsplit=1) for line in out.splitlines())
    assert made["name"] == "openai"
    header, row = penstock("list")[0].splitlines()
    assert header.split() == ["NAME", "FINGERPRINT", "CREATED", "BY"]
    assert row.split()[:2] == ["openai", made["fingerprint"]]
    assert row.split()[-1].startswith("cli:")
    (listed,) = penstock.json("list")
    assert set(listed) == {"name", "fingerprint", "created_at", "created_by"}
    assert penstock.json("set", "mirror", given=SECRET)["fingerprint"] == made["fingerprint"]
    assert penstock("delete", "openai")[0] == "deleted openai\n"
    assert penstock.json("delete", "mirror") == {"deleted": "mirror"}
    assert penstock.refusal("delete", "openai") == "There is no provider key 'openai'."


def test_a_prompt_does_not_echo(penstock: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def getpass(prompt: str) -> str:
        asked.append(prompt)
        return SECRET

    monkeypatch.setattr("getpass.getpass", getpass)
    penstock("set", "openai", given=None)
    assert asked == ["Key for openai (not shown): "]


def test_a_prompt_that_nobody_answers(penstock: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    def getpass(prompt: str) -> str:
        raise EOFError(prompt)

    monkeypatch.setattr("getpass.getpass", getpass)
    assert penstock.refusal("set", "openai", given=None) == "key: the key is empty"


def test_the_key_is_no_argument(penstock: Shell, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["providers", "set", "openai", SECRET, "--config", str(penstock.config)])
    capsys.readouterr()


def test_what_cannot_be_a_key_or_a_name_is_refused(penstock: Shell) -> None:
    assert penstock.refusal("set", "openai", given="") == "key: the key is empty"
    assert penstock.refusal("set", "openai", given=f"{SECRET} {SECRET}").startswith("key: the key must have")
    assert penstock.refusal("set", "no/name", given=SECRET).startswith("name: ")


def test_without_an_encryption_key(penstock: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE)
    said = penstock.refusal("set", "openai", given=SECRET)
    assert said == f"store.encryption_key: the environment variable {VARIABLE} is not set"
    assert penstock.json("list") == []
    penstock.config.write_text(penstock.config.read_text().replace(f", encryption_key: {{env: {VARIABLE}}}", ""))
    assert "No encryption key is configured" in penstock.refusal("set", "openai", given=SECRET)
    assert "No encryption key is configured" in penstock.refusal("reencrypt")


def test_reencrypt(penstock: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    penstock("set", "openai", given=SECRET)
    assert "already" in penstock("reencrypt")[0]
    monkeypatch.setenv(VARIABLE, f"{NEW} {OLD}")
    assert penstock("reencrypt")[0] == "encrypted anew: openai\n"
    assert penstock.json("reencrypt") == {"reencrypted": []}
