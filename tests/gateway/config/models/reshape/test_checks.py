from pathlib import Path

import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config

IN_PLACE = """\
models:
  - name: m
    tokenizer: mistral-tekken
    context: 4096
    reshape: {RESHAPE}
    pools:
      - {name: p, engine: simulated, replicas: ["grpc://a:1", "grpc://b:1"]}
"""
RELAUNCH = """\
models:
  - name: m
    tokenizer: mistral-tekken
    context: 4096
    reshape: {relaunch: {narrow: n, wide: w, narrow_kv_tokens: 1000, wide_kv_tokens: 9000}}
    pools:
      - {name: n, engine: simulated, replicas: registered, launcher: local, scaling: {min: 0, max: 8}}
      - {name: w, engine: simulated, replicas: registered, launcher: local, shape: {tp: 4}, scaling: {min: 0, max: 2}}
"""


def loaded(folder: Path, text: str) -> Path:
    path = folder / "penstock.yaml"
    path.write_text(text, encoding="utf-8")
    return path


def test_shapes_may_change_by_few_words(tmp_path: Path) -> None:
    config = load_config(loaded(tmp_path, IN_PLACE.replace("RESHAPE", "")))
    assert config.reshapes
    assert config.needs_controller
    (model,) = config.models
    assert model.reshape is not None
    assert model.reshape.mode == "advise"
    assert load_config(loaded(tmp_path, RELAUNCH)).models[0].reshape is not None
    learned = RELAUNCH.replace(", narrow_kv_tokens: 1000, wide_kv_tokens: 9000", "")
    assert load_config(loaded(tmp_path, learned)).models[0].reshape is not None


def test_without_the_section_nothing_is_started(tmp_path: Path) -> None:
    config = load_config(loaded(tmp_path, IN_PLACE.replace("    reshape: {RESHAPE}\n", "")))
    assert not config.reshapes
    assert not config.needs_controller


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        (IN_PLACE.replace("RESHAPE", "mode: act"), "models[0].reshape.mode", "advise"),
        (IN_PLACE.replace("RESHAPE", "margin: 0"), "models[0].reshape.margin", "1"),
        (
            IN_PLACE.replace("RESHAPE", "").replace("engine: simulated", "engine: trtllm_grpc"),
            "models[0].reshape",
            "others say nothing of their GPUs",
        ),
        (RELAUNCH.replace("wide: w", "wide: x"), "models[0].reshape.relaunch.wide", "the model has no pool"),
        (RELAUNCH.replace("{tp: 4}", "{tp: 1}"), "models[0].reshape.relaunch.wide", "must have a multiple of the GPUs"),
        (RELAUNCH.replace("max: 8", "max: 3"), "models[0].reshape.relaunch.narrow", "have fewer GPUs than one of w"),
        (RELAUNCH.replace("9000", "900"), "models[0].reshape.relaunch.wide_kv_tokens", "must be over narrow_kv_tokens"),
        (
            RELAUNCH.replace("launcher: local, shape", "launcher: command, shape")
            + "launchers: {command: {start: [a], observe: [b], stop: [c]}}\n",
            "models[0].reshape.relaunch.wide",
            "which share no GPUs",
        ),
        (
            RELAUNCH.replace(
                "scaling: {min: 0, max: 2}", "scaling: {min: 0, max: 2, spot_max: 1, spot_price_per_hour: 1}"
            ),
            "models[0].reshape.relaunch.wide",
            "what may go at any time gives no GPUs",
        ),
    ],
)
def test_what_cannot_be_is_refused_by_its_field(tmp_path: Path, text: str, path: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(loaded(tmp_path, text))
    assert path in str(caught.value)
    assert problem in str(caught.value)
