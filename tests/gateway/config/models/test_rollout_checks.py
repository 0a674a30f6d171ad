from pathlib import Path

import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config

VERSIONED = """\
models:
  - name: m
    tokenizer: mistral-tekken
    context: 4096
    pools:
      - {name: a, engine: simulated, replicas: 1, version: v1}
      - {name: b, engine: simulated, replicas: 1, version: v2}
"""
PLAIN = VERSIONED.replace(", version: v1", "").replace(", version: v2", "")
REGISTERED = VERSIONED.replace("replicas: 1, version: v1", "replicas: registered").replace(
    "replicas: 1, version: v2", "replicas: registered"
)


def loaded(folder: Path, text: str, rollout: str = "") -> Path:
    path = folder / "penstock.yaml"
    path.write_text(text + (f"rollouts:\n  - {rollout}\n" if rollout else ""), encoding="utf-8")
    return path


def refusal(folder: Path, text: str, rollout: str = "") -> str:
    path = loaded(folder, text, rollout)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    return str(caught.value).removeprefix(f"{path}: ")


@pytest.mark.parametrize(
    ("rollout", "said"),
    [
        ("{model: x, to: v2}", 'rollouts[0].model: there is no model "x"; there are m'),
        ("{model: m, to: v9}", 'rollouts[0].to: the model has no version "v9"; its pools have v1, v2'),
        ("{model: m, to: v1}", 'rollouts[0].to: the version "v1" is the stable one'),
        ("{model: m, to: v2}\n  - {model: m, to: v2}", 'rollouts[1].model: "m" is already taken by rollouts[0].model'),
        ("{model: m, to: v2, stages: [0.1, 1.5]}", "rollouts[0].stages[1]: expected float <= 1.0, got 1.5"),
        ("{model: m, to: v2, stages: [0.5, 0.1, 1]}", "rollouts[0].stages[1]: stages must rise, got 0.1 after 0.5"),
        ("{model: m, to: v2, stages: [0.1]}", "rollouts[0].stages[0]: the last stage must be 1, got 0.1"),
        ("{model: m, to: v2, plan: shadow, stages: [1]}", "rollouts[0].stages: a shadow answers no client"),
        ("{model: m, to: v2, plan: ab, stages: [0.1, 0.5]}", "rollouts[0].stages: an A/B test keeps one share, got 2"),
        ("{model: m, to: v2, plan: ab}", "rollouts[0].goal: required: an A/B test is about one measure"),
        ("{model: m, to: v2, goal: {measure: ttft}}", "rollouts[0].goal: only for the plan ab, not canary"),
        (
            "{model: m, to: v2, bounds: {error_rate: -1}}",
            "rollouts[0].bounds.error_rate: expected float >= 0.0, got -1",
        ),
        (
            "{model: m, to: v2, bounds: {p99_ratio: 0.5}}",
            "rollouts[0].bounds.p99_ratio: expected float >= 1.0, got 0.5",
        ),
        ("{model: m, to: v2, split: {by: header}}", "rollouts[0].split.header: required: `by: header` needs"),
        ("{model: m, to: v2, split: {header: x}}", "rollouts[0].split.header: only for `by: header`"),
        ("{model: m, to: v2, split: {tiers: [lead]}}", 'rollouts[0].split.tiers[0]: there is no tier "lead"'),
        ("{model: m, to: v2, split: {tenants: [a, a]}}", 'rollouts[0].split.tenants[1]: "a" is already in the list'),
        ("{model: m, to: v2, shadow: {similarity: embeddings}}", "rollouts[0].shadow.embeddings: required"),
        ("{model: m, to: v2, webhook: nowhere}", "rollouts[0].webhook: expected an address that starts with http://"),
    ],
)
def test_refusals_name_the_place(tmp_path: Path, rollout: str, said: str) -> None:
    assert refusal(tmp_path, VERSIONED, rollout).startswith(said)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    pools:", "    stable: v9\n    pools:", 'models[0].stable: the model has no version "v9"'),
        (", version: v1", "", "models[0].stable: required: the first pool names no version, and others name several"),
        ("    pools:", "    versions: {v9: {}}\n    pools:", 'models[0].versions.v9: the model has no version "v9"'),
    ],
)
def test_refusals_of_versions_name_the_place(tmp_path: Path, old: str, new: str, said: str) -> None:
    text = VERSIONED.replace(old, new, 1) + "      - {name: c, engine: simulated, replicas: 1, version: v3}\n"
    assert refusal(tmp_path, text).startswith(said)


def test_replicas_that_say_no_version_need_their_pools(tmp_path: Path) -> None:
    text = PLAIN.replace("    pools:", "    stable: v1\n    pools:")
    assert refusal(tmp_path, text).startswith("models[0].pools[0].version: required: requests of this model go by")


def test_only_a_model_with_versions_has_a_rollout(tmp_path: Path) -> None:
    said = refusal(tmp_path, PLAIN, "{model: m, to: v2}")
    assert said.startswith("rollouts[0].model: its requests do not go by version: the model needs `stable`")


def test_versions_of_registered_replicas_may_come_later(tmp_path: Path) -> None:
    text = REGISTERED.replace("    pools:", "    stable: v1\n    pools:")
    config = load_config(loaded(tmp_path, text, "{model: m, to: v2, gates: {golden: golden.jsonl}, plan: gates}"))
    assert config.models[0].stable_version == "v1"
    (rollout,) = config.rollouts
    assert rollout.gates.golden == str(tmp_path / "golden.jsonl")
    assert rollout.shares == (0.1, 0.25, 0.5, 0.75, 1.0)


def test_a_model_whose_pools_name_one_version_does_not_go_by_version(tmp_path: Path) -> None:
    (model,) = load_config(loaded(tmp_path, VERSIONED.replace("v2", "v1"))).models
    assert (model.names_versions, model.stable_version) == (False, "")
    (model,) = load_config(loaded(tmp_path, VERSIONED)).models
    assert (model.names_versions, model.stable_version) == (True, "v1")
