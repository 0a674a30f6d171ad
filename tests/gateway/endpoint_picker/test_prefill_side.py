"""Pairs of an endpoint that computes a prompt and one that decodes it."""

import dataclasses
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gateway.endpoint_picker.asked import asked_in
from gateway.endpoint_picker.picker import Picked
from gateway.endpoint_picker.picker import Picker as Picking
from protos.errors import ReplicaUnavailable
from protos.token_counts import TokenCounts
from protos.types import Role
from routing.policies.phases import LOCAL_TOKENS
from routing.transports.replica_spec import ReplicaSpec
from tests.gateway.endpoint_picker.pickers import Picker, picker
from tests.loops import until
from tests.proxies import DUPLEX

LONG = asked_in(b'{"prompt": "%b"}' % (b"hello " * 5000))
SHORT = asked_in(b'{"prompt": "%b"}' % (b"hello " * 20))


@asynccontextmanager
async def paired(
    folder: Path, roles: Sequence[Role], revisions: Sequence[str] = ()
) -> AsyncIterator[tuple[Picker, list[str]]]:
    """A picker over endpoints of these roles and revisions; they are named `IP:PORT` in their order."""
    async with picker(folder, len(roles)) as running:
        specs: list[ReplicaSpec] = [one.spec for one in running.model.fleet._connections.values()]
        versions = revisions or [""] * len(roles)
        given = [
            dataclasses.replace(spec, role=role, revision=revision)
            for spec, role, revision in zip(specs, roles, versions, strict=True)
        ]
        running.model.set_replicas(given)
        whole, prompts = running.model.fleet, running.model.prefill.fleet

        def stand() -> bool:
            return {one.spec.id for one in (*whole._ready, *prompts._ready)} == {one.id for one in given}

        await until(stand)
        yield running, [running.model.endpoints[spec.id] for spec in specs]


async def pick(running: Picker, asked: object = LONG, subset: Sequence[str] | None = None) -> Picked:
    return await Picking().pick(running.model, asked, subset, "")  # type: ignore[arg-type]


def prefilling(running: Picker) -> dict[str, int]:
    """Prompts that count at each endpoint that only computes them, without zeros."""
    model = running.model
    found = model.prefill.fleet._connections.items()
    return {model.endpoints[id_]: connection.in_flight for id_, connection in found if connection.in_flight}


async def test_a_long_prompt_is_computed_by_another_until_the_answer_begins(state_dir: Path) -> None:
    async with paired(state_dir, [Role.PREFILL, Role.DECODE, Role.DECODE]) as (running, [prefill, *decode]):
        picked = await pick(running)
        assert set(picked.endpoints) == set(decode)
        assert picked.prefiller == prefill
        assert prefilling(running) == {prefill: 1}
        assert running.in_flight() == {picked.endpoints[0]: 1}
        # Where it is decoded nothing is left to compute.
        (taking,) = [one for one in running.model.fleet._connections.values() if one.in_flight]
        assert taking.view.sent_prompt_tokens == 0
        picked.flight.begins()
        assert prefilling(running) == {}
        picked.flight.heard(3, TokenCounts(5000, 7500, 3))
        picked.flight.ends(200)
        running.nothing_is_left()


async def test_the_proxy_is_told_in_the_header_that_clients_cannot_set(state_dir: Path) -> None:
    async with paired(state_dir, [Role.PREFILL, Role.DECODE]) as (running, [prefill, decode]):
        for text, told in (("hello " * 5000, prefill), ("hello", None)):
            stream = running.proxy.stream()
            body = json.dumps({"model": "m", "prompt": text}).encode()
            await stream.request([body], None, DUPLEX, **{"x-prefiller-host-port": "10.1.1.1:1"})
            assert await stream.picked() == [decode]
            assert stream.prefiller == told
            await stream.passed_on()
            await stream.respond(b"data: {}\n\n", served=decode)
            await stream.end()
            running.nothing_is_left()
            assert prefilling(running) == {}
        page = running.process.metrics.page(running.process.models)
        assert 'penstock_epp_prefilled_requests_total{model="m"} 1.0\n' in page


