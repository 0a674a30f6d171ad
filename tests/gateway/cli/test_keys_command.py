import json
import re
import shlex
import time
from pathlib import Path
from typing import Any

import pytest
import redis

from gateway.cli.main import main
from gateway.store.embedded import EmbeddedStore

MODELS = "models: [{name: m, tokenizer: t, context: 9, pools: [{name: p, engine: simulated, replicas: 1}]}]\n"
DAY = 86_400


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are tables here, whatever the terminal's width."""
    monkeypatch.setenv("COLUMNS", "400")


@pytest.fixture
def config(store_url: str, tmp_path: Path) -> str:
    path = tmp_path / "c.yaml"
    path.write_text(f"{MODELS}store: {{url: '{store_url}'}}\ntenants: [{{name: acme}}]\n")
    return str(path)


class Shell:
    """The command line, in this process."""

    def __init__(self, config: str, capsys: pytest.CaptureFixture[str]) -> None:
        self._config = config
        self._capsys = capsys

    def __call__(self, *arguments: str) -> tuple[str, str]:
        """What a command that succeeds says."""
        assert main([*arguments, "--config", self._config]) == 0
        said = self._capsys.readouterr()
        return said.out, said.err

    def json(self, *arguments: str) -> Any:
        out, err = self(*arguments, "--json")
        assert err == ""
        return json.loads(out)

    def refusal(self, *arguments: str) -> str:
        """The one line of a command that fails."""
        assert main([*arguments, "--config", self._config]) == 1
        said = self._capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert said.err.startswith(f"penstock {arguments[0]}: ")
        return said.err.removeprefix(f"penstock {arguments[0]}: ").rstrip()


@pytest.fixture
def penstock(config: str, capsys: pytest.CaptureFixture[str]) -> Shell:
    return Shell(config, capsys)


def fields(text: str) -> dict[str, str]:
    return dict(line.split(maxsplit=1) for line in text.splitlines())


def test_create_list_show_and_revoke(penstock: Shell) -> None:
    out, err = penstock("keys", "create", "--name", "ci", "--models", "mixtral-8x7b, llama*")
    made = fields(out)
    assert (made["name"], made["tenant"], made["models"]) == ("ci", "default", "mixtral-8x7b, llama*")
    assert re.fullmatch(r"sk-penstock-[A-Za-z0-9_-]{43}", made["key"])
    assert "cannot be shown again" in err

    penstock("keys", "create", "--name", "a longer name", "--tenant", "acme", "--expires", "30d")
    out, _ = penstock("keys", "list")
    header, first, second = out.splitlines()
    assert header.split() == ["ID", "NAME", "TENANT", "MODELS", "EXPLAIN", "CREATED", "STATE"]
    assert first.index("active") == second.index("active until 2") == header.index("STATE")
    assert first.startswith(made["id"])
    assert made["key"] not in out
    assert len(penstock("keys", "list", "--tenant", "acme")[0].splitlines()) == 2

    shown = fields(penstock("keys", "show", "ci")[0])
    assert (shown["id"], shown["state"]) == (made["id"], "active")
    assert "key" not in shown

    assert penstock("keys", "revoke", made["id"])[0] == f"revoked {made['id']} (ci)\n"
    assert " revoked 2" in penstock("keys", "list")[0].splitlines()[1]
    assert fields(penstock("keys", "show", made["id"])[0])["state"].startswith("revoked 2")


