import pytest

from gateway.config.errors import convert
from gateway.config.secret_variables import environment_without, provider_variables, secret_variables
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
