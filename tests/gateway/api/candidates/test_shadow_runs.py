"""Shadows at a real worker in front of two versions of simulated replicas."""

import asyncio
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import msgspec
import pytest

from gateway.rollouts.shadow.shadow_sums import ShadowReport, read_report
from observability.record import RequestRecord
from replicas.engines.answer_lengths import Corpus
from routing.rollouts.settings import ShadowSettings
from tests.gateway.api.candidates.versioned import NEW, OLD, Versions, two_versions
from tests.harness import MODEL, engine_of, gated_engine, readable_corpus
from tests.loops import BOUND_SECONDS, until

ALL = ShadowSettings(share=1.0, room=1.0)
READABLE = readable_corpus()
OTHER = Corpus(READABLE.sentences[::-1], READABLE.eos)


class Sink:
    def __init__(self) -> None:
        self.records: list[RequestRecord] = []

    def take(self, records: Any) -> None:
        self.records += records

    async def aclose(self) -> None:
        pass


def sinks_of(versions: Versions) -> tuple[Sink, Sink]:
    """What clients' records and shadows' records come to, from now on."""
    telemetry = versions.client.gateway._telemetry
    clients, own = Sink(), Sink()
    for publisher, sink in ((telemetry.record_publisher, clients), (telemetry.own_record_publisher, own)):
        publisher._sinks = [sink]
        publisher.publishes = True
    return clients, own


def runs_of(versions: Versions) -> Any:
    copying = versions.client.gateway._copying
    assert copying is not None
    return copying._shadows


async def report_of(versions: Versions, compared: int, **left_out: int) -> ShadowReport:
    """The report once so many comparisons and left out copies are in it."""
    runs = runs_of(versions)
    async with asyncio.timeout(BOUND_SECONDS):
        while True:
            # The worker hands in by itself, too, each second.
            await runs.report()
            report = await read_report(versions.store, MODEL)
            if report is not None and not runs._running:
                done = report.differences.compared + report.differences.candidate_failed
                if (done, report.left_out) == (compared, left_out):
                    return report
            await asyncio.sleep(0.001)


async def test_every_answer_is_compared_and_charged_to_nobody(store_url: str) -> None:
    async with two_versions(
        store_url,
        engine_of(version=OLD, corpus=READABLE),
        engine_of(version=NEW, corpus=READABLE),
        tenant={"name": "a", "limits": {"rpm": 3}},
    ) as versions:
        clients, own = sinks_of(versions)
        await versions.split(ALL)
        for fields in ({}, {"stream": True}, {"stream": True, "stream_options": {"include_usage": True}}):
            answer = await versions.client.chat(temperature=0, seed=1, **fields)
            assert (answer.status, answer.headers["x-penstock-version"]) == (200, OLD)
        report = await report_of(versions, 3)
        found = report.differences
        assert (found.compared, found.same, found.greedy_same, found.alike) == (3, 1.0, 1.0, 1.0)
        assert (report.examples, report.left_out) == ([], {})
        assert min(report.seconds) > 0.0
        await until(lambda: len(own.records) == 3 and len(clients.records) == 3)
        # Three requests are the tenant's limit: copies have taken none of it.
        assert (await versions.client.chat()).status == 429
        assert {record.shadow_of for record in own.records} == {record.id for record in clients.records[:3]}
        assert {(record.version, record.cost_nano_usd, record.endpoint) for record in own.records} == {
            (NEW, 0, "shadow")
        }
        assert {record.version for record in clients.records[:3]} == {OLD}
        assert all(record.completion_tokens == 20 for record in own.records)


@pytest.mark.parametrize("stream", [False, True])
async def test_requests_to_apis_on_top_of_chats_are_copied_as_chats(store_url: str, stream: bool) -> None:
    old, new = engine_of(version=OLD, corpus=READABLE), engine_of(version=NEW, corpus=READABLE)
    async with two_versions(store_url, old, new) as versions:
        await versions.split(ALL)
        common = {"model": MODEL, "temperature": 0, "stream": stream}
        question = [{"role": "user", "content": "Hello"}]
        for path, fields in (
            ("/v1/responses", {"input": "Hello", "max_output_tokens": 20, "instructions": "Be short."}),
            ("/v1/messages", {"messages": question, "max_tokens": 20, "system": "Be short."}),
        ):
            assert (await versions.client.request("POST", path, common | fields)).status == 200
        report = await report_of(versions, 2)
        assert (report.differences.same, report.examples) == (1.0, [])


