"""TLS certificates in the configuration: paths and checks."""

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from gateway.config.models.settings import Model, Pool
from protos import pem


def with_absolute_certificates(model: Model, folder: Path) -> Model:
    """Give the model with its pools' certificate paths made absolute under `folder`."""
    return msgspec.structs.replace(model, pools=tuple(_absolute(pool, folder) for pool in model.pools))


def certificate_problems(model: Model, where: str) -> Iterator[tuple[str, str]]:
    """Yield (path, problem) for each certificate or key file that cannot be used; the problem names the file."""
    for index, pool in enumerate(model.pools):
        tls, inside = pool.tls, f"{where}.pools[{index}].tls"
        if tls is None:
            continue
        if (ca := tls.path("ca")) is not None and (problem := _problem_of_authorities(ca)):
            yield f"{inside}.ca", problem
        certificate, key = tls.path("certificate"), tls.path("key")
        if certificate is not None and key is not None and (problem := _problem_of_identity(certificate, key)):
            yield inside, problem


def _absolute(pool: Pool, folder: Path) -> Pool:
    tls = pool.tls
    if tls is None:
        return pool
    tls = msgspec.structs.replace(
        tls, ca=_under(folder, tls.ca), certificate=_under(folder, tls.certificate), key=_under(folder, tls.key)
    )
    return msgspec.structs.replace(pool, tls=tls)


def _under(folder: Path, path: str | None) -> str | None:
    # Symbolic links stay: Kubernetes renews files by replacing their targets.
    return None if path is None else os.path.abspath(folder / path)


def _problem_of_authorities(path: Path) -> str:
    try:
        pem.authorities(path)
    except pem.PemError as error:
        return str(error)
    return ""


def _problem_of_identity(certificate: Path, key: Path) -> str:
    try:
        pem.identity(certificate, key)
    except pem.PemError as error:
        return str(error)
    return ""
