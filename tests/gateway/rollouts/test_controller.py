import msgspec
import pytest

from protos.errors import Conflict, InvalidRequest, RolloutNotFound
from routing.rollouts.facts import Compared
from routing.rollouts.rollout import STATUS, Rollout
from routing.rollouts.settings import Rollout as Settings
from tests.gateway.rollouts.worlds import World, causes, config_of, of, rollout_world, shares

TO_V2 = Settings(model="m", to="v2", hold_seconds=2, min_requests=50)
WORSE = Compared(kind="worse", reason="2.1 % of its answers failed.", bound=True)


async def begin(world: World, settings: Settings = TO_V2) -> None:
    await world.say()
    await world.registry.start(settings, "cli:me")


async def test_a_good_candidate_goes_through_all_stages_and_is_stable(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        done = await world.until(one, "done")
        assert done.promoted
        events = await world.events()
        assert shares(events) == [0.0, 0.1, 0.25, 0.5, 0.75, 1.0, 0.0]
        assert causes(events) == ["started", "ready", "warm", *["held"] * 5, "promoted", "drained"]
        assert world.asked == ["new/0", "new/1"]
        split = await world.split()
        assert (split.stable, split.candidate, split.share) == ("v2", "", 0.0)
        (model,) = await world.registry.models()
        assert (model.stable, model.totals.promoted) == ("v2", 1)


async def test_each_stage_lasts_its_time_and_has_its_requests(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world, msgspec.structs.replace(TO_V2, hold_seconds=5, min_requests=500))
        begun = (await world.until(one, "shifting")).since
        assert (await world.split()).share == 0.1
        while (await world.split()).share == 0.1:
            await world.round(one)
        # Fifty requests come with each round.
        assert world.now - begun >= 10.0
        assert of(await world.events())["shifting"].requests >= 500


@pytest.mark.parametrize("phase", ["shifting", "holding"])
async def test_a_worse_candidate_gets_nothing_any_more_at_once(phase: str, store_url: str) -> None:
    plan = "canary" if phase == "shifting" else "blue_green"
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world, msgspec.structs.replace(TO_V2, plan=plan))
        await world.until(one, phase)
        world.compared, world.in_flight = WORSE, {"v1": 3, "v2": 1}
        await world.round(one)
        split = await world.split()
        assert (split.stable, split.candidate, split.share) == ("v1", "", 0.0)
        # What it still has ends where it is.
        await world.round(one, times=10)
        assert (await world.records()).rollouts["m"].phase == "rolling_back"
        world.in_flight["v2"] = 0
        back = await world.until(one, "rolled_back")
        event = of(back.history)["rolling_back"]
        assert (event.cause, event.reason) == ("bounds", WORSE.reason)
        totals = (await world.records()).totals["m"]
        assert (totals.promoted, totals.rolled_back) == (0, {"bounds": 1})


