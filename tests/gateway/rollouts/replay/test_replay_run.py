import threading

import pytest

from gateway.rollouts.comparison.answer import Answer
from gateway.rollouts.replay.corpus import Entry
from gateway.rollouts.replay.replay_run import ask_all, unanswered
from gateway.rollouts.replay.run_file import Result

ENTRIES = [Entry(id=str(number), body={}) for number in range(20)]


class Counting:
    """Answers once as many ask as may at one time."""

    def __init__(self, together: int) -> None:
        self.asked: list[str] = []
        self.most = 0
        self._now = 0
        self._lock = threading.Lock()
        self._together = threading.Barrier(together)

    def ask(self, entry: Entry) -> Result:
        with self._lock:
            self.asked.append(entry.id)
            self._now += 1
            self.most = max(self.most, self._now)
        self._together.wait(10)
        with self._lock:
            self._now -= 1
        return Result(id=entry.id, answer=Answer())


def test_so_many_are_asked_at_a_time_and_each_once() -> None:
    asker = Counting(together=4)
    results = list(ask_all(ENTRIES, asker, 4))
    assert asker.most == 4
    assert sorted(asker.asked) == sorted(result.id for result in results) == sorted(entry.id for entry in ENTRIES)


def test_what_has_a_result_is_not_asked_again() -> None:
    assert [entry.id for entry in unanswered(ENTRIES, {str(number) for number in range(18)})] == ["18", "19"]
    assert list(ask_all([], Counting(1), 4)) == []


def test_an_error_of_the_gateway_ends_the_run() -> None:
    class Gone:
        asked = 0

        def ask(self, entry: Entry) -> Result:
            self.asked += 1
            raise ConnectionError("no gateway")

    gone = Gone()
    with pytest.raises(ConnectionError, match="no gateway"):
        list(ask_all(ENTRIES, gone, 2))
    assert gone.asked <= 2
