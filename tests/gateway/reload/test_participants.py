import pytest

from gateway.config.settings import Config
from gateway.reload.participant import CannotPrepare
from gateway.reload.participants import Participants
from tests.gateway.reload.configs import base


class Part:
    """A participant that writes down what it is told, and cannot prepare where a test says so."""

    def __init__(self, name: str, told: list[str], *, fails: bool = False) -> None:
        self._name, self._told, self._fails = name, told, fails

    async def prepare(self, config: Config) -> None:
        if self._fails:
            raise CannotPrepare("as told")
        self._told.append(f"{self._name} prepares")

    def take(self) -> None:
        self._told.append(f"{self._name} takes")

    async def abandon(self) -> None:
        self._told.append(f"{self._name} abandons")

    async def settle(self) -> None:
        self._told.append(f"{self._name} settles")


async def test_all_do_their_parts_in_order() -> None:
    told: list[str] = []
    parts = Participants([Part("a", told), Part("b", told)])
    await parts.prepare(base())
    parts.take()
    await parts.settle()
    await parts.abandon()
    assert told == [f"{name} {what}" for what in ("prepares", "takes", "settles", "abandons") for name in "ab"]


async def test_nothing_is_left_of_those_that_could_where_one_cannot() -> None:
    told: list[str] = []
    with pytest.raises(CannotPrepare):
        await Participants([Part("a", told), Part("b", told, fails=True), Part("c", told)]).prepare(base())
    assert told == ["a prepares", "a abandons"]
