"""The counter traces the whole process that it is made in, so each test has one of its own."""

import dis
import json
import subprocess
import sys

import pytest

_SCRIPT = """
import json, queue, sys, threading, time
from loadtest.cost.bytecode_counter import bytecode_counter

counter = bytecode_counter()
todo, done = queue.SimpleQueue(), queue.SimpleQueue()

def straight(value):
    value = value + 1
    return value

def work():
    while (task := todo.get()) is not None:
        task()
        done.put(None)

def times(count):
    def task():
        for _ in range(count):
            straight(1)
    return task

thread = threading.Thread(target=work)
thread.start()

def measure():
    counter.begin()
    for count in (7, 7, 3):
        todo.put(times(count)); done.get(); time.sleep(0.01)
        counter.lap()
    return counter.end()

# As in a worker, whoever measures is a thread that is not looked at, beside the ones that work.
found = []
measuring = threading.Thread(target=lambda: found.append(measure()))
measuring.start(); measuring.join()
todo.put(times(50)); done.get()
again = threading.Thread(target=lambda: found.append(measure()))
again.start(); again.join()
todo.put(None)
thread.join()
print(json.dumps([[[row.root, row.module, row.function, row.line, row.laps] for row in rows] for rows in found]))
"""


def counted() -> list[list[tuple[str, str, str, int, list[int]]]]:
    done = subprocess.run([sys.executable, "-c", _SCRIPT], capture_output=True, text=True, timeout=60, check=False)
    assert not done.returncode, done.stderr
    found: list[list[tuple[str, str, str, int, list[int]]]] = json.loads(done.stdout)
    return found


def straight(value: int) -> int:
    value = value + 1
    return value  # noqa: RET504 - a function with as many instructions as that of the script


def test_counts_are_exact_lap_by_lap_and_again() -> None:
    # RESUME is no instruction of the function's own in either way of counting.
    instructions = [one for one in dis.get_instructions(straight) if one.opname not in ("CACHE", "RESUME")]
    for rows in counted():
        (row,) = [row for row in rows if row[2] == "straight"]
        assert row[1] == "__main__"
        each, rest = divmod(row[4][0], 7)
        assert rest == 0
        assert each in (len(instructions), len(instructions) + 1)
        assert row[4] == [7 * each, 7 * each, 3 * each, 0]


def test_functions_are_counted_under_what_the_threads_loop_called() -> None:
    for rows in counted():
        roots = {row[0] for row in rows if row[2] == "straight"}
        assert roots == {"__main__:times.<locals>.task"}
        # The loop was under way before the count began.
        assert any(row[2] == "work" for row in rows)


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="there, nothing is traced outside of a count")
def test_little_is_done_outside_of_a_count() -> None:
    script = """
import sys, threading
from loadtest.cost.bytecode_counter import bytecode_counter
bytecode_counter()
def f(): pass
f()
print(sys.gettrace()(sys._getframe(), "call", None))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "None\n"