def test_every_setting_has_a_flag(penstock: Shell) -> None:
    arguments = (
        "--tenant acme --models m,x* --endpoints chat,models --explain --expires 2100-01-31 --rpm 1 --tpm 2 "
        "--input-tpm 3 --output-tpm 4 --concurrency 5 --max-input-tokens 6 --max-output-tokens 8 "
        "--default-output-tokens 7 --budget 50/day --budget-alerts 75,90 --metadata team=x --metadata note=a=b"
    )
    made = penstock.json("keys", "create", "--name", "ci", *arguments.split())
    assert made.pop("key").startswith("sk-penstock-")
    assert abs(made.pop("created_at") - time.time()) < 60
    assert made == {
        "id": made["id"],
        "name": "ci",
        "tenant": "acme",
        "models": ["m", "x*"],
        "endpoints": ["chat", "models"],
        "explain": True,
        "limits": {
            "rpm": 1,
            "tpm": 2,
            "input_tpm": 3,
            "output_tpm": 4,
            "concurrency": 5,
            "max_input_tokens": 6,
            "max_output_tokens": 8,
            "default_output_tokens": 7,
            "budget": {"usd": 50.0, "period": "day", "alerts": [75, 90]},
        },
        "metadata": {"team": "x", "note": "a=b"},
        "expires_at": 4_105_036_800.0,
        "revoked_at": None,
        "replaces": None,
        "lineage": None,
    }
    shown = penstock("keys", "show", "ci")[0]
    assert "rpm 1, tpm 2, input_tpm 3" in shown
    assert "budget 50 USD/day" in shown
    assert "team=x, note=a=b" in shown


def test_an_update_changes_what_it_names(penstock: Shell) -> None:
    made = penstock.json(
        "keys", "create", "--name", "ci", "--rpm", "5", "--budget", "50/day", "--expires", "1d", "--metadata", "a=b"
    )
    changed = penstock.json(
        "keys", "update", "ci", "--tpm", "9", "--rpm", "none", "--budget-alerts", "50", "--expires", "never",
        "--metadata", "c=d", "--endpoints", "chat", "--name", "new", "--models", "m"
    )  # fmt: skip
    budget = {"usd": 50.0, "period": "day", "alerts": [50]}
    assert changed == {
        **{name: value for name, value in made.items() if name != "key"},
        "name": "new",
        "models": ["m"],
        "endpoints": ["chat"],
        "limits": {**made["limits"], "tpm": 9, "rpm": None, "budget": budget},
        "metadata": {"a": "b", "c": "d"},
        "expires_at": None,
    }
    cleared = penstock.json(
        "keys", "update", "new", "--budget", "none", "--endpoints", "none", "--metadata", "none", "--metadata", "e=f"
    )
    assert (cleared["limits"]["budget"], cleared["endpoints"], cleared["metadata"]) == (None, [], {"e": "f"})
    assert cleared["limits"]["tpm"] == 9
    assert fields(penstock("keys", "update", "new", "--budget", "7")[0])["limits"] == "tpm 9, budget 7 USD/month"
    assert [key["id"] for key in penstock.json("keys", "list")] == [made["id"]]


def test_explaining_is_given_and_taken(penstock: Shell) -> None:
    assert penstock.json("keys", "create", "--name", "ci")["explain"] is False
    assert "explain" not in fields(penstock("keys", "show", "ci")[0])
    assert penstock.json("keys", "update", "ci", "--explain")["explain"] is True
    assert fields(penstock("keys", "update", "ci", "--rpm", "5")[0])["explain"] == "yes"
    header, row = penstock("keys", "list")[0].splitlines()
    assert row[header.index("EXPLAIN") :].startswith("yes ")
    assert penstock.json("keys", "update", "ci", "--no-explain")["explain"] is False
    row = penstock("keys", "list")[0].splitlines()[1]
    assert row[header.index("EXPLAIN") :].startswith("- ")


def test_rotation(penstock: Shell) -> None:
    made = penstock.json("keys", "create", "--name", "ci", "--rpm", "5", "--explain")
    new = penstock.json("keys", "rotate", "ci", "--grace", "12h")
    assert new["replaces"] == made["id"]
    assert new["explain"] is True
    assert new["limits"]["rpm"] == 5
    assert new["key"] != made["key"]
    old, _ = penstock.json("keys", "list")
    assert abs(old["expires_at"] - time.time() - DAY / 2) < 60
    assert "active until" in penstock("keys", "list")[0]
    said = penstock.refusal("keys", "rotate", "ci")
    assert said == f"2 active keys are named 'ci'; name one by its id: {made['id']}, {new['id']}"
    out, err = penstock("keys", "rotate", new["id"], "--grace", "0s")
    assert fields(out)["replaces"] == new["id"]
    assert "cannot be shown again" in err
    assert "expired 2" in penstock("keys", "list")[0].splitlines()[2]


