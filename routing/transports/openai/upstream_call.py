"""One request at an OpenAI-compatible upstream: the common base for streamed and JSON answers."""

from abc import abstractmethod
from typing import Final, Protocol

from protos.errors import PenstockError, ReplicaFailed, ReplicaUnavailable
from protos.types import Payload, Submit
from routing.transports.http.http1_request import Fault, Headers, Http1Request, HttpFailure
from routing.transports.mailbox import Mailbox
from routing.transports.openai.relay import ByteRelay
from routing.transports.openai.upstream_refusals import Refusal, refusal, refusal_within
from routing.transports.openai.upstream_usage import finishes

#: Bound on the part of an error's body that is read.
MAX_ERROR_BYTES: Final = 64 * 1024


class Upstream(Protocol):
    """Callbacks of a call to its transport (routing/transports/openai/openai_connection.py)."""

    @property
    def model(self) -> str:
        """The upstream's own name of the model."""
        ...

    def answers(self, mailbox: Mailbox, cached_tokens: int) -> None:
        """A successful answer has begun."""
        ...

    def gave_up(self, call: "UpstreamCall", error: PenstockError, what: str) -> None:
        """A call has failed; `what` is for the log."""
        ...

    def refuses(self, call: "UpstreamCall", said: Refusal) -> None: ...


class UpstreamCall(Http1Request):
    """An HTTP exchange with exactly one ending: finished, given up, or stopped; then `over` is set."""

    #: Media type that the answer must have.
    media: bytes

    __slots__ = (
        "_error_body",
        "_refused",
        "adapter",
        "mailbox",
        "over",
        "payload",
        "relay",
        "request_id",
        "sequences",
        "tenant",
        "upstream",
    )

    def __init__(self, upstream: Upstream, request: bytes, payload: Payload, submit: Submit, mailbox: Mailbox) -> None:
        super().__init__(request)
        self.upstream = upstream
        self.payload = payload
        self.mailbox = mailbox
        self.request_id = submit.request_id
        #: Whose request it is, as its cache salt says, and whether it is for an adapter.
        self.tenant = submit.cache_salt
        self.adapter = submit.adapter is not None
        self.sequences = submit.sampling.n
        self.relay: ByteRelay | None = None
        self.over = False
        self._refused: tuple[int, Headers] | None = None
        self._error_body = b""

    @abstractmethod
    def body_part(self, data: bytes) -> None:
        """Take a part of a successful answer."""

    @abstractmethod
    def body_ended(self) -> None:
        """The body of a successful answer has ended; not called once it is over."""

    def stop(self) -> None:
        """Cancel the call. Idempotent."""
        if not self.over:
            self.over = True
            if self.relay is not None:
                self.relay.drop()
            self.cancel()

    def answered(self, status: int, headers: Headers) -> None:
        if status != 200:
            self._refused = (status, headers)
            return
        media = headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
        if media != self.media:
            self.fail(f"it answers with {media[:100].decode('latin-1') or 'no content type'}")

    def received(self, data: bytes) -> None:
        if self._refused is None:
            self.body_part(data)
        elif not self.over:
            self._error_body += data
            if len(self._error_body) > MAX_ERROR_BYTES:
                self.cancel()
                self._refuse(*self._refused)

    def ended(self) -> None:
        if self.over:
            return
        if self._refused is None:
            self.body_ended()
        else:
            self._refuse(*self._refused)

    def failed(self, failure: HttpFailure) -> None:
        if self.over:
            return
        error: PenstockError
        if failure.fault is Fault.UNREACHABLE:
            error = ReplicaUnavailable("The model's upstream cannot be reached.")
        else:
            error = ReplicaFailed("The model's upstream did not answer to the end.")
        self.give_up(error, failure.problem)

    def fail(self, what: str) -> None:
        """Fail the call for an invalid answer and close its connection."""
        self.give_up(ReplicaFailed("The model's upstream failed on this request."), what)

    def fail_with(self, error_object: bytes, what: str) -> None:
        """Fail the call for an error object in an answer with a good status, and close its connection."""
        said = refusal_within(error_object, self._names)
        if said is None:
            self.fail(what)
            return
        self.over = True
        self.cancel()
        if self.relay is not None:
            self.relay.fail(said.error)
        self.upstream.refuses(self, said)

    def give_up(self, error: PenstockError, what: str) -> None:
        """End the call with an error."""
        self.over = True
        self.cancel()
        if self.relay is not None:
            self.relay.fail(error)
        self.upstream.gave_up(self, error, what)

    def begin(self, relay: ByteRelay, cached_tokens: int = 0) -> None:
        """Begin to relay a successful answer."""
        self.relay = relay
        self.upstream.answers(self.mailbox, cached_tokens)
        self.mailbox.relay(relay)

    def finish(self, cut: set[int]) -> None:
        """Finish the call: the answer is complete, and all of it and what it says of its usage is in the relay."""
        relay = self.relay
        assert relay is not None, "it has begun"
        self.over = True
        relay.end()
        mailbox, base = self.mailbox, self.mailbox.base
        for index, end in enumerate(finishes(relay.counts, relay.seen, cut, self.sequences)):
            mailbox.finish(index - base, end)

    def _refuse(self, status: int, headers: Headers) -> None:
        self.over = True
        self.upstream.refuses(self, refusal(status, headers, self._error_body, self._names))

    @property
    def _names(self) -> tuple[str, str]:
        return self.upstream.model, self.payload.answer_model
