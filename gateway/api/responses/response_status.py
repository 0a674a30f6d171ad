"""The status of a stored response, in the API's terms."""

from typing import Any, Final

import orjson

from gateway.jobs.responses.response_store import StoredResponse

_LEFT: Final = {
    "code": "server_error",
    "message": "The gateway's worker that was at this response is gone, and its work is lost.",
}


def status_and_body(stored: StoredResponse) -> tuple[str, bytes]:
    """Return its status, and the response as JSON."""
    if stored.abandoned:
        return "failed", _with(stored.response, status="failed", error=_LEFT)
    if stored.goes_on and stored.status != "queued":
        return stored.status, _with(stored.response, status=stored.status)
    return stored.status, stored.response


def cancelled(stored: StoredResponse) -> bytes:
    """Encode the response as cancelled."""
    return _with(stored.response, status="cancelled")


def _with(response: bytes, **fields: Any) -> bytes:
    return orjson.dumps(orjson.loads(response) | fields)
