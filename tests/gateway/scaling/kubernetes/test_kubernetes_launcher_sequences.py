"""Whatever happens to controllers and pods: no order has two pods, and none is lost."""

import contextlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.scaling.kubernetes.kubernetes_launcher import KubernetesLauncher
from tests.gateway.scaling.kubernetes.world import Killed, bound_pod, seen, world
from tests.launched import order
from tests.loops import bounded
from tests.played_workloads import FAILED, READY, pods, set_status


@pytest.mark.parametrize("answered", [False, True])
async def test_whoever_is_killed_at_any_call_has_another_go_on(tmp_path: Path, answered: bool) -> None:
    """Start two, end one: at each call of the one, another launcher takes over and is asked for the same."""
    for number in range(40):
        folder = tmp_path / f"{number}"
        folder.mkdir()
        async with world(folder) as here:
            doomed, other = here.launcher((number, answered)), here.launcher()
            works: Sequence[Callable[[KubernetesLauncher], Any]] = (
                lambda one: one.start([order("a"), order("b")]),
                lambda one: one.observe(),
                lambda one: one.stop(["a"], 0.0),
                lambda one: one.start([order("c")]),
            )
            died, acting = False, doomed
            for work in works:
                try:
                    await work(acting)
                except Killed:
                    died, acting = True, other
                    await work(acting)
            here.now += 5.0
            await seen(other)
            found = await seen(other)
            assert set(found) == {"b", "c"}, number
            names = [bound_pod(here.cluster, one) for one in found.values()]
            assert sorted(names) == pods(here.cluster), number
            if not died:
                return
    pytest.fail("it makes more calls than were tried")


Step = tuple[str, int, bool, int]


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["start", "stop", "observe", "ready", "delete", "fail", "slow", "again"]),
            st.integers(0, 7),
            st.booleans(),
            st.integers(0, 30),
        ),
        max_size=25,
    ),
    st.sampled_from(["deployment", "leaderworkerset"]),
)
def test_no_order_has_two_pods_and_none_is_lost(
    tmp_path_factory: pytest.TempPathFactory, steps: list[Step], kind: str
) -> None:
    folder = tmp_path_factory.mktemp("cluster")

    async def run() -> None:
        async with world(folder, kind) as here:
            wanted: set[str] = set()
            ever: set[str] = set()
            launchers = [here.launcher(), here.launcher()]
            for what, number, which, dies in steps:
                launcher = here.launcher((dies, which)) if what == "again" else launchers[which]
                here.now += 1.0
                with contextlib.suppress(Killed):
                    if what in ("start", "again"):
                        id_ = f"r{number}"
                        wanted |= {id_} - (ever - wanted)
                        ever.add(id_)
                        await launcher.start([order(id_)])
                    elif what == "stop":
                        wanted.discard(f"r{number}")
                        await launcher.stop([f"r{number}"], 0.0)
                    elif what == "observe":
                        await launcher.observe()
                    elif what == "slow":
                        here.played.is_slow = which
                    elif names := pods(here.cluster):
                        name = names[number % len(names)]
                        if what == "delete":
                            here.cluster.remove("pods", name)
                        else:
                            set_status(here.cluster, name, READY if what == "ready" else FAILED)
            here.played.is_slow = False
            here.cluster.put(f"{kind}s", dict(here.cluster.objects[f"{kind}s", "w"]))
            for id_ in sorted(wanted):
                await launchers[0].start([order(id_)])
            for _ in range(3):
                here.now += 5.0
                found = await seen(launchers[0])
            shown_pods = [bound_pod(here.cluster, one) for one in found.values()]
            living = [name for name in shown_pods if name in pods(here.cluster)]
            assert len(set(living)) == len(living)
            # Every pod is somebody's, and there are as many as the scale says.
            assert sorted(living) == pods(here.cluster)
            assert len(living) == here.cluster.objects[f"{kind}s", "w"]["spec"]["replicas"]
            # What was ordered is there, or has failed and is shown; what was ended is not.
            assert wanted <= found.keys()
            assert not (ever - wanted) & found.keys()

    bounded(run)