@pytest.mark.parametrize("text", [False, True])
async def test_what_differs_is_kept_without_texts_unless_the_tenant_allows_them(store_url: str, text: bool) -> None:
    tenant = {"name": "a", "data": {"text": text}}
    async with two_versions(
        store_url, engine_of(version=OLD, corpus=READABLE), engine_of(version=NEW, corpus=OTHER), tenant=tenant
    ) as versions:
        runs_of(versions)._redacted._redaction = Blank()
        await versions.split(ALL)
        await versions.client.chat(temperature=0)
        report = await report_of(versions, 1)
        (example,) = report.examples
        assert not example.difference.same
        assert (report.differences.greedy_same, report.differences.alike) == (0.0, 0.0)
        texts = [None if answer is None else answer.text for answer in (example.baseline, example.candidate)]
        assert texts == (["blank", "blank"] if text else [None, None])


class Blank:
    """Redacts all of an answer."""

    def answer(self, answer: Any) -> Any:
        return msgspec.structs.replace(answer, text="blank")


@pytest.mark.parametrize(
    ("tenant", "fields"),
    [
        ({"name": "a", "data": {"shadow": False}}, {}),
        ({"name": "a"}, {"tenants": frozenset({"others"})}),
        ({"name": "a", "tier": "gold"}, {"tiers": frozenset({"bronze"})}),
    ],
)
async def test_whose_requests_are_not_copied(store_url: str, tenant: dict[str, Any], fields: dict[str, Any]) -> None:
    async with two_versions(
        store_url, engine_of(version=OLD, corpus=READABLE), engine_of(version=NEW, corpus=READABLE), tenant=tenant
    ) as versions:
        _, own = sinks_of(versions)
        await versions.split(ALL, **fields)
        assert (await versions.client.chat()).status == 200
        # A copy would have begun in the turn of the loop after its answer.
        await asyncio.sleep(0)
        assert not runs_of(versions)._running
        assert not runs_of(versions)._sums
        assert own.records == []


async def test_a_candidate_that_hangs_has_its_part_and_no_more_and_all_ends(store_url: str) -> None:
    stuck, gate = gated_engine(version=NEW, max_batch_size=4)
    old = engine_of(version=OLD, corpus=READABLE)
    async with two_versions(store_url, old, stuck, workers=1) as versions:
        await versions.split(ShadowSettings(share=1.0, room=0.5))
        answers = [await versions.client.chat(stream=True) for _ in range(5)]
        assert {answer.status for answer in answers} == {200}
        runs, copying = runs_of(versions), versions.client.gateway._copying
        assert copying is not None
        # Two of four sequences; the other three copies are left out.
        assert len(runs._running) == 2
        assert runs._sums[MODEL, 1] == {"left_out:bound": 3}
        await copying.aclose()
        assert not runs._running
        assert runs._taken[MODEL].sequences == 0
        report = await read_report(versions.store, MODEL)
        assert report is not None
        assert report.left_out == {"bound": 3}
        gate.open()


async def test_the_room_of_a_small_replica_goes_round(store_url: str) -> None:
    one, other = engine_of(version=OLD, corpus=READABLE), engine_of(version=NEW, corpus=READABLE, max_batch_size=4)
    async with two_versions(store_url, one, other, workers=5) as versions:
        await versions.split(ShadowSettings(share=1.0, room=0.5))
        runs = runs_of(versions)
        turns = runs._turns
        # Each of five workers has two fifths of a sequence, and it is another one's turn.
        runs._turns = SimpleNamespace(workers=5, is_due=False, enrol=AsyncMock())
        assert (await versions.client.chat()).status == 200
        await report_of(versions, 0, bound=1)
        # This worker is the only one that copies, so it is its turn.
        runs._turns = turns
        await runs._exchange()
        assert (await versions.client.chat()).status == 200
        await report_of(versions, 1, bound=1)


async def test_a_candidate_that_is_lost_has_failed_and_one_that_is_away_is_left_out(store_url: str) -> None:
    stuck, gate = gated_engine(version=NEW)
    old = engine_of(version=OLD, corpus=READABLE)
    async with two_versions(store_url, old, stuck) as versions:
        await versions.split(ALL)
        assert (await versions.client.chat()).status == 200
        await until(lambda: stuck._requests)
        await versions.servers[NEW].close()
        report = await report_of(versions, 1)
        assert report.differences.candidate_failed == 1
        # Another epoch begins anew.
        await versions.split(ALL, candidate="v3", epoch=2)
        assert (await versions.client.chat()).status == 200
        await runs_of(versions).report()
        report = await read_report(versions.store, MODEL)  # type: ignore[assignment]
        assert (report.epoch, report.left_out, report.differences.candidate_failed) == (2, {"away": 1}, 0)
        gate.open()
