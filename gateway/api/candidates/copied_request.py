"""A client's request with its answer, as it is copied."""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from gateway.models.served_model import ServedModel
from gateway.rollouts.comparison.answer import Answer
from gateway.rollouts.comparison.read_adapted import read_message, read_response
from gateway.rollouts.comparison.read_answer import read_answer
from gateway.tenancy.tenants.caller import Caller
from observability.record import RequestRecord

#: Readers of answers, by the endpoint that wrote them.
_READERS: Final[Mapping[str, Callable[[bytes], Answer]]] = {
    "chat": read_answer,
    "completions": read_answer,
    "responses": read_response,
    "messages": read_message,
}


class CopiedRequest(msgspec.Struct, frozen=True):
    """`path` is the completion API's, and `body` as that takes it; `answer` what the client was sent, by the `endpoint`
    that it has asked; `seconds` the whole time until then.
    """

    caller: Caller
    model: ServedModel
    record: RequestRecord
    path: str
    body: bytes
    answer: bytes
    seconds: float
    endpoint: str

    def read_answer(self) -> Answer:
        """Read the client's answer. Raises NotAnAnswer."""
        return _READERS[self.endpoint](self.answer)
