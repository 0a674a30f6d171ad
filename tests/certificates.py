"""Certificates for the tests: an authority made on the spot, and what it signs."""

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from protos.server_tls import ServerTls
from routing.transports.replica_tls import TlsFiles

_PEM = serialization.Encoding.PEM


@dataclass(frozen=True)
class Signed:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path

    @property
    def serial(self) -> int:
        return x509.load_pem_x509_certificate(self.certificate.read_bytes()).serial_number

    def replace_with(self, other: "Signed") -> None:
        """Put another certificate in this one's place, as a renewal does: each file whole, the key first."""
        for old, new in ((self.key, other.key), (self.certificate, other.certificate)):
            fresh = old.with_suffix(".fresh")
            fresh.write_bytes(new.read_bytes())
            fresh.replace(old)


class Authority:
    """A certificate authority whose files lie in a folder."""

    def __init__(self, folder: Path, name: str = "authority") -> None:
        self._folder = folder
        self._name = name
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(self._subject, self._key).add_extension(
            x509.BasicConstraints(ca=True, path_length=None), critical=True
        )
        usage = dict.fromkeys(
            ("content_commitment", "key_encipherment", "data_encipherment", "key_agreement", "digital_signature"), False
        )
        builder = builder.add_extension(
            x509.KeyUsage(**usage, key_cert_sign=True, crl_sign=True, encipher_only=False, decipher_only=False),
            critical=True,
        )
        self.ca = folder / f"{name}.pem"
        self.ca.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM))

    def signed(
        self, name: str = "server", *, hosts: tuple[str, ...] = ("127.0.0.1", "localhost"), organization: str = ""
    ) -> Signed:
        """A certificate for some hosts. Kubernetes takes the organization of a client's as its group."""
        key = ec.generate_private_key(ec.SECP256R1())
        groups = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization)] if organization else []
        subject = x509.Name([*groups, x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = self._builder(subject, key).add_extension(
            x509.SubjectAlternativeName([_host(host) for host in hosts]), critical=False
        )
        files = Signed(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        files.certificate.write_bytes(builder.sign(self._key, hashes.SHA256()).public_bytes(_PEM))
        files.key.write_bytes(key.private_bytes(_PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        return files

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
        now = datetime.now(UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1))
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
        )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def server_files(signed: Signed, client_ca: Path | None = None) -> ServerTls:
    """What a replica server shows, and whom it lets in."""
    return ServerTls(signed.certificate, signed.key, client_ca)


def client_files(authority: Authority, signed: Signed | None = None, server_name: str = "") -> TlsFiles:
    """What the gateway trusts and shows."""
    certificate, key = (None, None) if signed is None else (signed.certificate, signed.key)
    return TlsFiles(authority.ca, certificate, key, server_name)