async def test_what_is_short_or_cached_is_computed_where_it_is_decoded(state_dir: Path) -> None:
    async with paired(state_dir, [Role.PREFILL, Role.DECODE]) as (running, [prefill, decode]):
        assert len(SHORT.prompt) < LOCAL_TOKENS < len(LONG.prompt)
        picked = await pick(running, SHORT)
        assert (picked.endpoints, picked.prefiller) == ([decode], "")
        picked.flight.ends(200)
        first = await pick(running)
        assert first.prefiller == prefill
        first.flight.begins()
        first.flight.ends(200)
        # By now the one that has decoded it holds it.
        again = await pick(running)
        assert again.prefiller == ""
        again.flight.ends(200)
        running.nothing_is_left()


@pytest.mark.parametrize(
    ("roles", "revisions"),
    [
        # Only pods that say so take prompts from others.
        ([Role.PREFILL, Role.BOTH], []),
        ([Role.BOTH, Role.DECODE], []),
        # The KV caches of two revisions do not fit together.
        ([Role.PREFILL, Role.DECODE], ["v1", "v2"]),
        ([Role.PREFILL, Role.DECODE], ["v1", ""]),
    ],
)
async def test_what_makes_no_pair_computes_its_prompts(
    state_dir: Path, roles: list[Role], revisions: list[str]
) -> None:
    async with paired(state_dir, roles, revisions) as (running, _):
        picked = await pick(running)
        assert picked.prefiller == ""
        picked.flight.close()


async def test_pairs_of_one_revision_are_made_during_a_rollout(state_dir: Path) -> None:
    roles = [Role.PREFILL, Role.PREFILL, Role.DECODE, Role.DECODE]
    async with paired(state_dir, roles, ["v1", "v2", "v1", "v2"]) as (running, endpoints):
        pairs = set()
        for number in range(8):
            asked = asked_in(b'{"prompt": "%d %b"}' % (number, b"hello " * 5000))
            picked = await pick(running, asked)
            pairs.add((picked.prefiller, picked.endpoints[0]))
        assert pairs == {(endpoints[0], endpoints[2]), (endpoints[1], endpoints[3])}


async def test_a_subset_holds_for_both(state_dir: Path) -> None:
    async with paired(state_dir, [Role.PREFILL, Role.DECODE]) as (running, [prefill, decode]):
        assert (await pick(running, LONG, [decode])).prefiller == ""
        with pytest.raises(ReplicaUnavailable):
            await pick(running, LONG, [prefill])


async def test_those_that_only_compute_prompts_answer_nobody(state_dir: Path) -> None:
    async with paired(state_dir, [Role.PREFILL, Role.PREFILL]) as (running, _):
        assert not running.model.ready
        with pytest.raises(ReplicaUnavailable):
            await pick(running)


async def test_one_that_is_lost_ends_its_count_alone(state_dir: Path) -> None:
    async with paired(state_dir, [Role.PREFILL, Role.DECODE]) as (running, [_, decode]):
        picked = await pick(running)
        for connection in running.model.prefill.fleet._connections.values():
            connection.fail_streams(ReplicaUnavailable("It is gone."))
        assert prefilling(running) == {}
        assert running.in_flight() == {decode: 1}
        picked.flight.begins()
        picked.flight.close()
        running.nothing_is_left()


async def test_endpoints_that_are_gone_are_forgotten(state_dir: Path) -> None:
    async with paired(state_dir, [Role.PREFILL, Role.DECODE, Role.BOTH]) as (running, endpoints):
        model = running.model
        picked = await pick(running)
        specs = {model.endpoints[one.spec.id]: one.spec for one in model.fleet._connections.values()}
        left = specs[picked.endpoints[0]]
        model.tell_cached.add(left.id)
        model.set_replicas([])
        # A request is under way there, and may be told of.
        assert model.endpoints[left.id] == picked.endpoints[0]
        picked.flight.ends(200)
        model.fleet.tick()
        model.prefill.fleet.tick()
        model.set_replicas([])
        assert model.endpoints == {} and model.tell_cached == set()
        assert len(endpoints) == 3
