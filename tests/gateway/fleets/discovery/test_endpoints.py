from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.fleets.discovery.endpoints import MOST_REPLICAS, PodEndpoint, ready_endpoints
from gateway.kubernetes.objects import EndpointSlice

PORTS = [{"name": "grpc", "port": 9000, "protocol": "TCP"}]


def endpoint(host: str, uid: str = "", **conditions: bool) -> dict[str, Any]:
    target = {"targetRef": {"kind": "Pod", "name": f"pod-{uid}", "uid": uid}} if uid else {}
    return {"addresses": [host], "conditions": conditions, **target}


def pieces(
    *endpoints: dict[str, Any], ports: Any = PORTS, family: str = "IPv4", name: str = "a"
) -> list[EndpointSlice]:
    one = {"metadata": {"name": name}, "addressType": family, "endpoints": list(endpoints), "ports": ports}
    return [msgspec.convert(one, EndpointSlice)]


@pytest.mark.parametrize(
    ("conditions", "takes_requests"),
    [
        ({}, True),
        ({"ready": True, "serving": True, "terminating": False}, True),
        ({"ready": False, "serving": False, "terminating": False}, False),
        ({"ready": False, "serving": True, "terminating": True}, False),
        # Of a service that publishes addresses that are not ready.
        ({"ready": True, "serving": True, "terminating": True}, False),
    ],
)
def test_what_is_ready_and_does_not_terminate_takes_requests(conditions: dict[str, bool], takes_requests: bool) -> None:
    found, problem = ready_endpoints(pieces(endpoint("10.0.0.1", "u", **conditions)), None)
    assert found == ([PodEndpoint("10.0.0.1", 9000, "pod-u", "u")] if takes_requests else [])
    assert problem == ""


def test_a_pod_with_addresses_of_both_families_is_one_replica() -> None:
    slices = pieces(endpoint("fd00::1", "u"), endpoint("fd00::2", "v"), family="IPv6", name="a")
    slices += pieces(endpoint("10.0.0.1", "u"), name="b")
    found, _ = ready_endpoints(slices, None)
    assert [one.host for one in found] == ["10.0.0.1", "fd00::2"]


def test_an_endpoint_that_moves_is_in_two_slices() -> None:
    slices = pieces(endpoint("10.0.0.1", "u", ready=False)) + pieces(endpoint("10.0.0.1", "u"), name="b")
    assert len(ready_endpoints(slices, None)[0]) == 1


@pytest.mark.parametrize(
    ("ports", "wanted", "number", "problem"),
    [
        (PORTS, None, 9000, ""),
        (PORTS, "grpc", 9000, ""),
        (PORTS, 7, 7, ""),
        ([], 7, 7, ""),
        (None, None, 0, "it has no TCP port: replicas.kubernetes.port gives the pods' one by its number"),
        (PORTS, "http", 0, "it has no port http, only grpc (9000)"),
        (
            [*PORTS, {"name": "http", "port": 80}],
            None,
            0,
            "it has several ports, of which replicas.kubernetes.port names none: grpc (9000), http (80)",
        ),
        ([*PORTS, {"name": "dns", "port": 53, "protocol": "UDP"}], None, 9000, ""),
    ],
)
def test_which_port_counts(ports: Any, wanted: int | str | None, number: int, problem: str) -> None:
    found, said = ready_endpoints(pieces(endpoint("10.0.0.1"), ports=ports), wanted)
    assert [one.port for one in found] == ([number] if number else [])
    assert said == problem


def test_names_are_no_addresses() -> None:
    assert ready_endpoints(pieces(endpoint("host.test"), family="FQDN"), None) == (
        [],
        "endpoints of type FQDN are no addresses",
    )


def test_there_are_so_many_at_most() -> None:
    slices = pieces(*(endpoint(f"10.0.{number // 250}.{number % 250}") for number in range(MOST_REPLICAS + 1)))
    found, problem = ready_endpoints(slices, None)
    assert len(found) == MOST_REPLICAS
    assert problem == f"it has {MOST_REPLICAS + 1} endpoints, of which {MOST_REPLICAS} are taken"


@given(
    st.lists(st.tuples(st.integers(0, 30), st.booleans(), st.booleans(), st.integers(0, 3)), max_size=40), st.randoms()
)
def test_how_endpoints_are_spread_over_slices_does_not_matter(
    endpoints: list[tuple[int, bool, bool, int]], random: Any
) -> None:
    by_slice: dict[int, list[dict[str, Any]]] = {}
    for host, ready, terminating, place in endpoints:
        made = endpoint(f"10.0.0.{host}", f"u{host}", ready=ready, terminating=terminating)
        by_slice.setdefault(place, []).append(made)
    slices = [one for place, made in by_slice.items() for one in pieces(*made, name=f"s{place}")]
    shuffled = list(slices)
    random.shuffle(shuffled)
    found, _ = ready_endpoints(slices, None)
    assert found == ready_endpoints(shuffled, None)[0]
    wanted = {f"10.0.0.{host}" for host, ready, terminating, _ in endpoints if ready and not terminating}
    assert {one.host for one in found} == wanted
    assert len(found) == len(wanted)
