"""What the gateway's own port can do beside plain HTTP/1.1: answers for web pages of other origins, TLS."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import msgspec
from msgspec import Meta

from gateway.config.tenants import Record
from protos import pem

if TYPE_CHECKING:
    from gateway.config.settings import Listen

#: Of a list of origins: all of them.
ANY_ORIGIN: Final = "*"
#: As browsers write one (RFC 6454, 6.2): no path, no slash at the end, lower case.
_ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://([a-z0-9._-]+|\[[0-9a-f:.]+\])(:[0-9]{1,5})?")


class Cors(Record, frozen=True, kw_only=True):
    """Which web pages may call the API from a browser (Cross-Origin Resource Sharing)."""

    origins: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=256)], ...],
        Meta(
            min_length=1,
            max_length=256,
            description="Origins as browsers send them, as in `https://app.example.com`; `*` is all of them. Keys come "
            "in headers and never in cookies, so a page can use only a key that it was given.",
        ),
    ]
    max_age_seconds: Annotated[
        int, Meta(ge=0, le=86_400, description="How long a browser may remember what it was allowed.")
    ] = 600


class ListenTls(Record, frozen=True, kw_only=True):
    """The certificate that clients are shown. It is read at the start: a renewed one counts from the next start on."""

    certificate: Annotated[
        str,
        Meta(min_length=1, description="PEM file of the certificate and those between it and its authority, in order."),
    ]
    key: Annotated[str, Meta(min_length=1, description="PEM file of its private key, not encrypted.")]


def listen_problems(listen: "Listen") -> Iterator[tuple[str, str]]:
    """What is wrong with it beyond its types, as (path, problem)."""
    for o, origin in enumerate(listen.cors.origins if listen.cors is not None else ()):
        if origin not in (ANY_ORIGIN, "null") and not _ORIGIN.fullmatch(origin):
            yield (
                f"listen.cors.origins[{o}]",
                "expected *, or an origin as browsers send it: scheme, host and perhaps a port, in lower case and "
                "without a path, as in https://app.example.com",
            )


def with_absolute_identity(listen: "Listen", folder: Path) -> "Listen":
    """With the certificate's paths taken from a folder. Links stay links: what they lead to may be replaced."""
    if listen.tls is None:
        return listen
    tls = ListenTls(certificate=str(folder / listen.tls.certificate), key=str(folder / listen.tls.key))
    return msgspec.structs.replace(listen, tls=tls)


def unusable_identity(listen: "Listen") -> Iterator[tuple[str, str]]:
    """Why the certificate cannot be used, as (path, problem)."""
    if listen.tls is None:
        return
    try:
        pem.identity(Path(listen.tls.certificate), Path(listen.tls.key))
    except pem.PemError as error:
        yield "listen.tls", str(error)
