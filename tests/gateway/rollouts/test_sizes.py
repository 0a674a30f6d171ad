from typing import Any

import msgspec
import pytest

from gateway.config.models.settings import Model, Pool
from gateway.config.settings import Config
from gateway.rollouts.sizes import sizes_of
from gateway.scaling.version_sizes import VersionSizes
from routing.rollouts.facts import ReplicaFacts, VersionFacts
from routing.rollouts.rollout import Phase
from tests.routing.rollouts.test_stages import begun


def model() -> Model:
    def pool(name: str, version: str, most: int) -> dict[str, Any]:
        scaling = {"min": 1, "max": most}
        return {
            "name": name,
            "engine": "simulated",
            "replicas": "registered",
            "launcher": "local",
            "version": version,
            "scaling": scaling,
        }

    pools = [pool("old", "v1", 8), pool("new", "v2", 3), pool("more", "v2", 8), pool("older", "v0", 4)]
    config = {"models": [{"name": "m", "tokenizer": "t", "context": 9, "stable": "v1", "pools": pools}]}
    return msgspec.convert(config, Config).models[0]


def ready(pool: str, count: int) -> VersionFacts:
    return VersionFacts(
        replicas=[ReplicaFacts(id=f"{pool}/{n}", pool=pool, address="a", ready=True) for n in range(count)]
    )


def test_without_a_rollout_only_the_stable_version_runs() -> None:
    sizes = sizes_of(model(), "v1", None, ready("old", 4), VersionFacts())
    assert sizes == VersionSizes(set={"new": 0, "more": 0, "older": 0}, least={"old": 0})


@pytest.mark.parametrize(
    ("phase", "surge", "sizes"),
    [
        ("preparing", None, {"new": 3, "more": 2}),
        ("preparing", 2, {"new": 1, "more": 0}),
        ("shifting", 2, {"new": 2, "more": 0}),
        ("promoting", 2, {"new": 3, "more": 0}),
        ("promoting", None, {"new": 3, "more": 2}),
    ],
)
def test_a_candidate_has_what_it_needs_and_the_stable_version_what_it_had(
    phase: Phase, surge: int | None, sizes: dict[str, int]
) -> None:
    rollout = msgspec.structs.replace(begun(surge=surge), phase=phase, size=5)
    found = sizes_of(model(), "v1", rollout, ready("old", 5), ready("new", 1))
    assert found == VersionSizes(set={"older": 0} | sizes, least={"old": 5})


def test_the_version_that_is_left_keeps_its_replicas_until_its_requests_have_ended() -> None:
    rollout = msgspec.structs.replace(begun(), phase="rolling_back", size=5)
    found = sizes_of(model(), "v1", rollout, ready("old", 5), ready("new", 2))
    assert found == VersionSizes(set={"older": 0, "new": 2, "more": 0}, least={"old": 5})
    promoted = msgspec.structs.replace(rollout, phase="draining", promoted=True)
    found = sizes_of(model(), "v2", promoted, ready("old", 4), ready("new", 3))
    assert found == VersionSizes(set={"older": 0, "old": 4}, least={"new": 3, "more": 2})
    done = msgspec.structs.replace(promoted, phase="done")
    found = sizes_of(model(), "v2", done, ready("old", 4), ready("new", 3))
    assert found == VersionSizes(set={"old": 0, "older": 0}, least={"new": 0, "more": 0})


@pytest.mark.parametrize(
    ("stable", "sizes"),
    [
        # As it was, the candidate, and another one altogether.
        ("v1", VersionSizes(set={"older": 0, "new": 1, "more": 0}, least={"old": 4})),
        ("v2", VersionSizes(set={"older": 0, "old": 4}, least={"new": 3, "more": 1})),
        ("v0", VersionSizes(set={"old": 4, "new": 1, "more": 0}, least={"older": 4})),
    ],
)
def test_what_the_file_makes_stable_under_a_rollout_has_its_replicas(stable: str, sizes: VersionSizes) -> None:
    back = msgspec.structs.replace(begun(), phase="rolling_back", size=4)
    assert sizes_of(model(), stable, back, ready("old", 4), ready("new", 1)) == sizes


@pytest.mark.parametrize(
    ("phase", "surge", "size", "sizes"),
    [
        ("preparing", None, 8, {"p2": 2, "d2": 6}),
        ("preparing", 2, 8, {"p2": 1, "d2": 1}),
        ("shifting", None, 1, {"p2": 1, "d2": 1}),
        ("promoting", None, 8, {"p2": 2, "d2": 6}),
    ],
)
def test_a_candidate_has_replicas_of_both_phases_as_the_stable_version_has(
    phase: Phase, surge: int | None, size: int, sizes: dict[str, int]
) -> None:
    def pool(name: str, role: str, version: str) -> dict[str, Any]:
        fixed = {"engine": "simulated", "replicas": "registered", "launcher": "local", "scaling": {"min": 1, "max": 8}}
        return {"name": name, "role": role, "version": version, **fixed}

    pairs = [pool(f"{role[0]}{number}", role, f"v{number}") for number in (1, 2) for role in ("prefill", "decode")]
    one = msgspec.structs.replace(model(), pools=msgspec.convert(pairs, tuple[Pool, ...]))
    stable = VersionFacts(replicas=[*ready("p1", 2).replicas, *ready("d1", 6).replicas])
    rollout = msgspec.structs.replace(begun(surge=surge), phase=phase, size=size)
    found = sizes_of(one, "v1", rollout, stable, VersionFacts())
    assert found.set == sizes
    if size == 8:
        assert found.least == {"p1": 2, "d1": 6}
        promoted = msgspec.structs.replace(rollout, phase="draining", promoted=True)
        candidate = VersionFacts(replicas=[*ready("p2", 2).replicas, *ready("d2", 6).replicas])
        found = sizes_of(one, "v2", promoted, stable, candidate)
        assert found == VersionSizes(set={"p1": 2, "d1": 6}, least={"p2": 2, "d2": 6})
