"""A pytest plugin that runs `async def` tests, each in a loop of its own, in bounded time and with no task left."""

import functools
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

import pytest

from tests.loops import BOUND_SECONDS, bounded


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", f"seconds(bound): how long an async test may take; else {BOUND_SECONDS:g} s")


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Put a function in the test's place that runs it; pytest calls that as any other."""
    mark = pyfuncitem.get_closest_marker("seconds")
    seconds = BOUND_SECONDS if mark is None else float(*mark.args)
    # Of a property each example is a test of its own.
    prop = getattr(pyfuncitem.obj, "hypothesis", None)
    if iscoroutinefunction(getattr(prop, "inner_test", None)):
        prop.inner_test = _synchronous(prop.inner_test, seconds)  # type: ignore[union-attr]
    elif iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = _synchronous(pyfuncitem.obj, seconds)


def _synchronous(test: Callable[..., Awaitable[None]], seconds: float) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        bounded(lambda: test(*args, **kwargs), seconds)

    return run
