import pytest

from gateway.config.models.addresses import (
    DnsName,
    dns_name,
    is_discovered,
    is_grpc_address,
    launched_socket,
    replica_name,
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("grpc+dns://workers.ns.svc:50051", ("grpc", "workers.ns.svc", 50051, "")),
        ("grpcs+dns://w.:1", ("grpcs", "w.", 1, "")),
        ("https+dns://h.example:443/v1", ("https", "h.example", 443, "/v1")),
        ("grpc+srv://_grpc._tcp.workers.ns.svc", ("grpc", "_grpc._tcp.workers.ns.svc", 0, "")),
        ("http+srv://_http._tcp.w/v1", ("http", "_http._tcp.w", 0, "/v1")),
    ],
)
def test_names_for_dns(text: str, expected: tuple[str, str, int, str]) -> None:
    assert dns_name(text) == DnsName(text, *expected)
    assert is_discovered(text)


@pytest.mark.parametrize(
    "text",
    [
        "grpc+dns://w",
        "grpc+dns://w:0",
        "grpc+dns://w:65536",
        "grpc+dns://:1",
        "grpc+dns://w:1/path",
        "grpc+dns://user@w:1",
        "grpc+srv://w:1",
        "grpc+srv://workers",
        "unix+dns://w:1",
        "http+dns://w:1/with space",
        "grpc+dns://w:1\n",
        "grpc+dns://a..b:1",
        f"grpc+dns://{'a' * 64}:1",
        "grpc+srv://_grpc..w",
        "grpc+dns://10.0.0.1:1",
        "https+dns://h.example:443/v1?x=y",
        "https+dns://h.example:443/v1#y",
    ],
)
def test_what_is_no_such_name(text: str) -> None:
    assert dns_name(text) is None
    assert is_discovered(text)


@pytest.mark.parametrize("address", ["grpc://10.0.0.1:50051", "grpcs://[fd00::1]:1", "unix:/run/r.sock"])
def test_addresses_of_one_replica(address: str) -> None:
    assert is_grpc_address(address)
    assert not is_discovered(address)
    assert dns_name(address) is None


@pytest.mark.parametrize(
    "address",
    [
        *("", "grpc://", "grpc://h", "grpc://h:0", "grpc://h:1/x", "http://h:1", "unix:r", "unix:/a\x1b[2Jb"),
        f"grpc://{'h' * 1000}:1",
    ],
)
def test_what_is_no_address(address: str) -> None:
    assert not is_grpc_address(address)


@pytest.mark.parametrize(
    ("address", "name"),
    [
        ("grpc://10.0.0.1:50051", "10.0.0.1-50051"),
        ("grpcs://[fd00::1]:50051", "fd00--1-50051"),
        ("https://10.0.0.1:443/v1", "10.0.0.1-443"),
        ("unix:/run/penstock/r0.sock", "run-penstock-r0.sock"),
        ("grpc://worker-3.pool.example:7", "worker-3.pool.example-7"),
    ],
)
def test_replicas_are_called_by_where_they_are(address: str, name: str) -> None:
    assert replica_name(address) == name
    assert "/" not in name and " " not in name


@pytest.mark.parametrize("form", ["grpc://{}.{}.svc.cluster.local:50051", "unix:/{1}/{0}.sock", "unix:/{}/{}.sock"])
def test_long_names_tell_replicas_apart(form: str) -> None:
    names = {replica_name(form.format(f"decode-{number}", "x" * 100)) for number in range(20)}
    assert len(names) == 20
    assert {len(name) for name in names} == {64}


def test_a_long_name_keeps_its_begin_and_its_end() -> None:
    name = replica_name(f"grpc://decode-7.{'x' * 100}.svc:50051")
    assert name.startswith("decode-7.x") and name.endswith("x.svc-50051")


@pytest.mark.parametrize("launch_id", ["a", "own-0123456789abcdef", "a" * 40])
def test_a_launched_replica_is_called_by_its_launch_id(launch_id: str) -> None:
    assert replica_name(f"unix:/var/lib/penstock/{launched_socket(launch_id)}") == launch_id


def test_a_long_launch_id_is_shortened_to_another_name_each() -> None:
    one, other = (launched_socket("a" * 62 + last) for last in "xy")
    assert one != other
    assert len(replica_name(f"unix:/run/{one}")) == 16
