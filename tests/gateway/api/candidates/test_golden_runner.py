"""Golden sets that a real worker runs, for the controller's side of the store."""

import asyncio
from pathlib import Path

import pytest

from gateway.rollouts.golden.golden_jobs import GoldenJob, GoldenJobs, GoldenResult
from gateway.rollouts.replay.corpus import CorpusHead, Entry, corpus_line
from gateway.store.store_client import Store
from replicas.engines.answer_lengths import Corpus
from tests.gateway.api.candidates.versioned import NEW, OLD, two_versions
from tests.harness import MODEL, engine_of, readable_corpus

READABLE = readable_corpus()
OTHER = Corpus(READABLE.sentences[::-1], READABLE.eos)


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.candidates.golden_runner.LOOK_SECONDS", 0.01)


def job_of(folder: Path, **fields: str) -> GoldenJob:
    path = folder / "golden"
    head = CorpusHead(model="another", source="chats", redacted=True)
    bodies = [
        {"messages": [{"role": "user", "content": f"Question {number}"}], "max_tokens": 9, "temperature": 0}
        for number in range(6)
    ]
    entries = [Entry(id=str(number), body=body | {"stream": True}) for number, body in enumerate(bodies)]
    path.write_bytes(corpus_line(head) + b"".join(map(corpus_line, entries)))
    given = {"id": "r:1", "model": MODEL, "stable": OLD, "candidate": NEW, "corpus": str(path)} | fields
    return GoldenJob(**given, similar=0.8, alike=0.9, failed=0.0, broken=0.0)


async def result_of(jobs: GoldenJobs, job: GoldenJob) -> GoldenResult:
    while (found := await jobs.ask(job)) is None:  # noqa: ASYNC110 (the store has no event)
        await asyncio.sleep(0.005)
    return found


async def test_versions_that_answer_alike_pass(store_url: str, tmp_path: Path) -> None:
    old, new = (engine_of(version=version, corpus=READABLE) for version in (OLD, NEW))
    async with two_versions(store_url, old, new) as versions:
        jobs, job = GoldenJobs(versions.store), job_of(tmp_path)
        assert await result_of(jobs, job) == GoldenResult(
            passed=True, reason="100.0% of 6 answers to the golden set are alike"
        )
        # A result is told again, to a controller that has taken over.
        assert (await result_of(jobs, job)).passed
        # Another run begins anew, and one that is not wanted is nobody's.
        gone = job_of(tmp_path, id="r:2", corpus=str(tmp_path / "none"))
        assert "No such file" in (await result_of(jobs, gone)).reason


async def test_versions_that_answer_otherwise_fail(store_url: str, tmp_path: Path) -> None:
    old, new = engine_of(version=OLD, corpus=READABLE), engine_of(version=NEW, corpus=OTHER)
    async with two_versions(store_url, old, new) as versions:
        found = await result_of(GoldenJobs(versions.store), job_of(tmp_path))
        assert not found.passed
        assert "0.0% of the answers are alike, less than 90.0%" in found.reason
        unknown = await result_of(GoldenJobs(versions.store), job_of(tmp_path, id="r:2", candidate="v9"))
        assert "no entry was answered by both sides" in unknown.reason


async def test_one_worker_has_a_run_until_it_is_silent(store_url: str, tmp_path: Path) -> None:
    store, job = Store(store_url, timeout=10.0), job_of(tmp_path)
    jobs = GoldenJobs(store)
    assert await jobs.take(MODEL, "a") is None
    assert await jobs.ask(job) is None
    assert [await jobs.take(MODEL, worker) for worker in "aba"] == [job, None, job]
    await jobs.end(job, "b", GoldenResult(passed=True, reason="not its run"))
    assert await jobs.ask(job) is None
    await jobs.end(job, "a", GoldenResult(passed=True, reason="its run"))
    assert await jobs.ask(job) == GoldenResult(passed=True, reason="its run")
    assert await jobs.take(MODEL, "a") is None
    await store.aclose()


async def test_a_run_that_ends_with_an_error_fails_and_is_not_repeated(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no answer can be compared")

    monkeypatch.setattr("gateway.api.candidates.golden_runner.compare_entry", broken)
    old, new = (engine_of(version=version, corpus=READABLE) for version in (OLD, NEW))
    async with two_versions(store_url, old, new) as versions:
        found = await result_of(GoldenJobs(versions.store), job_of(tmp_path))
        assert found == GoldenResult(passed=False, reason="the golden set cannot be run: RuntimeError")
