"""What processes use."""

import asyncio
import os
import subprocess
import sys

from gateway.telemetry.process_usage import LAG_SECONDS, LoopLag, OwnProcess, collect_others, process_usage_of
from observability.metrics import declarations as declared
from observability.metrics.snapshot import Numbers
from tests.loops import until


async def test_lateness_is_counted_from_when_the_timer_was_due() -> None:
    now = 100.0
    lag = LoopLag(lambda: now)
    lag.start()
    now += LAG_SECONDS + 0.0035
    lag.measure()
    now += LAG_SECONDS - 0.0035 - 0.0005
    lag.measure()
    assert sum(lag.seconds.counts) == 2
    assert lag.seconds.counts[declared.LOOP_LAG.bounds.index(0.004)] == 1
    assert lag.seconds.counts[0] == 1, "early is not late"
    assert abs(lag.seconds.sum - 0.0035) < 1e-9
    lag.stop()
    lag.stop()


async def test_it_looks_again_and_again() -> None:
    lag = LoopLag()
    lag.start()
    await until(lambda: sum(lag.seconds.counts) >= 2)
    lag.stop()
    seen = sum(lag.seconds.counts)
    await asyncio.sleep(2 * LAG_SECONDS)
    assert sum(lag.seconds.counts) == seen


def test_this_process_and_others() -> None:
    own, other = process_usage_of(), process_usage_of(os.getpid())
    assert own is not None
    assert other is not None
    assert abs(own.cpu_seconds - other.cpu_seconds) < 2
    assert own.resident_bytes > 1 << 20
    numbers = Numbers()
    OwnProcess(LoopLag()).collect(numbers)
    assert set(numbers.values[declared.PROCESS_CPU.name]) == {("worker",)}
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        numbers = Numbers()
        collect_others(numbers, {"supervisor": child.pid, "store": None})
        assert set(numbers.values[declared.PROCESS_RESIDENT.name]) == {("admin",), ("supervisor",)}
    assert process_usage_of(child.pid) is None
