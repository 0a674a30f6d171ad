"""The signal that makes a worker end its streams with an error that their clients can see."""

import signal
from typing import Final

#: Sent by the supervisor when the grace after SIGTERM is over.
END_STREAMS: Final = signal.SIGUSR1
