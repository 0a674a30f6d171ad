import json
from pathlib import Path
from typing import Any

import pytest
import redis

from gateway.cli.main import main
from gateway.config.tenants import Limits

CONFIG = """\
models: [{name: m, tokenizer: t, context: 9, pools: [{name: p, engine: simulated, replicas: 1}]}]
tenants: [{name: filed, tier: gold, models: [m], limits: {rpm: 5, budget: {usd: 2.5, period: day}}}]
safety: {policies: [{name: strict, input: [pii]}]}
"""
NO_LIMITS = dict.fromkeys(Limits.__struct_fields__)


@pytest.fixture(autouse=True)
def wide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables are tables here, whatever the terminal's width."""
    monkeypatch.setenv("COLUMNS", "400")


class Shell:
    """The command line, in this process."""

    def __init__(self, config: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self._config = str(config)
        self._capsys = capsys

    def __call__(self, *arguments: str, command: str = "tenants") -> str:
        assert main([command, *arguments, "--config", self._config]) == 0
        said = self._capsys.readouterr()
        return said.out

    def json(self, *arguments: str) -> Any:
        return json.loads(self(*arguments, "--json"))

    def refusal(self, *arguments: str) -> str:
        assert main(["tenants", *arguments, "--config", self._config]) == 1
        said = self._capsys.readouterr()
        assert said.out == ""
        assert said.err.count("\n") == 1
        assert said.err.startswith("penstock tenants: ")
        return said.err.removeprefix("penstock tenants: ").rstrip()


@pytest.fixture
def tenants(store_url: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Shell:
    path = tmp_path / "c.yaml"
    path.write_text(f"{CONFIG}store: {{url: '{store_url}'}}\n")
    return Shell(path, capsys)


def test_create_list_show_update_and_delete(tenants: Shell) -> None:
    tenants("create", "acme", "--tier", "silver", "--rpm", "600")
    assert [line.split() for line in tenants("list").splitlines()] == [
        ["NAME", "TIER", "MODELS", "LIMITS", "SAFETY", "CACHE", "SOURCE"],
        ["acme", "silver", "*", "rpm", "600", "-", "-", "api"],
        ["default", "bronze", "*", "-", "-", "-", "built-in"],
        ["filed", "gold", "m", "rpm", "5,", "budget", "2.5", "USD/day", "-", "-", "file"],
    ]
    shown = tenants("update", "acme", "--tpm", "9", "--tier", "none")
    assert tenants("show", "acme") == shown
    assert dict(line.split("  ", 1) for line in shown.splitlines())["limits"].strip() == "rpm 600, tpm 9"
    assert "bronze" in shown
    assert "at most 256 in one worker, 60 s" in shown
    assert tenants("delete", "acme") == "deleted acme\n"
    assert "acme" not in tenants("list")
    tenants("create", "acme")
    assert tenants.json("delete", "acme") == {"name": "acme", "deleted": True}


def test_every_field_has_a_flag(tenants: Shell) -> None:
    arguments = (
        "--tier gold --models m,x* --rpm 1 --tpm 2 --input-tpm 3 --output-tpm 4 --concurrency 5 --max-input-tokens 6 "
        "--max-output-tokens 8 --default-output-tokens 7 --budget 50.5/month --budget-alerts 75,90 "
        "--waiting-requests 0 --waiting-seconds 2.5 --on-store-failure fail_open --safety strict --cache-group friends "
        "--chooses-version"
    )
    assert tenants.json("create", "acme", *arguments.split()) == {
        "name": "acme",
        "tier": "gold",
        "models": ["m", "x*"],
        "limits": {
            "rpm": 1,
            "tpm": 2,
            "input_tpm": 3,
            "output_tpm": 4,
            "concurrency": 5,
            "max_input_tokens": 6,
            "max_output_tokens": 8,
            "default_output_tokens": 7,
            "budget": {"usd": 50.5, "period": "month", "alerts": [75, 90]},
        },
        "model_limits": {},
        "waiting": {"max_requests": 0, "max_seconds": 2.5},
        "on_store_failure": "fail_open",
        "safety": "strict",
        "data": {"shadow": True, "text": False},
        "cache_group": "friends",
        "chooses_version": True,
        "source": "api",
        "shadowed": False,
    }
    changed = tenants.json("update", "acme", "--waiting-seconds", "9", "--budget", "none")
    assert changed["waiting"] == {"max_requests": 0, "max_seconds": 9.0}
    assert (changed["limits"]["budget"], changed["limits"]["rpm"]) == (None, 1)
    assert (changed["safety"], changed["cache_group"]) == ("strict", "friends")
    shown = dict(line.split(maxsplit=1) for line in tenants("show", "acme").splitlines())
    assert (shown["safety"], shown["cache"].split()) == ("strict", ["group", "friends"])
    assert ["strict", "friends", "api"] in [line.split()[-3:] for line in tenants("list").splitlines()]
    changed = tenants.json("update", "acme", "--safety", "none", "--cache-group", "none")
    assert (changed["safety"], changed["cache_group"]) == (None, None)


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_a_whole_record_from_a_file(tenants: Shell, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"tenant.{suffix}"
    if suffix == "json":
        path.write_text(json.dumps({"name": "acme", "tier": "gold", "model_limits": {"m": {"rpm": 3}}}))
    else:
        path.write_text("name: acme\ntier: gold\nmodel_limits: {m: {rpm: 3}}\n")
    made = tenants.json("create", "--file", str(path))
    assert (made["name"], made["tier"], made["model_limits"]) == ("acme", "gold", {"m": {**NO_LIMITS, "rpm": 3}})
    other = tenants.json("create", "other", "--file", str(path), "--tier", "silver")
    assert (other["name"], other["tier"], other["model_limits"]) == ("other", "silver", made["model_limits"])
    assert "  m" in tenants("show", "acme")
    tenants("update", "acme", "--rpm", "5")
    path.write_text("limits: {tpm: 7}\n")
    replaced = tenants.json("update", "acme", "--file", str(path), "--concurrency", "2")
    assert replaced["limits"] == {**NO_LIMITS, "tpm": 7, "concurrency": 2}
    assert (replaced["tier"], replaced["model_limits"]) == (None, {})


def test_the_files_tenants_are_shown_and_left_alone(tenants: Shell) -> None:
    shown = tenants.json("show", "filed")
    assert (shown["source"], shown["shadowed"], shown["limits"]["rpm"]) == ("file", False, 5)
    for change in (("create", "filed"), ("update", "filed", "--rpm", "9"), ("delete", "filed")):
        assert tenants.refusal(*change) == "The configuration file has the tenant 'filed'; change it there."


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["create"], "name: required, but missing"),
        (["create", "a b"], "name: expected str matching regex"),
        (["create", "acme"], "name: there is a tenant 'acme' already"),
        (["create", "x", "--tier", "platinum"], 'tier: there is no tier "platinum"; there are gold, silver, bronze'),
        (["create", "x", "--models", "*,m"], 'models[1]: "m" is already covered by "*"'),
        (["create", "x", "--models", "none"], "models: expected list of length >= 1"),
        (["create", "x", "--rpm", "-1"], "limits.rpm: expected int >= 1, got -1"),
        (["create", "x", "--waiting-requests", "many"], 'waiting.max_requests: expected int, got "many"'),
        (["create", "x", "--waiting-seconds", "nan"], "waiting.max_seconds: expected float > 0.0, got NaN"),
        (["create", "x", "--waiting-seconds", "none"], "waiting.max_seconds: expected float, got null"),
        (["create", "x", "--on-store-failure", "open"], "on_store_failure: expected fail_closed or fail_open"),
        (["create", "x", "--safety", "lax"], 'safety: there is no policy "lax"; there are strict'),
        (["create", "x", "--cache-group", "a/b"], "cache_group: expected str matching regex"),
        (
            ["create", "x", "--max-output-tokens", "5", "--default-output-tokens", "6"],
            "limits.default_output_tokens: must not be above max_output_tokens (5), got 6",
        ),
        (["update", "nobody", "--rpm", "5"], "There is no tenant 'nobody'."),
        (["show", "nobody"], "There is no tenant 'nobody'."),
        (["delete", "nobody"], "There is no tenant 'nobody'."),
        (["delete", "acme"], "The tenant 'acme' has active keys (1); revoke them first."),
        (["delete", "default"], "The tenant 'default' is built in."),
    ],
)
def test_mistakes(tenants: Shell, arguments: list[str], says: str) -> None:
    tenants("create", "acme")
    tenants("create", "--name", "k", "--tenant", "acme", command="keys")
    before = tenants.json("list")
    assert tenants.refusal(*arguments).startswith(says)
    assert tenants.json("list") == before


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[]", ": expected a mapping with a tenant's fields"),
        ("name: [", ": line 1"),
        ("name: acme\nlimits: {rpm: many}", 'limits.rpm: expected int, got "many"'),
        ("name: acme\nlimits: 5", "limits: expected mapping, got 5"),
        ("name: acme\nwaiting: [1]", "waiting: expected mapping, got [1]"),
        ("name: acme\nmodel_limits: {gpt: {rpm: 1}}", 'model_limits.gpt: no model "gpt" is served'),
        ("name: acme\nsource: api", "source: unknown field"),
    ],
)
def test_a_bad_file(tenants: Shell, tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "tenant.yaml"
    path.write_text(text)
    said = tenants.refusal("create", "--file", str(path), "--rpm", "5")
    assert said.removeprefix(str(path)).startswith(says)
    path.unlink()
    assert tenants.refusal("create", "--file", str(path)).endswith("cannot be read: No such file or directory")


def test_every_change_is_in_the_audit_trail(tenants: Shell, store_url: str) -> None:
    tenants("create", "acme")
    tenants("update", "acme", "--rpm", "5")
    tenants("delete", "acme")
    with redis.Redis.from_url(store_url) as client:
        trail: Any = client.xrange("penstock:{keys}:audit")
    assert [entry[b"action"] for _, entry in trail] == [b"tenant.create", b"tenant.update", b"tenant.delete"]
    assert {entry[b"actor"].partition(b":")[0] for _, entry in trail} == {b"cli"}
