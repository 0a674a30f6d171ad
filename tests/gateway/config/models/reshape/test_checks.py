from pathlib import Path

import pytest

from gateway.cli.configuration_warnings import warnings_of
from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.models.reshape.gpu_shares import gpu_shares

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
GROUPS = """\
launchers: {local: {gpus: [2, 3, 4, 5, 6, 7]}}
models:
  - name: m
    tokenizer: mistral-tekken
    context: 4096
    reshape: {}
    pools:
      - {name: p, engine: simulated, replicas: registered, launcher: local, group_gpus: 2, scaling: {min: 0, max: 4}}
      - {name: q, engine: simulated, replicas: registered, launcher: local, scaling: {min: 0, max: 2}}
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


def test_groups_on_this_machine_have_gpus_of_their_own(tmp_path: Path) -> None:
    assert gpu_shares(load_config(loaded(tmp_path, GROUPS))) == {("m", "p"): (2, 3, 4, 5)}


def test_pools_that_take_each_others_gpus_need_them_once(tmp_path: Path) -> None:
    text = f"launchers: {{local: {{gpus: [0, 1, 2, 3, 4, 5, 6, 7]}}}}\n{RELAUNCH}"
    assert not [warning for warning in warnings_of(load_config(loaded(tmp_path, text))) if "gpus" in warning]
    apart = text.replace("relaunch: {narrow: n, wide: w, narrow_kv_tokens: 1000, wide_kv_tokens: 9000}", "")
    found = warnings_of(load_config(loaded(tmp_path, apart)))
    assert "launchers.local.gpus: all pools at their max need 16 GPUs, and there are 8" in found


def test_without_the_section_nothing_is_started(tmp_path: Path) -> None:
    config = load_config(loaded(tmp_path, IN_PLACE.replace("    reshape: {RESHAPE}\n", "")))
    assert not config.reshapes
    assert not config.needs_controller


@pytest.mark.parametrize(
    ("text", "path", "problem"),
    [
        (IN_PLACE.replace("RESHAPE", "mode: act"), "models[0].reshape.mode", "advise"),
        (IN_PLACE.replace("RESHAPE", "webhook: ops.example"), "models[0].reshape.webhook", "http://"),
        (IN_PLACE.replace("RESHAPE", "margin: 0"), "models[0].reshape.margin", "1"),
        (
            IN_PLACE.replace("RESHAPE", "").replace("engine: simulated", "engine: trtllm_grpc"),
            "models[0].reshape",
            "others say nothing of their GPUs",
        ),
        (GROUPS.replace("group_gpus: 2", "group_gpus: 3"), "pools[0].group_gpus", "a power of two of GPUs, not 3"),
        (GROUPS.replace("    reshape: {}\n", ""), "pools[0].group_gpus", "the model has no `reshape`"),
        (
            GROUPS.replace("p, engine: simulated", "p, engine: tensorrt_llm"),
            "pools[0].group_gpus",
            "tensorrt_llm cannot change its shape in place",
        ),
        (
            GROUPS.replace("registered, launcher: local, group_gpus: 2, scaling: {min: 0, max: 4}", "2, group_gpus: 2"),
            "pools[0].group_gpus",
            "only for replicas that launcher: local starts",
        ),
        (
            GROUPS.replace("group_gpus: 2", "group_gpus: 2, shape: {tp: 2}").replace("max: 4", "max: 2"),
            "pools[0].shape",
            "start with one GPU each",
        ),
        (
            GROUPS.replace("local, scaling: {min: 0, max: 2}", "local, group_gpus: 2, scaling: {min: 0, max: 4}"),
            "launchers.local.gpus",
            "all pools at their min, and those with group_gpus at their max, need 8 GPUs, and there are 6",
        ),
        (GROUPS.replace("launchers: {local: {gpus: [2, 3, 4, 5, 6, 7]}}\n", ""), "launchers.local.gpus", "required"),
        (GROUPS.replace("max: 4", "max: 3"), "pools[0].scaling.max", "must be a multiple of group_gpus (2), got 3"),
        (GROUPS.replace("max: 4", "max: 8"), "pools[0].scaling.max", "needs 8 GPUs, and launchers.local.gpus has 6"),
        (
            GROUPS.replace("max: 2", "max: 3"),
            "pools[1].scaling.max",
            "needs 3 GPUs, and launchers.local.gpus has 6, 4 of them kept for pools with group_gpus",
        ),
        (
            GROUPS.replace("max: 4", "max: 4, spot_max: 2, spot_price_per_hour: 1"),
            "pools[0].scaling.spot_max",
            "shares no GPUs with others",
        ),
        (
            GROUPS.replace("group_gpus: 2", 'replica_arguments: ["--gpu", "1"]'),
            "pools[0].replica_arguments[0]",
            "the gateway itself gives --gpu",
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
