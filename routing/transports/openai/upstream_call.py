"""One request at an OpenAI-compatible upstream: what is the same for streams and whole answers."""

from abc import abstractmethod
from typing import Final, Protocol

from protos.errors import PenstockError, ReplicaFailed, ReplicaUnavailable
from protos.types import Payload, Submit
from routing.transports.http.http1_request import Fault, Headers, Http1Request, HttpFailure
from routing.transports.mailbox import Mailbox
from routing.transports.openai.relay import ByteRelay
from routing.transports.openai.upstream_refusals import Refusal, refusal
from routing.transports.openai.upstream_usage import Usage, finishes

#: More of an error's body is not looked at.
MAX_ERROR_BYTES: Final = 64 * 1024


class Upstream(Protocol):
    """Where calls are made (routing/transports/openai/openai_connection.py)."""

    @property
    def model(self) -> str:
        """Its own name of the model."""
        ...

    def answers(self, mailbox: Mailbox, cached_tokens: int) -> None:
        """It has begun to answer well."""
        ...

    def gave_up(self, call: "UpstreamCall", error: PenstockError, what: str) -> None:
        """A call has come to nothing; `what` is for the log."""
        ...

    def refuses(self, call: "UpstreamCall", said: Refusal) -> None:
        """A call was answered with another status than 200."""
        ...


class UpstreamCall(Http1Request):
    """Ends in one way: finished, given up, or stopped. `over` says that it has."""

    #: What an answer must be of.
    media: bytes

    __slots__ = (
        "_error_body",
        "_refused",
        "mailbox",
        "over",
        "payload",
        "relay",
        "request_id",
        "sequences",
        "upstream",
    )

    def __init__(self, upstream: Upstream, request: bytes, payload: Payload, submit: Submit, mailbox: Mailbox) -> None:
        super().__init__(request)
        self.upstream = upstream
        self.payload = payload
        self.mailbox = mailbox
        self.request_id = submit.request_id
        self.sequences = submit.sampling.n
        self.relay: ByteRelay | None = None
        self.over = False
        self._refused: tuple[int, Headers] | None = None
        self._error_body = b""

    @abstractmethod
    def part(self, data: bytes) -> None:
        """A part of a good answer."""

    @abstractmethod
    def whole(self) -> None:
        """A good answer has ended; not called once it is over."""

    def stop(self) -> None:
        """Nobody wants it any more. Idempotent."""
        if not self.over:
            self.over = True
            if self.relay is not None:
                self.relay.drop()
            self.cancel()

    def answered(self, status: int, headers: Headers) -> None:
        """The answer's head."""
        if status != 200:
            self._refused = (status, headers)
            return
        media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media != self.media:
            self.fail(f"it answers with {media[:100].decode('latin-1') or 'no content type'}")

    def received(self, data: bytes) -> None:
        """A part of the answer's body."""
        if self._refused is None:
            self.part(data)
        elif not self.over:
            self._error_body += data
            if len(self._error_body) > MAX_ERROR_BYTES:
                self.cancel()
                self._refuse(*self._refused)

    def ended(self) -> None:
        """The answer is whole."""
        if self.over:
            return
        if self._refused is None:
            self.whole()
        else:
            self._refuse(*self._refused)

    def failed(self, failure: HttpFailure) -> None:
        """Nothing more comes."""
        if self.over:
            return
        error: PenstockError
        if failure.fault is Fault.UNREACHABLE:
            error = ReplicaUnavailable("The model's upstream cannot be reached.")
        else:
            error = ReplicaFailed("The model's upstream did not answer to the end.")
        self.give_up(error, failure.problem)

    def fail(self, what: str) -> None:
        """The upstream's answer is none: end the call with its connection."""
        self.give_up(ReplicaFailed("The model's upstream failed on this request."), what)

    def give_up(self, error: PenstockError, what: str) -> None:
        """End the call with an error."""
        self.over = True
        self.cancel()
        if self.relay is not None:
            self.relay.fail(error)
        self.upstream.gave_up(self, error, what)

    def begin(self, relay: ByteRelay, cached_tokens: int = 0) -> None:
        """The answer is a good one, as far as is known."""
        self.relay = relay
        self.upstream.answers(self.mailbox, cached_tokens)
        self.mailbox.relay(relay)

    def finish(self, usage: Usage | None, cut: set[int]) -> None:
        """The answer is whole, and all of it is in the relay."""
        assert self.relay is not None, "it has begun"
        self.over = True
        self.relay.reasoning_tokens = 0 if usage is None else usage.reasoning_tokens
        self.relay.end()
        mailbox, base = self.mailbox, self.mailbox.base
        for index, end in enumerate(finishes(usage, self.relay.seen, cut, self.sequences)):
            mailbox.finish(index - base, end)

    def _refuse(self, status: int, headers: Headers) -> None:
        self.over = True
        names = (self.upstream.model, self.payload.answer_model)
        self.upstream.refuses(self, refusal(status, headers, self._error_body, names))
