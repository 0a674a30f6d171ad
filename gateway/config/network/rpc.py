"""The sections `epp` and `external_scaler`: what the gateway's own gRPC servers listen on."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta

from gateway.config.base import Record
from gateway.config.network.hosts import host_problems
from protos import pem

_Port = Annotated[int, Meta(ge=1, le=65535)]
_File = Annotated[str, Meta(min_length=1)]


class RpcTls(Record, frozen=True, kw_only=True):
    """PEM files, relative to this file's folder. New connections get the files as they are then."""

    certificate: Annotated[
        _File, Meta(description="PEM file of the certificate and those between it and its authority, in order.")
    ]
    key: Annotated[_File, Meta(description="PEM file of its private key, not encrypted.")]
    client_ca: Annotated[
        _File | None,
        Meta(
            description="PEM file of authorities: peers must show a certificate of theirs. Unset: anybody may connect."
        ),
    ] = None


class RpcListen(Record, frozen=True, kw_only=True):
    """Where a gRPC server listens."""

    host: Annotated[
        str,
        Meta(min_length=1, max_length=255, description="Address or name to listen on; keep it away from clients."),
    ] = "127.0.0.1"
    tls: Annotated[RpcTls | None, Meta(description="Unset: without TLS.")] = None


class EndpointPicker(RpcListen, frozen=True, kw_only=True):
    """The endpoint picker, which `penstock epp` serves to proxies by Envoy's external processing."""

    port: Annotated[_Port, Meta(description="TCP port of external processing, and of gRPC's health service.")] = 9002
    health_port: Annotated[
        _Port, Meta(description="TCP port of the same health service, always without TLS: for probes.")
    ] = 9003
    metrics_port: Annotated[_Port, Meta(description="TCP port of `/metrics`, over HTTP.")] = 9090
    leader_election: Annotated[
        bool,
        Meta(
            description="Only one of several processes with the same store is healthy, the holder of a lease there; "
            "the others stand by. Else each is, and they know nothing of what the others have sent where."
        ),
    ] = False


class ExternalScaler(RpcListen, frozen=True, kw_only=True):
    """KEDA's external scaler, which the controller's process serves."""

    port: Annotated[_Port, Meta(description="TCP port.")] = 9004


def rpc_problems(picker: EndpointPicker, scaler: ExternalScaler | None) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each violated rule."""
    yield from host_problems(picker.host, "epp.host")
    seen: dict[int, str] = {}
    for name in ("port", "health_port", "metrics_port"):
        first = seen.setdefault(getattr(picker, name), name)
        if first != name:
            yield f"epp.{name}", f"epp.{first} has that port already"
    if scaler is not None:
        yield from host_problems(scaler.host, "external_scaler.host")


def unusable_rpc_files(listen: RpcListen, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each file of a server's TLS that cannot be used."""
    tls = listen.tls
    if tls is None:
        return
    try:
        pem.identity(Path(tls.certificate), Path(tls.key))
    except pem.PemError as error:
        yield f"{where}.tls", str(error)
    if tls.client_ca is not None:
        try:
            pem.authorities(Path(tls.client_ca))
        except pem.PemError as error:
            yield f"{where}.tls.client_ca", str(error)


def with_absolute_picker(picker: EndpointPicker, folder: Path) -> EndpointPicker:
    """Give the settings with absolute paths."""
    return msgspec.structs.replace(picker, tls=_absolute(picker.tls, folder))


def with_absolute_scaler(scaler: ExternalScaler | None, folder: Path) -> ExternalScaler | None:
    """Give the settings with absolute paths."""
    return None if scaler is None else msgspec.structs.replace(scaler, tls=_absolute(scaler.tls, folder))


def _absolute(tls: RpcTls | None, folder: Path) -> RpcTls | None:
    if tls is None:
        return None
    # Symbolic links stay: Kubernetes renews files by replacing their targets.
    return RpcTls(
        certificate=os.path.abspath(folder / tls.certificate),
        key=os.path.abspath(folder / tls.key),
        client_ca=None if tls.client_ca is None else os.path.abspath(folder / tls.client_ca),
    )
