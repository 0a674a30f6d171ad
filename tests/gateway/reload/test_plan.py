"""What a changed configuration does to the models, and what needs a restart."""

from typing import Any

import pytest
from hypothesis import given

from gateway.config.models.settings import Model
from gateway.config.settings import Config
from gateway.reload.plan import Fate, Plan, fate_of, plan
from tests.gateway.reload.configs import BASE, CONFIGS, base, config_of, far

NEAR = BASE["models"][1]


def pools(**fields: Any) -> dict[str, Any]:
    return {"pools": [{**BASE["models"][0]["pools"][0], **fields}]}


@pytest.mark.parametrize(
    ("fields", "fate"),
    [
        ({}, Fate.SAME),
        ({"price": {"input": 1, "output": 2}}, Fate.ADJUSTED),
        ({"fallbacks": {"models": ["near"]}}, Fate.ADJUSTED),
        ({"aliases": ["x"]}, Fate.ADJUSTED),
        ({"context": 2000}, Fate.REBUILT),
        ({"routing": {"policy": "least_load"}}, Fate.REBUILT),
        ({"routing": {"policy": "least_load"}, "price": {"input": 1, "output": 1}}, Fate.REBUILT),
        (pools(replicas=["grpc://a:1"]), Fate.ADJUSTED),
        (pools(replicas=["grpc://a:1", "grpc://b:1", "grpc://c:1"]), Fate.ADJUSTED),
        (pools(replicas=["grpc://b:1", "grpc://a:1"]), Fate.REBUILT),
        (pools(replicas=["grpc://b:1"]), Fate.REBUILT),
        (pools(replicas="registered"), Fate.REBUILT),
        (pools(replicas=["grpc://a:1", "grpc+dns://b:1"]), Fate.REBUILT),
        (pools(version="2"), Fate.REBUILT),
        (pools(channels=2), Fate.REBUILT),
        ({"pools": [*pools()["pools"], {**pools()["pools"][0], "name": "more"}]}, Fate.REBUILT),
    ],
)
def test_the_fate_of_a_model(fields: dict[str, Any], fate: Fate) -> None:
    found = plan(base(), far(**fields))
    assert found.fates == {"far": fate, "near": Fate.SAME}
    assert not found.restart


def test_the_first_model_that_goes_by_version_needs_a_controller_which_starts_with_the_gateway() -> None:
    versions = {"stable": "v1", **pools(version="v1")}
    paths = {change.shown_path for change in plan(base(), far(**versions)).restart}
    assert paths == {"models[far].stable", "models[far].pools[pool].version"}
    one = far(**versions)
    # Whatever else changes, and a rollout that begins, is taken.
    later = config_of({**BASE, "models": [{**BASE["models"][0], **versions, "aliases": ["x"]}, NEAR]})
    assert not plan(one, later).restart


def test_shapes_are_changed_by_other_settings_and_their_first_or_last_ones_need_a_restart() -> None:
    shown = {change.shown_path for change in plan(base(), far(reshape={"mode": "apply"})).restart}
    assert shown == {"models[far].reshape"}
    one = far(reshape={"mode": "apply"})
    other = plan(one, far(reshape={"mode": "advise", "margin": 3}))
    assert (other.restart, other.fates["far"]) == ([], Fate.ADJUSTED)
    assert plan(one, base()).restart


def test_models_come_and_go() -> None:
    one = base(models=BASE["models"][:1])
    assert plan(one, far(price=None)).fates == {"far": Fate.SAME, "near": Fate.ADDED}
    other = base(models=[{**BASE["models"][0], "name": "other"}])
    assert plan(one, other).fates == {"other": Fate.ADDED, "far": Fate.REMOVED}
    assert not plan(one, other).restart


@pytest.mark.parametrize(
    ("sections", "path"),
    [
        ({"listen": {"port": 1}}, "listen.port"),
        ({"listen": {"port": 8080, "workers": 3}}, "listen.workers"),
        ({"state": "elsewhere"}, "state"),
        ({"store": {"url": "redis://other"}}, "store.url"),
        ({"auth": {"key_cache_size": 5}}, "auth.key_cache_size"),
        ({"admin": {"port": 1}}, "admin.port"),
        ({"observability": {"logs": {"requests": "all"}}}, "observability.logs.requests"),
        ({"admission": {"watermark": 0.5}}, "admission.watermark"),
        ({"tiers": [{"name": "only"}]}, "tiers"),
    ],
)
def test_what_needs_a_restart_is_named(sections: dict[str, Any], path: str) -> None:
    found = plan(base(), base(**sections))
    assert found.restart
    assert all(change.shown_path.startswith(path) for change in found.restart)


