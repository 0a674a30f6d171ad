"""The section `listen`: address, bounds of requests, CORS and TLS."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.media import Media
from gateway.config.network.hosts import host_problems
from gateway.config.network.proxies import proxy_problems
from protos import pem

#: The origin that stands for every origin.
ANY_ORIGIN: Final = "*"
#: An origin as browsers write it (RFC 6454, 6.2): no path, no slash at the end, lower case.
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


class Listen(Record, frozen=True, kw_only=True):
    """Where the gateway listens, and the bounds of what it accepts."""

    host: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=255,
            description="Address or name to listen on; `0.0.0.0` is every IPv4 interface, `::` every interface. A name "
            "is resolved at the start, to IPv4 if it can be.",
        ),
    ] = "127.0.0.1"
    port: Annotated[int, Meta(ge=1, le=65535, description="TCP port.")] = 8080
    workers: Annotated[
        Literal["auto"] | Annotated[int, Meta(ge=1, le=256)],
        Meta(description="Worker processes; `auto` is one for each CPU core that the process may use."),
    ] = "auto"
    unavailable_tools: Annotated[
        Literal["drop", "refuse"],
        Meta(
            description="What becomes of tools that no model here can have, as `web_search` and other tools of a "
            "provider, which coding agents offer with every request to `/v1/responses` and `/v1/messages`. `drop`: the "
            "model is not offered them, as `x-penstock-adjusted` says. `refuse`: 400."
        ),
    ] = "drop"
    max_body_bytes: Annotated[
        int,
        Meta(ge=1024, le=1 << 30, description="Longest request body, in bytes; a longer one is answered with 413."),
    ] = 8 << 20
    max_in_flight: Annotated[
        int,
        Meta(ge=1, le=1_000_000, description="Requests that one worker holds at once; one more is answered with 503."),
    ] = 4096
    grace_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="Time after SIGTERM in which requests are still taken, in seconds: `/readyz` is 503 at once, "
            "and each answer ends its connection. It should be longer than a load balancer needs to notice.",
        ),
    ] = 5.0
    drain_seconds: Annotated[
        float,
        Meta(ge=0, le=3600, description="Time that running requests get to finish after that, in seconds."),
    ] = 30.0
    header_timeout_seconds: Annotated[
        int,
        Meta(
            ge=1,
            le=60,
            description="Time in which a client must have sent its request's headers, in seconds. An idle keep-alive "
            "connection is closed after it too, so it should be longer than what a load balancer keeps idle.",
        ),
    ] = 60
    request_timeout_seconds: Annotated[
        float,
        Meta(gt=0, le=86_400, description="Longest life of one request, its whole stream included, in seconds."),
    ] = 600.0
    media: Annotated[Media, Meta(description="Images, audio, video and files in chats; models need not take them.")] = (
        Media()
    )
    stream_keep_alive_seconds: Annotated[
        float,
        Meta(
            ge=0,
            le=3600,
            description="After so long without an event a stream gets a comment, which clients pass over and proxies "
            "take for life, in whole seconds; 0: never.",
        ),
    ] = 15.0
    trusted_proxies: Annotated[
        tuple[Annotated[str, Meta(min_length=1, max_length=64)], ...],
        Meta(
            max_length=256,
            description="Addresses and blocks (`10.0.0.0/8`) of the proxies before the gateway: from them the client's "
            "address is taken of `X-Forwarded-For`, else of `Forwarded`, else of `X-Real-IP`. From anybody else these "
            "headers are ignored.",
        ),
    ] = ()
    cors: Annotated[Cors | None, Meta(description="Web pages that may call the API; unset: none.")] = None
    tls: Annotated[ListenTls | None, Meta(description="Serve HTTPS; unset: HTTP.")] = None
    http2: Annotated[
        bool,
        Meta(
            description="Speak HTTP/2 too: with TLS to those who ask for it, without TLS to those who begin with it. "
            "Then a connection on which nothing is sent is not closed after `header_timeout_seconds`, so have "
            "something in front of the gateway that does."
        ),
    ] = False

    def worker_count(self, cores: int) -> int:
        """Number of workers to start for `cores` usable CPU cores."""
        return max(1, cores) if self.workers == "auto" else self.workers


def listen_problems(listen: Listen) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each rule that the types cannot say."""
    yield from host_problems(listen.host, "listen.host")
    yield from proxy_problems(listen.trusted_proxies, "listen.trusted_proxies")
    for o, origin in enumerate(listen.cors.origins if listen.cors is not None else ()):
        if origin not in (ANY_ORIGIN, "null") and not _ORIGIN.fullmatch(origin):
            yield (
                f"listen.cors.origins[{o}]",
                "expected *, or an origin as browsers send it: scheme, host and perhaps a port, in lower case and "
                "without a path, as in https://app.example.com",
            )


def with_absolute_identity(listen: Listen, folder: Path) -> Listen:
    """Give the settings with certificate paths made absolute. Symbolic links stay: their targets may be replaced."""
    if listen.tls is None:
        return listen
    tls = ListenTls(certificate=str(folder / listen.tls.certificate), key=str(folder / listen.tls.key))
    return msgspec.structs.replace(listen, tls=tls)


def unusable_identity(listen: Listen) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) if the certificate cannot be used."""
    if listen.tls is None:
        return
    try:
        pem.identity(Path(listen.tls.certificate), Path(listen.tls.key))
    except pem.PemError as error:
        yield "listen.tls", str(error)
