import msgspec
import pytest

from gateway.config.errors import convert
from gateway.config.secret_variables import (
    ChildEnvironment,
    LateSecrets,
    environment_without,
    hook_environment,
    hook_variables,
    provider_variables,
    secret_variables,
)
from gateway.config.settings import Config

TEXT = {
    "store": {"encryption_key": {"env": "SEALING"}},
    "safety": {
        "filters": [{"name": "asked", "http": {"url": "https://h/v1/moderations", "api_key": {"env": "GUARD"}}}]
    },
    "models": [
        {
            "name": "m",
            "context": 9,
            "pools": [
                {
                    "name": "p",
                    "engine": "openai",
                    "replicas": ["https://h/v1"],
                    "upstream": {"api_key": [{"env": "ONE"}, {"env": "SEALING"}, {"file": "f"}]},
                }
            ],
        }
    ],
}


def test_every_variable_that_holds_a_secret_is_known() -> None:
    config = convert(TEXT, Config, "test")
    assert secret_variables(config) == {"ONE", "SEALING", "GUARD"}
    # The admin API seals keys with the store's own.
    assert provider_variables(config) == {"ONE", "GUARD"}


def test_an_environment_without_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONE", "sk-secret")
    monkeypatch.setenv("OTHER", "kept")
    found = environment_without({"ONE", "ABSENT"})
    assert "ONE" not in found and found["OTHER"] == "kept" and "PATH" in found


def test_a_command_gets_the_secrets_that_it_is_given_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONE", "SEALING", "GUARD", "OTHER"):
        monkeypatch.setenv(name, "here")
    hooks = {"command": {"start": ["a"], "observe": ["a"], "stop": ["a"], "secrets": ["SEALING"]}}
    prices = {"spot_prices": {"command": ["a"], "secrets": ["GUARD"]}}
    config = convert({**TEXT, "launchers": hooks | prices}, Config, "test")
    environment = hook_environment(config, ["SEALING"], LateSecrets())
    assert {"ONE", "SEALING", "GUARD", "OTHER"} & environment.keys() == {"SEALING", "OTHER"}
    assert hook_variables(config) == {"SEALING", "GUARD"}


def test_a_secret_that_a_reload_names_reaches_no_process_that_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ONE", "LATER", "SEALING", "OTHER"):
        monkeypatch.setenv(name, "here")
    monkeypatch.delenv("GUARD", raising=False)
    late = LateSecrets()
    environment = ChildEnvironment({"ONE"}, late, {"OTHER": "its own"})
    assert {name: environment.get(name) for name in ("ONE", "LATER", "OTHER")} == {
        "ONE": None,
        "LATER": "here",
        "OTHER": "its own",
    }
    before = len(environment)
    text = msgspec.json.decode(msgspec.json.encode(TEXT).replace(b'"ONE"', b'"LATER"'))
    late.note(convert(text, Config, "test"))
    # What others than providers need is still there: naming that anew wants a restart.
    assert late.names == {"LATER", "GUARD"}
    assert "LATER" not in environment and environment["SEALING"] == "here"
    assert dict(environment).keys() == set(environment) and len(environment) == before - 1
    with pytest.raises(KeyError):
        environment["LATER"]


def test_the_controller_keeps_what_it_warms_candidates_up_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LATER", "here")
    late = LateSecrets()
    late.names = late.for_versions = frozenset({"LATER"})
    assert "LATER" in ChildEnvironment((), late, for_versions=True)
    assert "LATER" not in ChildEnvironment((), late)
