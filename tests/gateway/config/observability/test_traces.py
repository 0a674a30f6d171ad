"""The parts of the configuration about traces and the log: defaults, and what is refused."""

from typing import Any

import pytest

from gateway.config.errors import ConfigError, convert
from gateway.config.observability.logs import Logs
from gateway.config.observability.traces import Traces


def test_defaults() -> None:
    traces = convert({}, Traces, "f")
    assert (traces.enabled, traces.sample, traces.ratio) == (False, 0.01, None)
    assert convert({"enabled": True}, Traces, "f").ratio == 0.01
    assert convert({"enabled": True, "sample": 0}, Traces, "f").ratio == 0.0
    logs = convert({}, Logs, "f")
    assert (logs.format, logs.requests, logs.per_second) == ("auto", "failed", 50)


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"endpoint": "collector:4317"}, "endpoint"),
        ({"endpoint": "http://a b"}, "endpoint"),
        ({"endpoint": "http://h\n"}, "endpoint"),
        ({"sample": 1.5}, "sample"),
        ({"queue": 1}, "queue"),
        ({"slow_seconds": -1}, "slow_seconds"),
    ],
)
def test_what_is_refused(fields: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigError) as caught:
        convert(fields, Traces, "f")
    assert path in str(caught.value)
