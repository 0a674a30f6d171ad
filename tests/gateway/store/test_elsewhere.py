"""Which error replies mean that another server should be asked, in the words of different versions."""

import pytest
from redis._parsers.base import BaseParser
from redis.exceptions import ConnectionError as RedisConnectionError

from gateway.store.elsewhere import means_elsewhere


@pytest.mark.parametrize(
    "reply",
    [
        "READONLY You can't write against a read only replica.",
        "READONLY You can't write against a read only replica. script: 1f2e, on @user_script:1.",
        "ERR Error running script (call to f_1f2e): @user_script:1: @user_script: 1: -READONLY You can't write",
        "ERR Error running script (call to f_1f2e): @user_script:3: @user_script: 3: -MISCONF Redis is configured to",
        "LOADING Redis is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "CLUSTERDOWN The cluster is down",
        "CLUSTERDOWN Hash slot not served",
        "TRYAGAIN Multiple keys request during rehashing of slot",
        "NOREPLICAS Not enough good replicas to write.",
        "MISCONF Valkey is configured to save RDB snapshots, but it's currently unable to persist to disk.",
        "NOSCRIPT No matching script. Please use EVAL.",
        "UNBLOCKED force unblock from blocking operation, instance state changed (master -> replica?)",
    ],
)
def test_another_connection_may_do(reply: str) -> None:
    assert means_elsewhere(BaseParser.parse_error(reply))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize(
    "reply",
    [
        "OOM command not allowed when used memory > 'maxmemory'.",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
        "NOPERM User u has no permissions to run the 'evalsha' command",
        "ERR unknown command 'NOSUCH'",
        "ERR value of XREADONLY is not an integer or out of range",
        "BUSY Valkey is busy running a script.",
    ],
)
def test_another_connection_would_not_do(reply: str) -> None:
    assert not means_elsewhere(BaseParser.parse_error(reply))  # type: ignore[no-untyped-call]


def test_a_lost_connection_says_nothing_about_the_call() -> None:
    assert not means_elsewhere(RedisConnectionError("Connection closed by server."))
