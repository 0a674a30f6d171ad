"""Stream the events of a background response from the store as they come."""

import asyncio
import re
from typing import Final

from gateway.api.responses.errors import error_event
from gateway.api.responses.response_status import status_and_body
from gateway.api.server.http_exchange import HttpExchange
from gateway.api.server.services import Services
from gateway.jobs.responses.response_space import unpacked
from gateway.jobs.responses.response_store import ENDED
from protos.errors import InvalidRequest, PenstockError

#: Seconds between reads of the store.
POLL_SECONDS: Final = 0.25
#: The beginning of every event: its name and its number.
_NUMBER: Final = re.compile(rb'^event: [a-z_.]+\ndata: \{"type":"[a-z_.]+","sequence_number":(\d+)')


async def follow(services: Services, exchange: HttpExchange, tenant: str, response_id: str, after: int = -1) -> None:
    """Send the events with numbers above `after`, to the last. Raises errors with a status."""
    store = services.responses
    found = await store.follow(tenant, response_id, 0)
    if not found.background:
        raise InvalidRequest("Only responses that were created in the background can be streamed.", param="stream")
    exchange.limit(services.intake.deadline(None))
    known, last = 0, after
    await exchange.start_stream()
    try:
        while True:
            known += len(found.parts)
            for part in found.parts:
                events, last = _later(await unpacked(part), last)
                if events:
                    await exchange.write(events)
            if found.status in ENDED or found.abandoned:
                break
            await asyncio.sleep(POLL_SECONDS)
            exchange.handle.check()
            found = await store.follow(tenant, response_id, known)
        end = b""
        if found.abandoned or (found.status != "cancelled" and not known):
            # Events of an abandoned or long-ended response are gone; the response itself remains.
            stored = await store.get(tenant, response_id)
            status, response = status_and_body(stored)
            end = b'event: response.%b\ndata: {"type":"response.%b","sequence_number":%d,"response":%b}\n\n' % (
                status.encode(), status.encode(), last + 1, response,
            )  # fmt: skip
        await exchange.end(end)
    except PenstockError as error:
        exchange.note_failure(error)
        await exchange.end(error_event(error, last + 1))
    finally:
        exchange.unwatch()


def _later(part: bytes, after: int) -> tuple[bytes, int]:
    """Return the events with higher numbers, and the highest number of all."""
    shown, last = [], after
    for event in part.split(b"\n\n"):
        number = _NUMBER.match(event)
        if number is not None and int(number[1]) > after:
            shown.append(event + b"\n\n")
            last = max(last, int(number[1]))
    return b"".join(shown), last
