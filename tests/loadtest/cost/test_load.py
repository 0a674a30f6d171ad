import subprocess
import sys
import time

from loadtest.cost.load import wait_until_idle


def test_a_process_is_waited_for_until_it_has_nothing_to_do() -> None:
    count = "end = 30_000_000\nwhile end: end -= 1"
    script = f"import sys\nsys.stdin.readline()\n{count}\nprint(flush=True)\nsys.stdin.readline()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        began = time.monotonic()
        wait_until_idle([process.pid])  # gives up after a second
        busy = time.monotonic() - began
        process.stdout.readline()
        began = time.monotonic()
        wait_until_idle([process.pid])
        idle = time.monotonic() - began
        process.stdin.close()
    assert idle < busy
