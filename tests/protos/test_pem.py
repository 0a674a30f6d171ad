import re
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from hypothesis import given
from hypothesis import strategies as st

from protos import pem
from protos.pem import PemError
from tests.certificates import Authority


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_what_is_right_is_given_as_it_is(authority: Authority) -> None:
    files = authority.signed()
    assert pem.authorities(authority.ca) == authority.ca.read_bytes()
    assert pem.identity(files.certificate, files.key) == (files.certificate.read_bytes(), files.key.read_bytes())


def test_of_a_chain_the_first_certificate_has_the_key(authority: Authority) -> None:
    files = authority.signed()
    chain = files.certificate.read_bytes() + authority.ca.read_bytes()
    files.certificate.write_bytes(chain)
    assert pem.identity(files.certificate, files.key)[0] == chain
    files.certificate.write_bytes(authority.ca.read_bytes() + chain)
    with pytest.raises(PemError, match="is not the key of"):
        pem.identity(files.certificate, files.key)


def test_errors_name_the_file(authority: Authority, tmp_path: Path) -> None:
    files = authority.signed()

    def refused(certificate: Path, key: Path, problem: str) -> None:
        with pytest.raises(PemError, match=re.escape(problem)):
            pem.identity(certificate, key)

    refused(tmp_path / "none", files.key, f"{tmp_path}/none cannot be read: No such file or directory")
    refused(tmp_path, files.key, f"{tmp_path} cannot be read: Is a directory")
    refused(files.key, files.key, f"{files.key} has no certificate in PEM form")
    refused(files.certificate, files.certificate, f"{files.certificate} has no private key in PEM form")
    key = serialization.load_pem_private_key(files.key.read_bytes(), None)
    locked = tmp_path / "locked.key"
    locked.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"password"),
        )
    )
    refused(files.certificate, locked, f"{locked} is encrypted")
    with (tmp_path / "long").open("wb") as file:
        file.truncate(pem.MAX_BYTES + 1)
    refused(tmp_path / "long", files.key, "has more than 4 MB")


@given(data=st.binary(max_size=200) | st.text().map(lambda text: f"-----BEGIN CERTIFICATE-----\n{text}".encode()))
def test_any_bytes_are_refused_with_one_kind_of_error(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.pem"
    path.write_bytes(data)
    with pytest.raises(PemError):
        pem.authorities(path)
    with pytest.raises(PemError):
        pem.identity(path, path)


def test_no_error_shows_a_key(authority: Authority) -> None:
    files = authority.signed()
    text = files.key.read_text()
    files.key.write_text(text[:60] + "!" + text[61:])
    with pytest.raises(PemError) as raised:
        pem.identity(files.certificate, files.key)
    assert raised.value.__cause__ is None
    assert text[40:60] not in str(raised.value)


def test_bundles_of_public_authorities_have_comments_in_any_language(authority: Authority) -> None:
    commented = "# Főtanúsítvány\n".encode() + authority.ca.read_bytes()
    authority.ca.write_bytes(commented)
    assert pem.authorities(authority.ca) == commented


def test_half_a_bundle_is_none(authority: Authority) -> None:
    whole = authority.ca.read_bytes()
    for data in (b"", b"# nothing\n", whole + whole[: len(whole) // 2], whole[:-30]):
        authority.ca.write_bytes(data)
        with pytest.raises(PemError, match="has no certificate in PEM form"):
            pem.authorities(authority.ca)
