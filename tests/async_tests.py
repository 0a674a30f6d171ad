"""A pytest plugin that runs `async def` tests, each in a loop of its own, in bounded time and with no task left."""

import functools
from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from typing import Any

import pytest

from tests.loops import bounded


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Put a function in the test's place that runs it; pytest calls that as any other."""
    # Of a property each example is a test of its own.
    prop = getattr(pyfuncitem.obj, "hypothesis", None)
    if iscoroutinefunction(getattr(prop, "inner_test", None)):
        prop.inner_test = _synchronous(prop.inner_test)  # type: ignore[union-attr]
    elif iscoroutinefunction(pyfuncitem.obj):
        pyfuncitem.obj = _synchronous(pyfuncitem.obj)


def _synchronous(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        bounded(lambda: test(*args, **kwargs))

    return run
