"""The status of a stored response, in the API's terms."""

from typing import Any, Final

import orjson

from gateway.jobs.responses.response_store import StoredResponse

_LEFT: Final = {
    "code": "server_error",
    "message": "The gateway's worker that was at this response is gone, and its work is lost.",
}


def status_and_body(kept: StoredResponse) -> tuple[str, bytes]:
    """Return its status, and the response as JSON."""
    if kept.abandoned:
        return "failed", _with(kept.response, status="failed", error=_LEFT)
    if kept.goes_on and kept.status != "queued":
        return kept.status, _with(kept.response, status=kept.status)
    return kept.status, kept.response


def cancelled(kept: StoredResponse) -> bytes:
    """Encode the response as cancelled."""
    return _with(kept.response, status="cancelled")


def _with(response: bytes, **fields: Any) -> bytes:
    return orjson.dumps(orjson.loads(response) | fields)