async def test_a_candidate_that_disappears_is_rolled_back_and_a_restart_of_all_workers_is_not(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        world.compared = None
        before, world.ready = world.ready, {"v1": 0, "v2": 0}
        await world.round(one, times=6)
        assert (await world.records()).rollouts["m"].phase == "shifting"
        world.ready = before
        await world.round(one)
        world.ready = {"v1": 2, "v2": 0}
        back = await world.until(one, "rolled_back")
        assert of(back.history)["rolling_back"].cause == "gone"


async def test_without_requests_to_compare_a_stage_stays_and_says_so(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        world.compared = Compared(kind="inconclusive", reason="The stable version has had 0 of 50 requests.")
        await world.round(one, seconds=10.0, times=20)
        rollout = (await world.records()).rollouts["m"]
        assert (rollout.phase, rollout.stage, rollout.problem) == ("shifting", 0, world.compared.reason)


async def test_versions_that_cannot_be_compared_keep_their_stage_and_can_be_aborted(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")

        async def compare(rollout: Rollout, now: float) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(world, "compare", compare)
        await world.round(one, seconds=10.0, times=20)
        rollout = (await world.records()).rollouts["m"]
        assert (rollout.phase, rollout.stage) == ("shifting", 0)
        await world.registry.set_wish("m", "abort", "cli:me")
        await world.round(one)
        assert (await world.split()).share == 0.0


@pytest.mark.parametrize(
    ("problem", "cause"), [("slow", "slow"), ("warm-up of new/1: The replica failed.", "failed_warmup")]
)
async def test_a_replica_that_does_not_warm_up_keeps_the_candidate_from_requests(
    problem: str, cause: str, store_url: str
) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        world.warmups = {"new/1": problem}
        await begin(world)
        back = await world.until(one, "rolled_back")
        assert world.asked == ["new/0", "new/1", "new/1", "new/1"]
        event = of(back.history)["rolling_back"]
        assert (event.cause, event.reason) == (cause, problem)
        assert shares(back.history) == [0.0]


async def test_a_candidate_without_replicas_is_waited_for_and_then_given_up(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        world.ready["v2"] = 0
        await begin(world)
        await world.round(one, times=3)
        rollout = (await world.records()).rollouts["m"]
        assert rollout.problem == "0 of 1 replica of v2 ready"
        back = await world.until(one, "rolled_back", seconds=600.0)
        assert of(back.history)["rolling_back"].cause == "not_ready"


async def test_a_replica_that_restarts_in_a_long_stage_is_waited_for(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        held = Compared(kind="inconclusive", reason="The stable version has had 0 of 50 requests.")
        world.compared, before = held, world.compared
        await world.round(one, seconds=600.0, times=10)
        world.ready = {"v1": 2, "v2": 1}
        await world.round(one)
        # It is back, and not warm yet.
        world.compared, world.ready = before, {"v1": 2, "v2": 2}
        rollout = await world.until(one, "done")
        assert rollout.promoted


async def test_an_operator_pauses_resumes_promotes_and_aborts(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        await world.registry.set_wish("m", "pause", "cli:me")
        await world.round(one, seconds=10.0, times=5)
        rollout = (await world.records()).rollouts["m"]
        assert (rollout.stage, rollout.paused is not None) == (0, True)
        await world.registry.set_wish("m", "run", "cli:me")
        await world.round(one)
        # The time of the pause is none of the stage's.
        assert (await world.records()).rollouts["m"].stage == 0
        await world.registry.set_wish("m", "promote", "cli:me")
        with pytest.raises(Conflict, match="is being promoted"):
            await world.registry.set_wish("m", "pause", "cli:me")
        await world.until(one, "draining")
        with pytest.raises(Conflict, match="v2 answers all requests"):
            await world.registry.set_wish("m", "abort", "cli:me")
        await world.until(one, "done")
        with pytest.raises(RolloutNotFound, match="No rollout of 'm' is under way"):
            await world.registry.set_wish("m", "abort", "cli:me")
        # And back again.
        await world.registry.start(msgspec.structs.replace(TO_V2, to="v1"), "cli:me")
        await world.until(one, "shifting")
        await world.registry.set_wish("m", "abort", "cli:me")
        await world.round(one)
        assert (await world.split()).share == 0.0
        back = await world.until(one, "rolled_back")
        assert (back.stable, (await world.split()).stable) == ("v2", "v2")


async def test_what_cannot_be_rolled_out_is_refused_by_name(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        await world.say()
        for changes, message in (
            ({"to": "v9"}, "to: the model has no version"),
            ({"to": "v1"}, "to: the version \"v1\" is the stable one|to: the version 'v1' is the stable one"),
            ({"stages": (0.5, 0.2)}, r"stages\[1\]: stages must rise"),
            ({"plan": "ab"}, "goal: required"),
        ):
            with pytest.raises(InvalidRequest, match=message):
                await world.registry.start(msgspec.structs.replace(TO_V2, **changes), "cli:me")
        with pytest.raises(RolloutNotFound, match="No model 'x' has versions; those that do: m"):
            await world.registry.start(msgspec.structs.replace(TO_V2, model="x"), "cli:me")
        await begin(world)
        with pytest.raises(Conflict, match="a rollout of m to v2 is under way"):
            await begin(world)


async def test_an_outage_of_the_store_changes_nothing_and_the_rollout_goes_on_afterwards(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        before = await world.split()
        world.away = True
        for _ in range(3):
            world.now += 1.0
            await one.renew()
            await one.round()
        world.away = False
        assert await world.split() == before
        assert (await world.until(one, "done")).promoted


async def test_what_the_file_declares_starts_once(store_url: str) -> None:
    declared = {"model": "m", "to": "v2", "hold_seconds": 1, "min_requests": 50, "webhook": "http://hook/secret"}
    async with rollout_world(store_url, config_of([declared])) as world:
        one = world.controller()
        await world.say()
        assert (await world.until(one, "done")).promoted
        hooks = {url for url, _ in world.posted}
        assert hooks == {"http://hook/secret"}
        told = [event["phase"] for _, event in world.posted]
        assert (told[0], told[-1]) == ("preparing", "done")
        # The same again, by whomever it is read: nothing. So it is after an operator has gone back.
        two = world.controller("two")
        await world.kill()
        await world.round(two, times=3)
        await world.registry.start(msgspec.structs.replace(TO_V2, to="v1", plan="blue_green"), "cli:me")
        await world.until(two, "done")
        await world.round(two, times=3)
        records = await world.records()
        assert (records.splits["m"].stable, records.rollouts["m"].candidate) == ("v1", "v1")
        # A changed one starts.
        world.use(config_of([declared | {"hold_seconds": 2}]))
        two.use(world.config)
        again = await world.until(two, "shifting")
        assert (again.candidate, again.actor) == ("v2", "file")
        assert b"secret" not in msgspec.json.encode(again)


async def test_the_file_may_name_another_stable_version(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "done")
        await world.round(one, times=2)
        assert (await world.split()).stable == "v2"
        # As it was: what has been rolled out stays.
        one.use(config_of())
        await world.round(one)
        assert (await world.split()).stable == "v2"
        world.use(config_of(stable="v2"))
        (model,) = await world.registry.models()
        assert model.stable == "v2"
        # From now on the last rollout says nothing any more, whatever the file names.
        await world.registry.start(msgspec.structs.replace(TO_V2, to="v1"), "cli:me")
        one.use(world.config)
        await world.until(one, "shifting")
        one.use(config_of())
        back = await world.until(one, "rolled_back")
        event = of(back.history)["rolling_back"]
        assert (event.cause, event.reason) == ("superseded", "the configuration makes v1 the stable version")


async def test_a_version_that_the_file_drops_is_rolled_back(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        await begin(world)
        await world.until(one, "shifting")
        pools = [{"name": "old", "engine": "simulated", "replicas": ["grpc://old:1"], "version": "v1"}]
        one.use(config_of(pools=pools))
        await world.round(one)
        assert (await world.split()).share == 0.0
        event = of(await world.events())["rolling_back"]
        assert (event.cause, event.reason) == ("superseded", "the configuration has no version v2 any more")


async def test_gates_run_one_after_the_other(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        gates = msgspec.structs.replace(TO_V2.gates, golden="/corpus")
        await begin(world, msgspec.structs.replace(TO_V2, plan="gates", gates=gates))
        await world.until(one, "shadowing")
        shadow = (await world.split()).shadow
        assert shadow is not None
        assert shadow.share == 0.1
        assert (await world.split()).share == 0.0
        done = await world.until(one, "done")
        phases = [event.phase for event in done.history if event.cause in ("warm", "passed")]
        assert phases == ["smoke", "golden", "shadowing", "shifting"]
        assert [asked for asked in world.asked if not asked.startswith("new/")] == ["smoke", "golden", "shadowing"]


async def test_a_gate_that_is_not_passed_ends_it_and_a_shadow_ends_with_its_report(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one = world.controller()
        world.gates = {"smoke": "failed"}
        await begin(world, msgspec.structs.replace(TO_V2, plan="gates"))
        back = await world.until(one, "rolled_back")
        assert of(back.history)["rolling_back"].cause == "failed_gate"
        world.gates = {"shadowing": "inconclusive"}
        await begin(world, msgspec.structs.replace(TO_V2, plan="shadow"))
        back = await world.until(one, "rolled_back")
        assert of(back.history)["rolling_back"].cause == "inconclusive"
        world.gates = {}
        await begin(world, msgspec.structs.replace(TO_V2, plan="shadow"))
        done = await world.until(one, "done")
        assert (done.promoted, (await world.split()).stable) == (False, "v1")
        totals = (await world.records()).totals["m"]
        assert (totals.reported, totals.rolled_back) == (1, {"failed_gate": 1, "inconclusive": 1})


async def test_two_controllers_do_not_act_at_once(store_url: str) -> None:
    async with rollout_world(store_url) as world:
        one, two = world.controller(), world.controller("two")
        await begin(world)
        await world.round(one)
        await two.renew()
        assert two.lease.held is None
        assert (await world.records()).controller == "one"
        assert STATUS.startswith("penstock:{rollouts}:")