@pytest.mark.parametrize(
    "sections",
    [
        {"tenants": [{"name": "acme", "limits": {"rpm": 1}}]},
        {"tenants": []},
        {"safety": {"input": ["pii"]}},
        {"models": [BASE["models"][0], {**NEAR, "price": {"input": 1, "output": 1}}]},
        {"models": [BASE["models"][0], {**NEAR, "routing": {"policy": "least_load"}}]},
        {"models": [BASE["models"][0], {**NEAR, "context": 2000}]},
        {"models": [BASE["models"][0], {**NEAR, "pools": [{**NEAR["pools"][0], "replicas": 3}]}]},
        {"models": BASE["models"][:1]},
        {"models": BASE["models"][::-1]},
    ],
)
def test_what_needs_none(sections: dict[str, Any]) -> None:
    found = plan(base(), base(**sections))
    assert found.changes
    assert not found.restart


def test_tiers_may_change_their_weights_and_not_their_places() -> None:
    tiers = [{"name": "gold", "weight": 4}, {"name": "rest"}]
    before = base(tiers=tiers)
    assert not plan(before, base(tiers=[{"name": "gold", "weight": 8}, {"name": "rest"}])).restart
    assert plan(before, base(tiers=tiers[::-1])).restart
    assert plan(before, base(tiers=[*tiers, {"name": "more"}])).restart


def test_what_a_controller_sizes_needs_a_restart_but_for_what_requests_look_up() -> None:
    scaled: dict[str, Any] = {
        "name": "s",
        "context": 1000,
        "tokenizer": "mistral-tekken",
        "pools": [
            {
                "name": "pool",
                "engine": "simulated",
                "replicas": "registered",
                "launcher": "local",
                "scaling": {"min": 0, "max": 2},
            }
        ],
    }
    before = config_of({"models": [scaled]})

    def changed(pool: dict[str, Any], **fields: Any) -> Plan:
        return plan(before, config_of({"models": [{**scaled, **fields, "pools": [{**scaled["pools"][0], **pool}]}]}))

    for found in (
        changed({"scaling": {"min": 1, "max": 3}}),
        changed({}, price={"input": 1, "output": 1}),
        changed({}, scaling={"budget_per_hour": 5, "in_time": 0.9}),
    ):
        assert found.fates == {"s": Fate.ADJUSTED}
        assert not found.restart
    for found in (
        changed({"replica_arguments": ["--x", "1"]}),
        changed({"launcher": "command"}),
        changed({"version": "2"}),
        changed({}, scaling={"wait_seconds": 5}),
        changed({}, scaling={"mode": "advise"}),
        changed({}, context=2000),
        changed({}, name="other"),
        plan(before, base()),
        plan(base(), before),
    ):
        assert found.restart


def test_gpus_that_a_launcher_keeps_for_groups_need_a_restart() -> None:
    def groups(most: int, least: int = 0) -> Config:
        pool = {"name": "p", "engine": "simulated", "replicas": "registered", "launcher": "local", "group_gpus": 2}
        pools = [{**pool, "scaling": {"min": least, "max": most}}]
        model = {"name": "s", "context": 1000, "tokenizer": "mistral-tekken", "reshape": {}, "pools": pools}
        return config_of({"models": [model], "launchers": {"local": {"gpus": [0, 1, 2, 3]}}})

    assert not plan(groups(2), groups(2, least=1)).restart
    assert plan(groups(2), groups(4)).restart


@given(CONFIGS, CONFIGS)
def test_every_model_has_a_fate_and_equal_ones_stay(before: Config, after: Config) -> None:
    olds, news = ({model.name: model for model in config.models} for config in (before, after))
    fates = plan(before, after).fates
    assert fates.keys() == olds.keys() | news.keys()
    for name, fate in fates.items():
        old, new = olds.get(name), news.get(name)
        assert (fate is Fate.ADDED) == (old is None)
        assert (fate is Fate.REMOVED) == (new is None)
        assert (fate is Fate.SAME) == (old == new)


@given(CONFIGS, CONFIGS)
def test_replicas_of_an_adjusted_model_keep_their_places(before: Config, after: Config) -> None:
    for old in before.models:
        for new in after.models:
            if fate_of(old, new) is Fate.ADJUSTED and old.name == new.name:
                for one, other in zip(_places(old), _places(new), strict=True):
                    assert all(map(str.__eq__, one, other))


def _places(model: Model) -> list[tuple[str, ...]]:
    return [pool.addresses for pool in model.pools]
