"""Routing in the configuration file: what goes with what, and the heatmap behind it."""

from pathlib import Path

import msgspec
import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.models.routing import USED_BY, PolicyName
from gateway.config.models.routing_checks import routing_problems
from gateway.config.models.settings import Model, Pool
from gateway.models.routing_settings import policy_settings
from gateway.server.machine_checks import resolve
from protos.types import Role, Shape
from routing.contracts.heatmap import Comparison, HeatmapFile, save_heatmap
from routing.contracts.policy_settings import PolicySettings, Targets, Tier
from routing.policies import POLICIES

WIDE = "{name: wide, shape: {tp: 8}, engine: simulated, replicas: 1}"
NARROW = "{name: narrow, shape: {tp: 2}, engine: simulated, replicas: 4}"
PREFILL = "{name: pre, shape: {tp: 4}, role: prefill, engine: simulated, replicas: 1}"
DECODE = "{name: dec, shape: {tp: 4}, role: decode, engine: simulated, replicas: 1}"
COLOCATED = f"{WIDE}, {NARROW}"
MIXED = f"{WIDE}, {PREFILL}, {DECODE}"


def written(folder: Path, routing: str, pools: str = COLOCATED, name: str = "m") -> Path:
    path = folder / "penstock.yaml"
    path.write_text(
        f"models: [{{name: {name}, tokenizer: t, context: 4096, routing: {{{routing}}}, pools: [{pools}]}}]"
    )
    return path


def model_of(folder: Path, routing: str, pools: str = COLOCATED) -> Model:
    return load_config(written(folder, routing, pools)).models[0]


def heat(folder: Path, model: str = "m", tp: int = 8) -> Path:
    comparison = Comparison(Shape(tp=tp), Shape(tp=4), Shape(tp=4), ((0.5,),), ((1.0,),))
    path = folder / "heat.json"
    save_heatmap(HeatmapFile("penstock-heatmap", 1, model, (1.0,), (100,), (1.0,), (comparison,)), path)
    return path


def test_every_policy_can_be_configured() -> None:
    names = set(msgspec.json.schema(PolicyName)["enum"])
    assert set(POLICIES) | {"auto"} == names
    assert {policy for policies in USED_BY.values() for policy in policies} <= names


@pytest.mark.parametrize(
    ("routing", "pools", "said"),
    [
        (
            "policy: fastest",
            COLOCATED,
            "routing.policy: expected auto or combined or concurrency or least_load or ",
        ),
        (
            "policy: prefix, heatmap: h.json",
            COLOCATED,
            "routing.heatmap: only for pd_heatmap and combined, and the ",
        ),
        ("threshold: 8", COLOCATED, "routing.threshold: only for concurrency, and the policy is auto"),
        (
            "policy: prefix, tiers: [{pools: [wide], below: 8}, {pools: [narrow]}]",
            COLOCATED,
            "routing.tiers: only for concurrency",
        ),
        ("policy: prefix, long_context_tokens: 5", COLOCATED, "routing.long_context_tokens: only for long_context"),
        (
            "policy: long_context, long_context_tokens: 5000000",
            COLOCATED,
            "routing.long_context_tokens: must be at most the context, ",
        ),
        ("policy: prefix, targets: {ttft_ms: 5}", COLOCATED, "routing.targets: only for auto"),
        ("policy: concurrency, tiers: [{pools: [wide]}]", COLOCATED, "routing.tiers: one tier is none"),
        (
            "policy: concurrency, tiers: [{pools: [wide]}, {pools: [narrow]}]",
            COLOCATED,
            "routing.tiers[0].below: required for every tier but the last one",
        ),
        (
            "policy: concurrency, tiers: [{pools: [wide], below: 8}, {pools: [narrow], below: 9}]",
            COLOCATED,
            "routing.tiers[1].below: the last tier has no bound, got 9",
        ),
        (
            "policy: concurrency, tiers: [{pools: [wide], below: 8}, {pools: [wide], below: 8}, {pools: [narrow]}]",
            COLOCATED,
            "routing.tiers[1].below: must be above the tier's before, 8, got 8",
        ),
        (
            "policy: concurrency, tiers: [{pools: [wide, x], below: 8}, {pools: [narrow]}]",
            COLOCATED,
            'routing.tiers[0].pools[1]: the model has no pool "x"; it has narrow, wide',
        ),
        (
            "policy: concurrency, threshold: 9, tiers: [{pools: [wide], below: 8}, {pools: [narrow]}]",
            COLOCATED,
            "routing.threshold: the tiers have bounds of their own",
        ),
        (
            "policy: concurrency, threshold: learned, tiers: [{pools: [wide], below: 8}, {pools: [narrow]}]",
            COLOCATED,
            "routing.tiers[0].below: the bounds are learned, got 8",
        ),
        ("policy: concurrency, threshold: many", COLOCATED, "routing.threshold: "),
        (
            "policy: pd_heatmap, heatmap: h.json",
            COLOCATED,
            "routing.policy: pd_heatmap chooses between pairs and replicas of the role both, and the model has no "
            "prefill and decode pools",
        ),
        (
            "policy: pd_heatmap, heatmap: h.json",
            f"{PREFILL}, {DECODE}",
            "routing.policy: pd_heatmap chooses between pairs and replicas of the role both, and the model has no "
            "pools",
        ),
        ("policy: pd_heatmap", MIXED, "routing.heatmap: required by pd_heatmap"),
        ("policy: combined", MIXED, "routing.heatmap: required by combined"),
        (
            "policy: combined, heatmap: h.json",
            COLOCATED,
            "routing.heatmap: of no use without both pairs and pools",
        ),
        ("policy: auto", PREFILL, "pools[0].role: a prefill pool needs a decode pool, and the model has none"),
        ("policy: auto", f"{WIDE}, {DECODE}", "pools[1].role: a decode pool needs a prefill pool, and the model has"),
        ("policy: auto, targets: {tpot_ms: 0}", COLOCATED, "routing.targets.tpot_ms: expected float > 0"),
    ],
)
def test_what_contradicts_itself_is_refused(tmp_path: Path, routing: str, pools: str, said: str) -> None:
    path = written(tmp_path, routing, pools)
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    assert str(caught.value).startswith(f"{path}: models[0].{said}")