def test_an_empty_list(penstock: Shell) -> None:
    out, err = penstock("keys", "list")
    assert out == ""
    assert "no keys yet" in err
    assert penstock.json("keys", "list") == []


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ("create --name ''", "name: a key's name has 1 to 64 printable characters"),
        ("create --name quickstart", "name: 'quickstart' is kept for the key that penstock serve --quickstart makes"),
        ("create --name k --models a,,b", "models[1]: expected str matching regex"),
        ("create --name k --models *,m", 'models[1]: "m" is already covered by "*"'),
        (
            "create --name k --endpoints chat,audio",
            "endpoints[1]: expected batches or chat or completions or",
        ),
        ("create --name k --tenant nobody", "tenant: there is no tenant 'nobody'"),
        ("create --name k --rpm -5", "limits.rpm: expected int >= 1, got -5"),
        ("create --name k --rpm 0", "limits.rpm: expected int >= 1, got 0"),
        ("create --name k --tpm 1e400", "limits.tpm: expected int, got Infinity"),
        ("create --name k --tpm nan", "limits.tpm: expected int, got NaN"),
        ("create --name k --tpm many", 'limits.tpm: expected int, got "many"'),
        ("create --name k --concurrency 10000000000000", "limits.concurrency: expected int <= 1000000000000"),
        ("create --name k --budget lots/day", 'limits.budget.usd: expected float, got "lots"'),
        ("create --name k --budget 5/week", 'limits.budget.period: expected day or month, got "week"'),
        ("create --name k --budget=-5/day", "limits.budget.usd: expected float >= 1e-06, got -5"),
        ("create --name k --budget-alerts 75", "limits.budget.usd: required, but missing"),
        ("create --name k --budget 5 --budget-alerts 75,75", "limits.budget.alerts[1]: 75 is already in the list"),
        ("create --name k --expires soon", "expires_at: expected 30d, 12h, a date such as 2030-01-31 or never"),
        ("create --name k --expires 2020-01-01", "expires_at: lies in the past"),
        ("create --name k --expires 0s", "expires_at: lies in the past"),
        ("create --name k --expires 999999999w", "expires_at: expected float <= "),
        ("create --name k --metadata team", 'metadata: expected NAME=VALUE, got "team"'),
        ("create --name k --metadata =x", "metadata: a name has 1 to 64 printable characters"),
        ("revoke nobody", "no active key has the id or name 'nobody'; see: penstock keys list"),
        ("update nobody --rpm 5", "no active key has the id or name 'nobody'"),
        ("update there --rpm zero", 'limits.rpm: expected int, got "zero"'),
        ("update there --name other", "name: key_"),
        ("rotate there --grace 31d", "grace_seconds: expected 0 to 2592000 (30 days), got"),
        ("rotate there --grace long", "grace_seconds: expected a duration such as 24h, 30d or 0s"),
        ("list --tenant nobody", "There is no tenant 'nobody'."),
    ],
)
def test_mistakes(penstock: Shell, arguments: str, says: str) -> None:
    for name in ("there", "other"):
        penstock("keys", "create", "--name", name)
    before = penstock.json("keys", "list")
    assert penstock.refusal("keys", *shlex.split(arguments)).startswith(says)
    assert penstock.json("keys", "list") == before


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
    with redis.Redis.from_url(server.url) as client:
        client.config_set("maxmemory", 1)
    capsys.readouterr()
    assert main(["keys", "create", "--name", "l", "--config", str(path)]) == 1
    assert " refuses a call: " in capsys.readouterr().err
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


def test_keys_of_a_tenant_that_has_left_the_file_are_not_active(penstock: Shell, config: str) -> None:
    made = fields(penstock("keys", "create", "--name", "ci", "--tenant", "acme")[0])
    Path(config).write_text(Path(config).read_text().replace("tenants: [{name: acme}]", "tenants: []"))
    for arguments in ((), ("--tenant", "acme")):
        assert penstock("keys", "list", *arguments)[0].splitlines()[1].endswith("without its tenant")
    assert fields(penstock("keys", "show", made["id"])[0])["state"] == "without its tenant"
    assert "no tenant 'nobody'" in penstock.refusal("keys", "list", "--tenant", "nobody")
    penstock("keys", "revoke", made["id"])
    assert " revoked 2" in penstock("keys", "list")[0].splitlines()[1]
