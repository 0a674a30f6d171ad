import json
import re
from pathlib import Path

import pytest

from gateway.cli import main
from gateway.store.embedded import EmbeddedStore

MODELS = "models: [{name: m, tokenizer: t, context: 9, pools: [{name: p, engine: simulated, replicas: 1}]}]\n"


@pytest.fixture
def config(store_url: str, tmp_path: Path) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(f"{MODELS}store: {{url: '{store_url}'}}\n")
    return str(path)


def test_create_list_and_revoke(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "create", "--name", "ci", "--models", "mixtral-8x7b, llama*", "--config", config]) == 0
    said = capsys.readouterr()
    made = dict(line.split(maxsplit=1) for line in said.out.splitlines())
    assert made["name"] == "ci"
    assert made["models"] == "mixtral-8x7b, llama*"
    assert re.fullmatch(r"sk-penstock-[A-Za-z0-9_-]{43}", made["key"])
    assert "cannot be shown again" in said.err

    assert main(["keys", "create", "--name", "a longer name", "--config", config]) == 0
    capsys.readouterr()
    assert main(["keys", "list", "--config", config]) == 0
    said = capsys.readouterr()
    header, first, second = said.out.splitlines()
    assert header.split() == ["ID", "NAME", "MODELS", "CREATED", "STATE"]
    assert first.index("active") == second.index("active") == header.index("STATE")
    assert first.startswith(made["id"])
    assert made["key"] not in said.out

    assert main(["keys", "revoke", made["id"], "--config", config]) == 0
    assert capsys.readouterr().out == f"revoked {made['id']} (ci)\n"
    assert main(["keys", "list", "--config", config]) == 0
    assert " revoked 2" in capsys.readouterr().out.splitlines()[1]


def test_json(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "create", "--name", "ci", "--json", "--config", config]) == 0
    said = capsys.readouterr()
    made = json.loads(said.out)
    assert said.err == ""
    assert made.pop("key").startswith("sk-penstock-")
    assert set(made) == {"id", "name", "models", "created_at", "revoked_at"}
    assert main(["keys", "list", "--json", "--config", config]) == 0
    assert json.loads(capsys.readouterr().out) == [made]


def test_an_empty_list(config: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "list", "--config", config]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert "no keys yet" in said.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["create", "--name", ""], "penstock keys: a key's name has 1 to 64 printable characters\n"),
        (["create", "--name", "k", "--models", "a,,b"], "penstock keys: '' is not a model name or pattern"),
        (["revoke", "nobody"], "penstock keys: no active key has the id or name 'nobody'; see: penstock keys list\n"),
    ],
)
def test_mistakes(config: str, capsys: pytest.CaptureFixture[str], arguments: list[str], says: str) -> None:
    assert main(["keys", *arguments, "--config", config]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(says)
    assert said.err.count("\n") == 1


def test_usage(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["keys", "create"])
    assert caught.value.code == 2
    assert "--name" in capsys.readouterr().err


def test_the_embedded_store_is_found_beside_the_file(state_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = state_dir / "c.yaml"
    path.write_text(MODELS)
    assert main(["keys", "list", "--config", str(path)]) == 1
    assert capsys.readouterr().err == (
        f"penstock keys: the embedded store does not answer; it runs with: penstock serve --config {path}\n"
    )
    server = EmbeddedStore(state_dir / ".penstock")
    server.start()
    assert main(["keys", "create", "--name", "k", "--config", str(path)]) == 0
    server.stop()


def test_a_store_elsewhere_that_is_down(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"{MODELS}store: {{url: 'redis://:hunter2@127.0.0.1:1/0'}}\n")
    assert main(["keys", "list", "--config", str(path)]) == 1
    said = capsys.readouterr().err
    assert said.startswith("penstock keys: the store at redis://***@127.0.0.1:1/0 does not answer: ")
    assert "hunter2" not in said
    path.write_text("models: 1")
    assert main(["keys", "list", "--config", str(path)]) == 1
    assert capsys.readouterr().err == f"penstock keys: {path}: models: expected list, got 1\n"