def test_pairs_of_two_engines_are_refused(tmp_path: Path) -> None:
    model = model_of(tmp_path, "policy: auto", f"{PREFILL}, {DECODE}")
    other = Pool(name="other", engine="tensorrt_llm", replicas=("unix:/d",), role=Role.DECODE)
    mixed = msgspec.structs.replace(model, pools=(*model.pools, other))
    assert list(routing_problems(mixed, "models[0]")) == [
        (
            "models[0].pools[2].engine",
            'prefill and decode pools hand KV to each other and need one engine: pools[0] has "simulated", this one '
            '"tensorrt_llm"',
        )
    ]


@pytest.mark.parametrize("pools", [f"{PREFILL}, {DECODE}", MIXED])
@pytest.mark.parametrize("policy", ["auto", "least_load", "prefix", "concurrency"])
def test_pools_of_one_role_are_fine_in_pairs(tmp_path: Path, pools: str, policy: str) -> None:
    assert [pool.role for pool in model_of(tmp_path, f"policy: {policy}", pools).pools][-1] is Role.DECODE


def test_settings_reach_the_policy(tmp_path: Path) -> None:
    assert policy_settings(model_of(tmp_path, "")) == PolicySettings()
    tiers = "policy: concurrency, tiers: [{pools: [wide], below: 8}, {pools: [narrow, wide]}]"
    assert policy_settings(model_of(tmp_path, tiers)).tiers == (
        Tier(frozenset({"wide"}), 8),
        Tier(frozenset({"narrow", "wide"})),
    )
    assert policy_settings(model_of(tmp_path, "policy: concurrency, threshold: 8")).threshold == 8
    learned = policy_settings(model_of(tmp_path, "policy: concurrency, threshold: learned"))
    assert (learned.learned, learned.threshold) == (True, 64)
    assert (
        policy_settings(model_of(tmp_path, "policy: long_context, long_context_tokens: 99")).long_context_tokens == 99
    )
    targets = "policy: auto, targets: {ttft_ms: 500, ttft_per_token_ms: 1, tpot_ms: 20}"
    assert policy_settings(model_of(tmp_path, targets)).targets == Targets(ttft_ms=500, ttft_per_token_ms=1, tpot_ms=20)


def test_a_heatmap_is_found_beside_the_file_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, "policy: pd_heatmap, heatmap: ./heat.json", MIXED)
    file = heat(tmp_path)
    monkeypatch.chdir("/")
    config = load_config(path)
    assert config.models[0].routing.heatmap_path == file
    resolve(config, "c.yaml", {"t"})
    settings = policy_settings(config.models[0])
    assert settings.heatmap is not None
    assert settings.heatmap.gain(Shape(tp=8), Shape(tp=4), Shape(tp=4), 100, 100) == 0.5
    for name in ("pd_heatmap", "combined"):
        POLICIES[name](settings)


def test_a_heatmap_may_be_of_the_imitated_model(tmp_path: Path) -> None:
    heat(tmp_path, model="mixtral-8x7b")
    imitating = MIXED.replace("replicas: 1}", "replicas: 1, simulated: {profile: mixtral-8x7b}}")
    config = load_config(written(tmp_path, "policy: combined, heatmap: heat.json", imitating))
    resolve(config, "c.yaml", {"t"})


@pytest.mark.parametrize(
    ("model", "tp", "said"),
    [
        ("other", 8, "model: it was made for other, and this model is m"),
        ("m", 2, "comparisons: tp=8 colocated with tp=4 prefill and tp=4 decode is missing"),
    ],
)
def test_a_heatmap_of_something_else_is_refused(tmp_path: Path, model: str, tp: int, said: str) -> None:
    path = heat(tmp_path, model, tp)
    config = load_config(written(tmp_path, "policy: pd_heatmap, heatmap: heat.json", MIXED))
    with pytest.raises(ConfigError) as caught:
        resolve(config, "c.yaml", {"t"})
    assert str(caught.value) == f"c.yaml: models[0].routing.heatmap: {path}: {said}"


def test_all_shapes_of_the_fleet_must_have_been_compared(tmp_path: Path) -> None:
    heat(tmp_path)
    more = MIXED + ", {name: ep, shape: {tp: 8, ep: 2}, engine: simulated, replicas: 1}, " + NARROW
    config = load_config(written(tmp_path, "policy: pd_heatmap, heatmap: heat.json", more))
    with pytest.raises(ConfigError, match=r"tp=8:ep=2 colocated with .* is missing \(and 1 more\)"):
        resolve(config, "c.yaml", {"t"})


def test_a_heatmap_that_is_not_there_is_refused(tmp_path: Path) -> None:
    config = load_config(written(tmp_path, "policy: pd_heatmap, heatmap: heat.json", MIXED))
    with pytest.raises(ConfigError, match=r"models\[0\]\.routing\.heatmap: .*heat\.json: cannot be read"):
        resolve(config, "c.yaml", {"t"})
