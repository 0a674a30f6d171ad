from pathlib import Path

import pytest

from gateway.cli.configuration_warnings import warnings_of
from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.settings import Config
from gateway.server.machine_checks import resolve

GOOD = "min: 1, max: 4, price_per_hour: 2.0"


def loaded(folder: Path, pool: str, *, model: str = "", more: str = "") -> Config:
    text = f"""
models:
  - name: m
    tokenizer: mistral-tekken
    context: 4096
    {model}
    pools: [{{name: p, engine: simulated, {pool}}}]
{more}
"""
    path = folder / "penstock.yaml"
    path.write_text(text)
    return load_config(path)


def launched(scaling: str = GOOD, launcher: str = "local", replicas: str = "registered", rest: str = "") -> str:
    return f"replicas: {replicas}, launcher: {launcher}, scaling: {{{scaling}}}{rest}"


def test_a_pool_that_scales_is_valid_with_settings_of_its_replicas(tmp_path: Path) -> None:
    config = loaded(tmp_path, launched(rest=", simulated: {speed: 10}"), model="scaling: {budget_per_hour: 4}")
    resolve(config, "penstock.yaml", {"mistral-tekken"})
    assert list(warnings_of(config)) == []


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ("replicas: registered, launcher: local", "pools[0].scaling: required"),
        (launched(replicas="2"), "pools[0].replicas: must be registered"),
        (f"replicas: registered, scaling: {{{GOOD}}}", "pools[0].launcher: required"),
        (launched(launcher="command"), "pools[0].launcher: there is no launchers.command"),
        (launched("min: 5, max: 4"), "pools[0].scaling.min: must not be over max (4), got 5"),
        (launched("min: 1, max: 4, spot_max: 5"), "pools[0].scaling.spot_max: must not be over max (4), got 5"),
        (launched("min: 1, max: 4, spot_max: 2"), "pools[0].scaling.spot_price_per_hour: required"),
        ("replicas: registered, simulated: {speed: 2}", "pools[0].simulated: only for replicas that are started here"),
    ],
)
def test_what_a_pool_lacks_is_named(tmp_path: Path, pool: str, said: str) -> None:
    with pytest.raises(ConfigError, match="models") as caught:
        loaded(tmp_path, pool)
    assert f"models[0].{said}" in str(caught.value)


def test_a_budget_below_what_min_costs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, launched("min: 3, max: 4, price_per_hour: 2"), model="scaling: {budget_per_hour: 5}")
    assert "models[0].scaling.budget_per_hour: must be at least what the pools' min cost, 6, got 5" in str(caught.value)


def test_scaling_of_a_model_without_a_launcher_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"scaling: no pool of the model has a launcher"):
        loaded(tmp_path, "replicas: 1", model="scaling: {mode: advise}")


@pytest.mark.parametrize(
    ("gpus", "scaling", "said"),
    [
        ("[0, 1, 1]", "min: 0, max: 1", "launchers.local.gpus: the same GPU is listed twice"),
        ("[0, 1, 2]", "min: 0, max: 2", "pools[0].scaling.max: needs 4 GPUs, and launchers.local.gpus has 3"),
    ],
)
def test_gpus_that_cannot_hold_a_pool_are_refused(tmp_path: Path, gpus: str, scaling: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, launched(scaling, rest=", shape: {tp: 2}"), more=f"launchers: {{local: {{gpus: {gpus}}}}}")
    assert said in str(caught.value)


def test_a_command_that_is_not_there_is_named(tmp_path: Path) -> None:
    more = "launchers: {command: {start: [sh], observe: [no-such-program], stop: [sh]}}"
    config = loaded(tmp_path, launched(launcher="command"), more=more)
    with pytest.raises(ConfigError, match=r'launchers.command.observe\[0\]: "no-such-program" is no program'):
        resolve(config, "penstock.yaml", {"mistral-tekken"})


def test_a_shape_without_a_price_is_warned_of(tmp_path: Path) -> None:
    config = loaded(tmp_path, launched("min: 1, max: 4"), model="scaling: {budget_per_hour: 4}")
    (warning,) = warnings_of(config)
    assert warning.startswith("models[0].pools[0].scaling.price_per_hour: no price")
    assert "budget bounds nothing" in warning
    second = f"}}, {{name: b, engine: simulated, {launched('min: 0, max: 1, price_per_hour: 2')}"
    config = loaded(tmp_path, launched("min: 1, max: 4") + second, model="scaling: {budget_per_hour: 4}")
    (warning,) = warnings_of(config)
    assert warning.endswith("it counts as the dearest shape, in the budget as well")


