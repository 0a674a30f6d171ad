"""The call for a streamed answer of an OpenAI-compatible upstream."""

from typing import Final

from protos.types import Payload, Submit
from routing.transports.mailbox import Mailbox
from routing.transports.openai.events import MAX_EVENT_BYTES, BadStream, EventStream
from routing.transports.openai.relay import ByteRelay
from routing.transports.openai.upstream_call import Upstream, UpstreamCall

#: Ticks of the pool within which the answer's end must follow its end mark.
_END_TICKS: Final = 8


class StreamCall(UpstreamCall):
    """Relays events as they come, from the first one with data on."""

    media = b"text/event-stream"

    __slots__ = ("_events", "_feed", "_first")

    def __init__(self, upstream: Upstream, request: bytes, payload: Payload, submit: Submit, mailbox: Mailbox) -> None:
        super().__init__(upstream, request, payload, submit, mailbox)
        self._events = EventStream(payload.answer_model, usage=payload.usage, sequences=submit.sampling.n)
        self._feed = self._events.feed
        #: Comments before the first event.
        self._first = b""

    def body_part(self, data: bytes) -> None:
        """Take a part of the stream, cut anywhere."""
        if self.over:
            self.cancel()  # data follows the end mark
            return
        try:
            shown = self._feed(data)
        except BadStream as error:
            if error.error:
                self.fail_with(error.error, error.problem)
            else:
                self.fail(error.problem)
            return
        events, relay = self._events, self.relay
        if relay is None:
            self._begin(shown)
        elif shown:
            relay.put(shown)
        if events.done and not self.over:
            self._finish()

    def body_ended(self) -> None:
        """End the body, which is too early unless the answer was complete."""
        end = self._events.close()
        if not self._events.done or self.relay is None:
            self.fail("its stream stopped before its end")
            return
        self.relay.put(end)
        self._finish()

    def _begin(self, shown: bytes) -> None:
        self._first += shown
        if self._events.seen:
            relay = ByteRelay(self._events, streamed=True, pause=self.pause, resume=self.resume)
            relay.put(self._first)
            self._first = b""
            self.begin(relay)
        elif self._events.done:
            self.fail("its stream has no events")
        elif len(self._first) > MAX_EVENT_BYTES:
            self.fail("its stream is comments alone")

    def _finish(self) -> None:
        carrier = self.carrier
        if self._events.surplus:
            self.cancel()
        elif carrier is not None:
            carrier.expect_end(_END_TICKS)
        self.finish(self._events.cut)
