"""The seam between an engine's output and whoever asked for it: a worker's session, or a call of the stock service."""

from typing import Protocol

from protos.types import Finish, Load, TokenLogprobs, Work


class Tray(Protocol):
    """Where output is gathered until it can be sent, by stream: no more than was asked for, however slow the peer."""

    def add_tokens(self, stream_id: int, token_ids: list[int], logprobs: list[TokenLogprobs] | None) -> None:
        """New tokens, which the tray may keep and extend; called once per token."""
        ...

    def add_start(self, stream_id: int, cached_tokens: int) -> None:
        """A prompt has been computed."""
        ...

    def add_finish(self, stream_id: int, finish: Finish) -> None:
        """A sequence is over."""
        ...


class Consumer(Protocol):
    """Whose requests an engine runs. Streams are numbered by the consumer, those of one request without gaps."""

    @property
    def outbox(self) -> Tray:
        """Where the output of its requests goes."""
        ...

    def closed(self, stream_id: int) -> None:
        """A sequence takes nothing more."""
        ...

    def forgotten(self, first_stream: int) -> None:
        """A request is over."""
        ...

    def report(self, load: Load, work: Work | None) -> None:
        """There is something to send, or the engine's load is to be told; called at the end of a step."""
        ...
