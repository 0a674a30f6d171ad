"""Error forms: how an API writes errors; every endpoint has one."""

from collections.abc import Callable
from typing import NamedTuple

from gateway.api.server.openai_errors import error_body, error_event
from protos.errors import PenstockError


class ErrorForm(NamedTuple):
    """The encoders of an error: as a body, and as the last event of a stream."""

    body: Callable[[PenstockError], bytes]
    event: Callable[[PenstockError], bytes]


OPENAI_ERRORS = ErrorForm(error_body, error_event)
