"""Read the PEM files of a TLS hop, for both of its ends: whole, checked, and with errors that name the file."""

import ssl
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

#: A bundle of all public authorities has about 250 kB.
MAX_BYTES = 4 << 20


class PemError(Exception):
    """A PEM file cannot be used; the text is one line that names it and never shows its contents."""


def authorities(path: Path) -> bytes:
    """Read the certificates of a file of authorities. Raises PemError."""
    data = read(path)
    try:
        # OpenSSL accepts bundles of public authorities with, for example, outdated forms of serial numbers.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii", "ignore"))
    except (ssl.SSLError, ValueError):
        raise PemError(f"{path} has no certificate in PEM form") from None
    return data


def identity(certificate: Path, key: Path) -> tuple[bytes, bytes]:
    """Read a certificate, with its intermediates, and its private key. Raises PemError."""
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_private_key

    chain, secret = read(certificate), read(key)
    first = _certificates(certificate, chain)[0]
    try:
        public = load_pem_private_key(secret, password=None).public_key()
    except TypeError:
        raise PemError(f"{key} is encrypted; give the key without a password") from None
    except Exception:
        # The library raises many kinds of errors, whose texts are of no use to an operator.
        raise PemError(f"{key} has no private key in PEM form") from None
    form = (Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    try:
        certified = first.public_key().public_bytes(*form)
    except Exception:
        raise PemError(f"{certificate} is for a key of an unknown kind") from None
    if public.public_bytes(*form) != certified:
        raise PemError(f"{key} is not the key of the certificate in {certificate}")
    return chain, secret


def read(path: Path) -> bytes:
    """Read the bytes of a file. Raises PemError."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise PemError(f"{path} cannot be read: {error.strerror or error}") from None
    if len(data) > MAX_BYTES:
        raise PemError(f"{path} has more than {MAX_BYTES >> 20} MB")
    return data


def _certificates(path: Path, data: bytes) -> "list[Certificate]":
    from cryptography.x509 import load_pem_x509_certificates

    try:
        return load_pem_x509_certificates(data)
    except Exception:
        # As above: the library raises other errors for some unknown contents.
        raise PemError(f"{path} has no certificate in PEM form") from None