def test_a_start_that_may_not_last_as_long_as_it_takes_is_warned_of(tmp_path: Path) -> None:
    def warned(scaling: str) -> list[str]:
        return list(warnings_of(loaded(tmp_path, launched(f"min: 1, max: 4, price_per_hour: 2, {scaling}"))))

    (warning,) = warned("startup_seconds: 90, start_timeout_seconds: 90")
    assert warning.startswith(
        "models[0].pools[0].scaling.start_timeout_seconds: a replica that is not ready after 90 s"
    )
    assert warned("startup_seconds: 90, start_timeout_seconds: 91") == []


def test_requests_that_wait_for_less_than_a_start_takes_are_warned_of(tmp_path: Path) -> None:
    def warned(least: int, wait: int) -> list[str]:
        pool = launched(f"min: {least}, max: 4, price_per_hour: 2, startup_seconds: 90")
        return list(warnings_of(loaded(tmp_path, pool, model=f"scaling: {{wait_seconds: {wait}}}")))

    (warning,) = warned(0, 60)
    assert warning.startswith("models[0].scaling.wait_seconds: requests to the model at zero wait 60 s")
    assert warned(0, 90) == []
    assert warned(1, 60) == []


@pytest.mark.parametrize("prices", ["{}", "{file: a, url: 'https://b'}"])
def test_spot_prices_have_one_source(tmp_path: Path, prices: str) -> None:
    with pytest.raises(ConfigError, match=r"launchers.spot_prices: needs exactly one of file, url and command"):
        loaded(tmp_path, launched(), more=f"launchers: {{spot_prices: {prices}}}")


def test_a_file_of_spot_prices_is_beside_the_configuration(tmp_path: Path) -> None:
    config = loaded(tmp_path, launched(), more="launchers: {spot_prices: {file: prices.json}}")
    prices = config.launchers.spot_prices
    assert prices is not None and prices.file == str(tmp_path / "prices.json")


def test_local_replicas_of_gateways_that_share_a_store_are_warned_of(tmp_path: Path) -> None:
    config = loaded(tmp_path, launched(), more="store: {url: 'redis://127.0.0.1:1'}")
    (warning,) = warnings_of(config)
    assert warning.startswith("models[0].pools[0].launcher: local replicas run on the machine of whichever gateway")


HOOKS = "start: [a], observe: [a], stop: [a]"


@pytest.mark.parametrize(
    ("launchers", "said"),
    [
        (f"command: {{{HOOKS}, secrets: [STORE_URL, PATH]}}", "command.secrets[1]: no secret of this file"),
        ("spot_prices: {command: [a], secrets: [OTHER]}", "spot_prices.secrets[0]: no secret of this file"),
        ("spot_prices: {file: f, secrets: [STORE_URL]}", "spot_prices.secrets: only for a command"),
    ],
)
def test_secrets_of_commands_are_those_of_the_file(
    tmp_path: Path, launchers: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_URL", "redis://h")
    more = f"store: {{url: {{env: STORE_URL}}}}\nlaunchers: {{{launchers}}}"
    with pytest.raises(ConfigError) as caught:
        loaded(tmp_path, launched(), more=more)
    assert f"launchers.{said}" in str(caught.value)


@pytest.mark.parametrize(("spot", "warned"), [(1.9, False), (2.0, True), (2.5, True)])
def test_preemptible_capacity_that_is_not_cheaper_is_warned_of(tmp_path: Path, spot: float, warned: bool) -> None:
    config = loaded(tmp_path, launched(f"{GOOD}, spot_max: 2, spot_price_per_hour: {spot}"))
    found = [warning for warning in warnings_of(config) if "spot_price_per_hour" in warning]
    assert bool(found) is warned
    assert all(warning.startswith("models[0].pools[0].scaling.spot_price_per_hour:") for warning in found)


def test_a_file_of_spot_prices_that_is_not_there_is_warned_of(tmp_path: Path) -> None:
    config = loaded(tmp_path, launched(), more="launchers: {spot_prices: {file: prices.json}}")
    (found,) = [warning for warning in warnings_of(config) if "spot_prices" in warning]
    assert found.startswith(f"launchers.spot_prices.file: {tmp_path}/prices.json is not there")
    (tmp_path / "prices.json").write_text("{}")
    assert not [warning for warning in warnings_of(config) if "spot_prices" in warning]
