import asyncio
import os
import signal

import pytest

from gateway.reload.hangup import outlive_hangups
from tests.loops import until


@pytest.mark.parametrize(
    ("supervised", "said"), [(False, "this process must be restarted"), (True, "send it to penstock serve")]
)
async def test_a_process_goes_on_and_says_what_a_new_configuration_needs(
    caplog: pytest.LogCaptureFixture, supervised: bool, said: str
) -> None:
    outlive_hangups(supervised=supervised)
    try:
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: len(caplog.records) == 1)
        os.kill(os.getpid(), signal.SIGHUP)
        await until(lambda: len(caplog.records) == 2)
    finally:
        asyncio.get_running_loop().remove_signal_handler(signal.SIGHUP)
    assert [said in record.getMessage() for record in caplog.records] == [True, True]
