"""Paged lists in OpenAI's form: `limit`, `order` and `after`."""

from collections.abc import Collection, Sequence
from typing import Any, Final

from gateway.jobs.files.file_store import Page
from protos.errors import InvalidRequest

_ORDERS: Final = ("asc", "desc")


def parse_page(query: dict[str, str], most: int, default: int, more: Collection[str] = ()) -> Page:
    """Parse a page from a query string, which may have the parameters `more`, too. Raises InvalidRequest."""
    for name in query:
        if name not in ("limit", "order", "after", *more):
            raise InvalidRequest(f"Unrecognized request argument supplied: {name[:64]}", param=name[:64])
    limit, order = query.get("limit", str(default)), query.get("order", "desc")
    if not limit.isdecimal() or len(limit) > 6 or not 1 <= int(limit) <= most:
        raise InvalidRequest(f"Invalid value for 'limit': expected an integer from 1 to {most}.", param="limit")
    if order not in _ORDERS:
        raise InvalidRequest("Invalid value for 'order': expected 'asc' or 'desc'.", param="order")
    return Page(query.get("after", ""), int(limit), ascending=order == "asc")


def page_object(data: Sequence[dict[str, Any]], *, more: bool) -> dict[str, Any]:
    """Make the list object of a page."""
    ends = {"first_id": data[0]["id"], "last_id": data[-1]["id"]} if data else {"first_id": None, "last_id": None}
    return {"object": "list", "data": data, **ends, "has_more": more}
