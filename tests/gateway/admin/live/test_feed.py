"""One poller for all viewers: it runs while somebody looks, and no viewer holds it up."""

import asyncio
from typing import Any

import msgspec
import pytest

from gateway.admin.live.feed import MAX_VIEWERS, Feed, FeedClosed
from gateway.admin.live.live_stream import LiveStream
from protos.errors import Overloaded
from tests.loops import until


class Numbered(msgspec.Struct):
    number: int


class Looker:
    """Counts its looks; fails at some."""

    def __init__(self, fails: frozenset[int] = frozenset()) -> None:
        self.looks = 0
        self._fails = fails

    async def __call__(self) -> Numbered:
        self.looks += 1
        if self.looks in self._fails:
            raise RuntimeError("no luck")
        return Numbered(self.looks)


def feed_of(looker: Looker, linger: float = 0.0) -> Feed:
    return Feed(looker, seconds=0.005, linger=linger)


class Viewer:
    """A server's end of one stream, with a client that takes all, or nothing after the first `takes` messages."""

    def __init__(self, feed: Feed, takes: int = 10**9, stall_seconds: float = 0.05, method: str = "GET") -> None:
        self.sent: list[Any] = []
        self._takes = takes
        self._left = asyncio.Event()
        stream = LiveStream(feed, stall_seconds=stall_seconds)
        self.task = asyncio.ensure_future(stream({"type": "http", "method": method}, self._receive, self._send))

    async def _receive(self) -> Any:
        await self._left.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Any) -> None:
        if len(self.sent) >= self._takes:
            await asyncio.Event().wait()
        self.sent.append(message)

    def leave(self) -> None:
        self._left.set()

    @property
    def numbers(self) -> list[int]:
        bodies = [message["body"] for message in self.sent[1:] if message["body"]]
        assert all(body.startswith(b"event: live\ndata: ") and body.endswith(b"\n\n") for body in bodies)
        return [msgspec.json.decode(body.split(b"data: ")[1])["number"] for body in bodies]


async def test_all_viewers_share_one_poller_that_ends_with_the_last() -> None:
    looker = Looker()
    feed = feed_of(looker)
    viewers = [Viewer(feed) for _ in range(5)]
    await until(lambda: all(len(viewer.numbers) > 5 for viewer in viewers))
    assert max(viewer.numbers[-1] for viewer in viewers) <= looker.looks
    for viewer in viewers:
        assert viewer.numbers == sorted(set(viewer.numbers))
        viewer.leave()
        await viewer.task
    assert feed.viewers == 0
    assert feed._task is not None
    await feed._task
    looks = looker.looks
    late = Viewer(feed)
    await until(lambda: looker.looks > looks)
    late.leave()
    await late.task
    await feed.aclose()


async def test_nobody_looks_nothing_is_polled() -> None:
    looker = Looker()
    feed = feed_of(looker)
    await asyncio.sleep(0.02)
    assert looker.looks == 0
    await feed.aclose()


async def test_a_viewer_that_stalls_is_let_go_and_holds_nobody_up() -> None:
    feed = feed_of(Looker())
    stalled, good = Viewer(feed, takes=2), Viewer(feed)
    await stalled.task
    assert stalled.numbers == [1] or len(stalled.numbers) == 1
    assert [message.get("more_body") for message in stalled.sent[1:]] == [True], "it has no end"
    assert feed.viewers == 1
    seen = len(good.numbers)
    await until(lambda: len(good.numbers) > seen + 5)
    good.leave()
    await good.task
    await feed.aclose()


async def test_a_slow_viewer_skips_what_it_has_missed() -> None:
    looker = Looker()
    feed = feed_of(looker)
    with feed.viewer():
        first = await feed.after(0)
        await until(lambda: looker.looks > first.number + 3)
        later = await feed.after(first.number)
        assert later.number > first.number + 1
    await feed.aclose()


async def test_there_are_only_so_many_viewers() -> None:
    feed = feed_of(Looker())
    viewers = [Viewer(feed) for _ in range(MAX_VIEWERS)]
    await until(lambda: feed.viewers == MAX_VIEWERS)
    with pytest.raises(Overloaded):
        feed.check_room()
    # One that was let in at the same moment as the last gets an empty stream.
    late = Viewer(feed)
    await late.task
    assert late.numbers == []
    assert late.sent[-1]["more_body"] is False
    viewers[0].leave()
    await viewers[0].task
    feed.check_room()
    await feed.aclose()
    for viewer in viewers:
        await viewer.task


async def test_closing_ends_all_streams_as_they_should_end() -> None:
    feed = feed_of(Looker())
    viewers = [Viewer(feed) for _ in range(3)]
    await until(lambda: all(viewer.numbers for viewer in viewers))
    await feed.aclose()
    await feed.aclose()
    for viewer in viewers:
        await viewer.task
        assert viewer.sent[-1] == {"type": "http.response.body", "body": b"", "more_body": False}
    with pytest.raises(FeedClosed):
        await feed.after(10**9)
    with pytest.raises(Overloaded):
        feed.check_room()


async def test_a_look_that_fails_is_followed_by_others(caplog: pytest.LogCaptureFixture) -> None:
    feed = feed_of(Looker(frozenset((1, 3))))
    viewer = Viewer(feed)
    await until(lambda: len(viewer.numbers) >= 2)
    assert viewer.numbers[:2] == [2, 4]
    viewer.leave()
    await viewer.task
    await feed.aclose()
    assert "cannot look at the gateway" in caplog.text


async def test_one_that_asks_again_soon_finds_what_there_is() -> None:
    looker = Looker()
    feed = feed_of(looker, linger=30.0)
    with feed.viewer():
        first = await feed.after(0)
    await until(lambda: looker.looks > 3)
    with feed.viewer():
        assert (await feed.after(0)).number >= 3 > first.number
    await feed.aclose()


async def test_head_has_no_body() -> None:
    looker = Looker()
    viewer = Viewer(feed_of(looker), method="HEAD")
    await viewer.task
    assert [message.get("body", b"") for message in viewer.sent] == [b"", b""]
    assert looker.looks == 0
