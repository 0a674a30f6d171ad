"""The operation that returns live snapshots, one or a stream of them."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from gateway.admin.live.feed import FeedClosed
from gateway.admin.live.live_stream import LiveStream
from gateway.admin.live.view import Live
from gateway.admin.operation import Call, Operation
from gateway.config.base import Record
from protos.errors import Overloaded

#: A single snapshot waits for at most this many others, until there are rates.
_MOST_WAITS: Final = 4


class LiveQuery(Record, frozen=True, kw_only=True):
    """Query parameters: one snapshot or a stream."""

    once: Annotated[Literal["1"] | None, Meta(description="`1`: one look, as JSON, instead of a stream of events.")] = (
        None
    )


async def get_live(call: Call[LiveQuery, None]) -> Live | LiveStream:
    """Return one snapshot, or one each second as server-sent events."""
    feed = call.service.live
    if call.query.once is None:
        feed.check_room()
        return LiveStream(feed)
    try:
        with feed.viewer():
            item = await feed.after(0)
            for _ in range(_MOST_WAITS):
                live = item.value
                assert isinstance(live, Live)
                # Where nothing is counted there will be no rates.
                if live.seconds or live.headline.in_flight is None:
                    break
                item = await feed.after(item.number)
            assert isinstance(live, Live)
            return live
    except FeedClosed:
        raise Overloaded("The admin API is shutting down.") from None


OPERATIONS: Final = (
    Operation(
        "GET",
        "/admin/live",
        "getLive",
        "How the gateway does now, once a second: `live` events, whose data is this object",
        get_live,
        Live,
        LiveQuery,
        errors=(Overloaded,),
        streamed=True,
    ),
)
