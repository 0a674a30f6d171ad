"""The section `media`: bounds on images, audio, video and files in chat messages."""

from typing import Annotated, Final, Literal

from msgspec import Meta

from gateway.config.base import Record
from gateway.config.tenants import END

_HOST: Final = rf"^[A-Za-z0-9]([A-Za-z0-9-]{{0,62}})(\.[A-Za-z0-9]([A-Za-z0-9-]{{0,62}}))*{END}"


class Media(Record, frozen=True, kw_only=True):
    """Bounds of what stands in a message beside text. The gateway itself fetches nothing of it."""

    schemes: Annotated[
        tuple[Literal["https", "http", "data"], ...],
        Meta(
            max_length=3,
            description="How a part may be given: in the request (`data`), or as an address that the replica fetches.",
        ),
    ] = ("https", "data")
    hosts: Annotated[
        tuple[Annotated[str, Meta(max_length=253, pattern=_HOST)], ...],
        Meta(
            max_length=256,
            description="Hosts that an address may name, with all names under them; empty: any public one. Addresses "
            "of private networks and names that are known to mean such are refused in any case, but a public name may "
            "still lead to one: only the replica that resolves it can tell.",
        ),
    ] = ()
    max_bytes: Annotated[
        int,
        Meta(
            ge=1024,
            le=1 << 30,
            description="Longest image, sound, video or file in a request, decoded; the whole body is bound by "
            "`listen.max_body_bytes` as well, and is a third longer.",
        ),
    ] = 20 << 20
    max_pixels: Annotated[
        int,
        Meta(
            ge=1024,
            le=1 << 32,
            description="Largest image in a request: width x height, times the number of frames if it is animated.",
        ),
    ] = 64_000_000
    max_parts: Annotated[
        int, Meta(ge=0, le=10_000, description="How many such parts a request may have; 0: none are taken.")
    ] = 100
