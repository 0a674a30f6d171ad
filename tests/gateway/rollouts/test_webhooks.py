import asyncio

import msgspec

from gateway.rollouts.webhooks import MOST_WAITING, MOST_WEBHOOKS, Webhooks
from gateway.tenancy.limits.post_json import WebhookFailed
from routing.rollouts.rollout import Event
from tests.loops import until


def event(number: int) -> Event:
    return Event(
        rollout="r",
        number=number,
        at=1.0,
        model="m",
        candidate="v2",
        phase="shifting",
        share=0.1,
        cause="held",
        reason="as told",
    )


async def test_events_come_in_their_order_and_a_failure_is_tried_again() -> None:
    got: list[int] = []
    failures = [WebhookFailed("refused"), WebhookFailed("refused")]

    async def post(url: str, body: bytes) -> None:
        if failures:
            raise failures.pop()
        told = msgspec.json.decode(body)
        assert (url, told["type"], told["phase"], told["share"]) == ("http://hook", "rollout", "shifting", 0.1)
        got.append(told["number"])

    webhooks = Webhooks("rollout", post, retries=(0.0, 0.0, 0.0))
    for number in range(5):
        webhooks.announce("http://hook", event(number))
    webhooks.announce(None, event(9))
    await until(lambda: len(got) == 5)
    assert (got, webhooks.lost) == ([0, 1, 2, 3, 4], 0)


async def test_a_webhook_that_hangs_holds_nothing_up_and_what_waits_is_bounded() -> None:
    hangs, got = asyncio.Event(), []

    async def post(url: str, body: bytes) -> None:
        if url.startswith("http://hangs"):
            await hangs.wait()
        else:
            got.append(msgspec.json.decode(body)["number"])

    webhooks = Webhooks("rollout", post, retries=())
    for number in range(MOST_WAITING + 10):
        webhooks.announce("http://hangs", event(number))
    # The first is under way by the next turn of the loop; of the others, the newest are kept.
    assert len(webhooks._waiting["http://hangs"]) == MOST_WAITING
    assert webhooks.lost == 10
    webhooks.announce("http://hook", event(1))
    await until(lambda: got == [1])
    for number in range(MOST_WEBHOOKS + 5):
        webhooks.announce(f"http://hangs/{number}", event(number))
    assert len(webhooks._waiting) <= MOST_WEBHOOKS
    hangs.set()
    await webhooks.aclose()
    assert not webhooks._tasks
