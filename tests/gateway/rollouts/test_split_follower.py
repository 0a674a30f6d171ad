import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import msgspec
import pytest

import gateway.rollouts.split_follower
from gateway.rollouts.split_follower import SplitFollower
from gateway.rollouts.split_note import SplitNote
from protos.errors import StoreUnavailable
from routing.rollouts.split import SPLITS, Split
from tests.loops import until

SPLIT = Split(model="m", stable="v1", candidate="v2", share=0.5, salt="one", epoch=1)


class Store:
    """Splits by hand, and a channel that the test speaks on."""

    def __init__(self) -> None:
        self.stored: dict[bytes, bytes] = {}
        self.away = self.silent = False
        self.reads = 0
        self.heard: Callable[[], None] = lambda: None

    def put(self, *splits: Split) -> None:
        self.stored = {split.model.encode(): msgspec.json.encode(split) for split in splits}

    async def hgetall(self, key: str) -> dict[bytes, bytes]:
        assert key == SPLITS
        self.reads += 1
        if self.away:
            raise StoreUnavailable
        return self.stored

    async def hear(self, channel: str, heard: Callable[[], None]) -> None:
        if self.silent:
            raise StoreUnavailable
        self.heard = heard
        await asyncio.Event().wait()


class Model:
    def __init__(self) -> None:
        self.split: Split | None = None
        self.told = 0

    def follow(self, stored: Split | None) -> None:
        self.split, self.told = stored, self.told + 1


@contextlib.asynccontextmanager
async def running(store: Store, model: Model) -> AsyncIterator[SplitFollower]:
    follower = SplitFollower(store, {"m": model})
    task = asyncio.create_task(follower.run())
    try:
        await until(lambda: model.told)
        yield follower
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_what_is_told_counts_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway.rollouts.split_follower, "LOOK_SECONDS", 3600.0)
    store, model = Store(), Model()
    async with running(store, model):
        assert model.split is None
        store.put(SPLIT)
        store.heard()
        await until(lambda: model.split == SPLIT)


async def test_what_nobody_told_counts_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second later: with the time that a look takes that is within one."""
    assert gateway.rollouts.split_follower.LOOK_SECONDS == 0.5
    monkeypatch.setattr(gateway.rollouts.split_follower, "LOOK_SECONDS", 0.001)
    store, model = Store(), Model()
    store.silent = True
    async with running(store, model):
        store.put(SPLIT)
        await until(lambda: model.split == SPLIT)


async def test_the_last_split_goes_on_while_the_store_is_away(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(gateway.rollouts.split_follower, "LOOK_SECONDS", 0.001)
    store, model = Store(), Model()
    store.put(SPLIT)
    async with running(store, model):
        await until(lambda: model.split == SPLIT)
        store.away, reads = True, store.reads
        await until(lambda: store.reads > reads + 2)
        assert model.split == SPLIT
        store.put()
        store.away = False
        await until(lambda: model.split is None)
    assert caplog.text.count("requests are divided between versions as they were") == 1


async def test_what_cannot_be_read_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Nor does the split of a model that is not here."""
    store, model = Store(), Model()
    store.put(SPLIT, msgspec.structs.replace(SPLIT, model="other"))
    follower = SplitFollower(store, {"m": model})
    await follower.read()
    store.stored[b"m"] = b'{"model": 3}'
    for _ in range(2):
        await follower.read()
        follower.apply()
        assert model.split == SPLIT
    assert caplog.text.count("the split of the model m cannot be read, so the last one goes on") == 1


@pytest.mark.parametrize("stored", [b'{"model": "\xff"}', b'{"model": "m", "salt": ' + b"[" * 5000])
async def test_what_cannot_be_read_of_one_model_keeps_no_other_one_from_its_split(stored: bytes) -> None:
    store, models = Store(), {"bad": Model(), "m": Model()}
    store.put(SPLIT)
    store.stored[b"bad"] = stored
    follower = SplitFollower(store, models)
    await follower.read()
    follower.apply()
    assert (models["bad"].split, models["m"].split) == (None, SPLIT)


async def test_another_configuration_goes_on_with_what_is_known() -> None:
    store, models = Store(), {"m": Model(), "n": Model()}
    store.put(SPLIT)
    last = SplitFollower(store, models)
    await last.read()
    store.away = True
    follower = SplitFollower(store, models, last=last)
    await follower.read()
    follower.apply({"n"})
    assert (models["m"].told, models["n"].told) == (0, 1)
    follower.apply()
    assert (models["m"].split, models["n"].split) == (SPLIT, None)


async def test_what_the_last_one_has_heard_since_counts() -> None:
    """A reload takes seconds where it reaches new replicas: a rollout may be aborted meanwhile."""
    store, model = Store(), Model()
    store.put(SPLIT)
    last = SplitFollower(store, {"m": model})
    await last.read()
    follower = SplitFollower(store, {"m": model}, last=last)
    await follower.read()
    aborted = Split(model="m", stable="v1", epoch=2)
    store.put(aborted)
    await last.read()
    follower.apply()
    assert model.split == aborted


async def test_what_was_promoted_outlives_a_start_without_the_store(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store, promoted = Store(), Split(model="m", stable="v2", configured="v1", epoch=5)
    store.put(promoted)
    before = SplitFollower(store, {"m": Model(), "n": Model()}, SplitNote(tmp_path))
    await before.read()
    assert (before.problems(), before.unknown()) == ([], [])
    store.away = True
    models = {name: Model() for name in ("m", "n", "new")}
    after = SplitFollower(store, models, SplitNote(tmp_path))
    for _ in range(2):
        await after.read()
        after.apply()
    split = models["m"].split
    assert split is not None
    assert (split.stable, split.configured, split.share) == ("v2", "v1", 0.0)
    assert models["n"].split is None
    # Of what is new nobody knows.
    assert after.unknown() == ["new"]
    assert [problem.partition(" is stable")[0].split()[-1] for problem in after.problems()] == ["m", "n", "new"]
    assert caplog.text.count("this machine has no note of it") == 1
    store.away = False
    await after.read()
    after.apply()
    assert (models["m"].split, after.problems(), after.unknown()) == (promoted, [], [])


async def test_a_share_is_not_noted_and_what_cannot_be_read_goes_by_the_note(tmp_path: Path) -> None:
    store, model, note = Store(), Model(), SplitNote(tmp_path)
    store.put(msgspec.structs.replace(SPLIT, stable="v2", candidate="v3"))
    await SplitFollower(store, {"m": model}, note).read()
    store.stored[b"m"] = b'{"model": 3}'
    after = SplitFollower(store, {"m": model}, note)
    for _ in range(2):
        await after.read()
        after.apply()
        assert model.split is not None
        assert (model.split.stable, model.split.candidate, model.split.share) == ("v2", "", 0.0)
        assert len(after.problems()) == 1
