from pathlib import Path

import pytest

from gateway.config.load import load_config
from loadtest.cost.scenarios import CANDIDATE, LONG, SCENARIOS, SHORT, WHOLE, named
from loadtest.load.processes import BenchError

_SETUPS = {scenario.setup.name: scenario.setup for scenario in SCENARIOS}


@pytest.mark.parametrize("name", _SETUPS)
def test_a_gateway_has_what_its_name_says_and_nothing_else(name: str, tmp_path: Path) -> None:
    setup = _SETUPS[name]
    path = tmp_path / "penstock.yaml"
    stable = {WHOLE: 9005, SHORT: 9006, LONG: 9007}
    path.write_text(setup.config(8000, {WHOLE: 9001, SHORT: 9002, LONG: 9003}, 9004, stable))
    config = load_config(path)
    every = name == "everything"
    assert [model.name for model in config.models] == [WHOLE, SHORT, LONG]
    assert (bool(config.safety.input), bool(config.safety.output)) == (every or name == "filters",) * 2
    assert config.observability.metrics.enabled is config.observability.journal.enabled is setup.telemetry
    assert config.observability.traces.enabled is setup.telemetry is (every or name == "telemetry")
    assert setup.tenant == ("limited" if every or name == "limits" else "default")
    assert (config.models[0].output.tools == "hermes") == (name == "tools")
    assert {model.pools[0].engine for model in config.models} == {"openai" if name == "relayed" else "simulated"}
    assert [(one.model, one.to, one.shares) for one in config.rollouts] == (
        [(model, CANDIDATE, (1.0,)) for model in stable] if name == "rollout" else []
    )
    if name != "relayed":
        assert {model.routing.policy for model in config.models} == {"auto" if every else "least_load"}


def test_streams_ask_two_models_in_turn_whose_answers_have_different_lengths() -> None:
    (stream,) = named("plain stream")
    assert stream.models == (SHORT, LONG)
    short, long = map(stream.setup.answer, stream.models)
    assert long.startswith(short) and len(long) > 1.5 * len(short)
    assert b'"stream":true' in stream.body(SHORT)


def test_scenarios_are_chosen_by_name_and_stay_in_order() -> None:
    assert [one.name for one in named("everything,plain")] == ["plain", "everything"]
    assert named(None) == list(SCENARIOS)
    with pytest.raises(BenchError, match="there is no scenario 'plane'; there are plain, plain stream, tools"):
        named("plain,plane")
