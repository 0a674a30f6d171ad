"""Error replies of a server that cannot do now what another one could, as after a failover.

They say that the call has not run. What a script's own call was refused for is inside the script's error: up to Redis
6.2 in its middle, later at its beginning (https://redis.io/docs/latest/develop/programmability/lua-api/#lua_api_redis.call).
"""

import re
from typing import Final

from redis.exceptions import BusyLoadingError, ClusterDownError, NoScriptError, ReadOnlyError, TryAgainError

#: `UNBLOCKED` goes to clients that a failover has paused; a proxy gives on whatever its server says.
_WORDS: Final = "READONLY|LOADING|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|MISCONF|NOSCRIPT|UNBLOCKED|NOMASTERLINK"
_TEXT: Final = re.compile(rf"(?:^|[\s:-]-?)(?:{_WORDS})\b")
#: The client cuts the word off the errors that it knows.
_KNOWN: Final = (ReadOnlyError, BusyLoadingError, ClusterDownError, TryAgainError, NoScriptError)
#: The words of the Sentinel client for READONLY.
_DEMOTED: Final = "The previous master is now a slave"


def means_elsewhere(error: BaseException) -> bool:
    """Whether the call may succeed on another connection; it has not run."""
    return isinstance(error, _KNOWN) or bool(_TEXT.search(text := str(error))) or text == _DEMOTED
