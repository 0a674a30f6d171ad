"""Guided answers of FailoverStream (failover_stream.py) whose replicas go away: what goes on, and what begins again."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

import routing.transports.session_transport
from protos.errors import AnswerLost, ReplicaFailed, ReplicaUnavailable
from protos.features import Feature
from protos.types import FinishReason, Role, Submit
from routing.contracts.transport import Event
from routing.dispatch.dispatch import Dispatched
from tests.harness import readable_corpus, readable_vocabulary, submit_of
from tests.replicas.engines.guiding import schema_guide, text_of
from tests.routing.mortal import DRAINED, FAILED, HUNG, LOST, Answer, Death, begin, mortals, read, whole_answer

NAMES = {
    "type": "array",
    "items": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
    "minItems": 8,
    "maxItems": 9,
}
WAYS = [LOST, FAILED, DRAINED]
#: Requests of clients that stream, that do not, and with several answers.
KINDS: dict[str, dict[str, Any]] = {
    "streamed": {"delta_interval": 1},
    "whole": {"delta_interval": 4, "hold_ms": 60_000},
    "several": {"delta_interval": 2, "n": 3},
}


@pytest.fixture(autouse=True)
def no_reconnects(monkeypatch: pytest.MonkeyPatch) -> None:
    # A replica that is lost stays lost for the test.
    monkeypatch.setattr(routing.transports.session_transport, "FIRST_RETRY_SECONDS", 60.0)


def guided(**fields: Any) -> Submit:
    return submit_of(400, prompt=range(40), ignore_eos=False, guide=schema_guide(NAMES), **fields)


def engines(**more: Any) -> dict[str, Any]:
    return {"vocabulary": readable_vocabulary(), "corpus": readable_corpus(), **more}


def same(answer: Answer, expected: Answer) -> None:
    assert answer.tokens == expected.tokens
    assert {finish.reason for finish in answer.finishes} == {FinishReason.STOP}
    for tokens in answer.tokens:
        assert 8 <= len(json.loads(text_of(tokens))) <= 9


class Gatherer:
    """A reader that shows nothing before the end, and so can forget."""

    def __init__(self, dispatched: Dispatched, sequences: int) -> None:
        self._stream = dispatched.stream
        self.answer = Answer([[] for _ in range(sequences)], [[] for _ in range(sequences)])
        self.forgotten: list[int] = []
        self._first = dispatched.first
        self._stream.begin_again = self._forget

    def _forget(self, index: int) -> None:
        self.forgotten.append(index)
        self.answer.tokens[index] = []

    async def read(self) -> Answer:
        events: Sequence[Event] = self._first
        while True:
            for index, tokens, _, finish in events:
                self.answer.tokens[index] += tokens
                if finish is not None:
                    self.answer.finishes.append(finish)
            if len(self.answer.finishes) == len(self.answer.tokens):
                self._stream.close()
                return self.answer
            events = await self._stream.receive()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_an_answer_goes_on_where_an_engine_can_continue_its_guide(way: str, kind: str) -> None:
    submit = guided(**KINDS[kind])
    expected = await whole_answer(submit, **engines())
    async with mortals(Death(12, way), Death(), **engines()) as (fleet, asked):
        same(await read(await begin(fleet, submit), submit.sampling.n), expected)
        for request in asked[1].submitted:
            assert request.guide == submit.guide


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
async def test_elsewhere_it_begins_again_while_nobody_has_seen_it(way: str, kind: str) -> None:
    submit = guided(**KINDS[kind])
    expected = await whole_answer(submit, **engines())
    old = engines(lacks=Feature.GUIDE_RESUMES)
    async with mortals(Death(12, way), Death(), **old) as (fleet, asked):
        reader = Gatherer(await begin(fleet, submit), submit.sampling.n)
        same(await reader.read(), expected)
        assert asked[1].submitted
        assert {request.generated for request in asked[1].submitted} == {0}
        assert len(reader.forgotten) == len(set(reader.forgotten))


@pytest.mark.parametrize("way", WAYS)
async def test_what_has_been_seen_is_lost_where_no_engine_can_continue_it(way: str) -> None:
    # Drained only once something has been read.
    death = Death(12, HUNG if way == DRAINED else way)
    async with mortals(death, Death(), **engines(lacks=Feature.GUIDE_RESUMES)) as (fleet, asked):
        dispatched = await begin(fleet, guided())
        if way == DRAINED:
            fleet.drain({"p/0": 0.0})
            fleet.tick()
        with pytest.raises(AnswerLost, match="Send the request again"):
            await read(dispatched)
        assert asked[1].submitted == []


async def test_without_another_replica_an_unseen_answer_ends_with_what_happened() -> None:
    for way, kind in ((LOST, ReplicaUnavailable), (FAILED, ReplicaFailed)):
        async with mortals(Death(12, way), **engines()) as (fleet, _):
            reader = Gatherer(await begin(fleet, guided()), 1)
            with pytest.raises(kind):
                await reader.read()


@pytest.mark.parametrize("lacks", [Feature.NONE, Feature.GUIDE_RESUMES])
async def test_a_pair_loses_no_guided_answer(lacks: Feature) -> None:
    submit = guided(n=2)
    expected = await whole_answer(submit, **engines())
    roles = (Role.PREFILL, Role.DECODE, Role.BOTH)
    async with mortals(Death(), Death(9, FAILED), Death(), roles=roles, **engines(lacks=lacks)) as (fleet, _):
        same(await Gatherer(await begin(fleet, submit), 2).read(), expected)
