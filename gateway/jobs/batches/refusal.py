"""A request of a batch that does not come so far as to be made."""

import secrets

from gateway.api.server.error_form import OPENAI_ERRORS
from gateway.jobs.batches.request_sender import Reply
from observability.record import RequestRecord
from protos.errors import PenstockError


def refused(error: PenstockError) -> Reply:
    """What it would have been answered."""
    request_id = "req_" + secrets.token_hex(12)
    record = RequestRecord(request_id, "", 0.0, 0.0)
    return Reply(error.status, request_id, OPENAI_ERRORS.body(error), record, error.retryable, error.retry_after or 0.0)
