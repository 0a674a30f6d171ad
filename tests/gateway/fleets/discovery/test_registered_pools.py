import logging
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from gateway.config.models.addresses import Found
from gateway.config.settings import Config
from gateway.fleets.discovery.registered_pools import RegisteredPools
from gateway.fleets.discovery.registrations import Registration
from protos.types import Role, Shape

POOL = {"name": "p", "engine": "simulated", "replicas": "registered"}
MODEL = {"name": "m", "tokenizer": "t", "context": 9, "pools": [POOL, {**POOL, "name": "q"}]}
ONE = Registration("m", "p", "grpc://10.0.0.1:1", 5, "simulated", Shape(), Role.BOTH)
TWO = structs.replace(ONE, address="grpc://10.0.0.2:1")


def pools(*models: dict[str, Any]) -> RegisteredPools:
    return RegisteredPools(msgspec.convert({"models": models or [MODEL]}, Config))


def none(*_: object) -> bool:
    return False


def every(*_: object) -> bool:
    return True


def addresses(known: RegisteredPools, pool: str = "p") -> list[str]:
    return [found.address for found in known.members("m", pool)]


def test_records_make_members() -> None:
    known = pools()
    assert known
    assert known.update([TWO, ONE], none) == {"m"}
    assert known.members("m", "p") == (Found(ONE.address), Found(TWO.address))
    assert known.update([ONE, TWO], none) == set()
    assert known.update([TWO], none) == {"m"}
    assert addresses(known) == [TWO.address]


def test_one_that_answers_stays_without_a_record() -> None:
    known = pools()
    known.update([ONE, TWO], none)
    asked = []

    def answers(model: str, pool: str, found: Found) -> bool:
        asked.append((model, pool, found.address))
        return found.address == ONE.address

    assert known.update([], answers) == {"m"}
    assert asked == [("m", "p", ONE.address), ("m", "p", TWO.address)]
    assert addresses(known) == [ONE.address]


def test_one_whose_address_is_another_pools_now_does_not_stay() -> None:
    known = pools()
    known.update([ONE], every)
    known.update([structs.replace(ONE, pool="q")], every)
    assert (addresses(known), addresses(known, "q")) == ([], [ONE.address])


def test_a_pool_with_tls_takes_no_address_without(caplog: pytest.LogCaptureFixture) -> None:
    known = pools({**MODEL, "pools": [{**POOL, "tls": {"ca": "ca.pem"}}]})
    plain = [ONE, structs.replace(ONE, address="unix:/run/r.sock")]
    secure = structs.replace(ONE, address="grpcs://10.0.0.9:1")
    with caplog.at_level(logging.WARNING):
        known.update([*plain, secure], none)
    assert addresses(known) == [secure.address]
    assert caplog.text.count("the pool has tls, and its address is not grpcs://") == 2


def test_what_nobody_has_configured_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    known = pools()
    strays = [
        structs.replace(ONE, pool="x"),
        structs.replace(ONE, model="x"),
        structs.replace(ONE, address="10.0.0.1:1"),
        structs.replace(ONE, address="grpc://evil\n:1"),
    ]
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert known.update(strays, every) == set()
    assert len(caplog.records) == 4
    assert "pool x of model m: the configuration has no such pool" in caplog.text


def test_without_such_pools_nothing_is_wanted() -> None:
    static = {"name": "p", "engine": "simulated", "replicas": ["grpc://h:1"]}
    known = pools({**MODEL, "pools": [static]})
    assert not known
    assert known.update([ONE], every) == set()


@given(st.lists(st.tuples(st.sets(st.integers(0, 5)), st.sets(st.integers(0, 5))), max_size=20))
def test_members_are_those_that_say_it_and_those_before_that_show_it(rounds: list[tuple[set[int], set[int]]]) -> None:
    known, members = pools(), set[str]()
    for said, answering in rounds:
        names = {f"grpc://10.0.0.{i}:1" for i in said}
        showing = {f"grpc://10.0.0.{i}:1" for i in answering}

        def answers(model: str, pool: str, found: Found, showing: set[str] = showing) -> bool:
            return found.address in showing

        known.update([structs.replace(ONE, address=name) for name in names], answers)
        members = names | (members & showing)
        assert set(addresses(known)) == members
