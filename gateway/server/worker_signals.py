"""The signals by which the supervisor tells a worker how far a stop has come."""

import signal
from typing import Final

#: Sent when the gateway is told to end: the worker is not ready any more, but takes requests.
BEGIN_DRAIN: Final = signal.SIGUSR2
#: Sent when `listen.grace_seconds` are over, some moments before the worker is told to end. A worker without a handler
#: for it ignores it.
STOP_ACCEPTING: Final = signal.SIGURG
#: Sent when `listen.drain_seconds` are over: streams end with an error that their clients can see.
END_STREAMS: Final = signal.SIGUSR1
