import argparse
from pathlib import Path

import pytest

from gateway.cli.replay import replay_record
from gateway.rollouts.replay.recording import Recording, Recordings
from gateway.store.store_client import Store
from protos.errors import StoreUnavailable
from tests.asgi import config_of
from tests.harness import MODEL


class Failing(Recordings):
    """Two lines come, and a store that does not answer the second renewal, the third look at lines, and the end."""

    renewed = 0
    looked = 0

    async def renew(self, recording: Recording) -> bool:
        runs = await super().renew(recording)
        self.renewed += 1
        await self.hand_in(recording, [b'"%d"' % self.renewed])
        if self.renewed == 2:
            raise StoreUnavailable
        return runs

    async def take(self, most: int) -> list[bytes]:
        self.looked += 1
        if self.looked == 2:
            raise StoreUnavailable
        return await super().take(most)

    async def end(self, recording: Recording) -> None:
        raise StoreUnavailable


async def test_a_store_that_is_away_for_a_moment_ends_no_recording(
    store_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(replay_record, "Recordings", Failing)
    monkeypatch.setattr(replay_record, "LOOK_SECONDS", 0.0)
    corpus = tmp_path / "corpus"
    arguments = argparse.Namespace(config=tmp_path, model=MODEL, share=1.0, output=corpus, seconds=600.0, count=3)
    config = config_of(store_url, ["127.0.0.1:1"], tenant={"name": "t", "data": {"text": True}})
    store = Store(store_url, timeout=10.0)
    assert await replay_record._live(store, config, arguments) == 0
    await store.aclose()
    assert corpus.read_bytes().splitlines()[1:] == [b'"1"', b'"2"', b'"3"']
    said = capsys.readouterr()
    assert said.out == f"{corpus}: 3 requests\n"
    assert said.err.count("recording waits for the store") == 1
