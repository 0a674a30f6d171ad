"""The seam through which requests are copied: to a candidate version, or into a corpus."""

from typing import Protocol

from gateway.api.server.http_exchange import HttpExchange
from gateway.inference.generate_request import GenerateRequest


class AnswerCopies(Protocol):
    """Copies requests of one worker."""

    def begin(self, exchange: HttpExchange, request: GenerateRequest, path: str, body: bytes, endpoint: str) -> None:
        """Hear of a request whose answer is about to begin. Neither waits nor raises.

        `path` is the completion API's, and `body` as that takes it: what the client sent, or what an API on top of it
        has made of that. `endpoint` is the one that the client has asked, and that writes the answer.
        """
        ...
