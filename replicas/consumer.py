"""Protocols for the receivers of an engine's output: a worker's session, or a call of the stock service."""

from typing import Protocol

from protos.types import Finish, Load, TokenLogprobs, Work


class OutputBuffer(Protocol):
    """Buffers output by stream until it can be sent; bounded by what was requested, however slow the peer."""

    def add_tokens(self, stream_id: int, token_ids: list[int], logprobs: list[TokenLogprobs] | None) -> None:
        """Add tokens; the tray may keep and extend `token_ids`. Called once per token."""
        ...

    def add_start(self, stream_id: int, cached_tokens: int) -> None:
        """Note that a prompt has been computed."""
        ...

    def add_finish(self, stream_id: int, finish: Finish) -> None:
        """Add a sequence's end."""
        ...


class Consumer(Protocol):
    """The sender of requests to an engine. It numbers the streams, those of one request without gaps."""

    @property
    def outbox(self) -> OutputBuffer:
        """Buffer for the output of its requests."""
        ...

    def closed(self, stream_id: int) -> None:
        """Note that a sequence has ended."""
        ...

    def request_ended(self, first_stream: int) -> None:
        """Note that a request has ended."""
        ...

    def report(self, load: Load, work: Work | None) -> None:
        """Send what is buffered and the engine's load; called at the end of a step."""
        ...
