"""Conversion of plain values from outside to records."""

from typing import TypeVar

from gateway.config.errors import ConfigError, convert
from gateway.config.tenant_checks import Problems
from protos.errors import InvalidRequest

T = TypeVar("T")


def record_of(value: object, kind: type[T]) -> T:
    """Convert a value from JSON, YAML or the command line to a record, strictly: no string becomes a number.

    Raises:
        InvalidRequest: The first value that does not fit, with its path as `param`.
    """
    try:
        return convert(value, kind, "")
    except ConfigError as error:
        raise InvalidRequest(str(error), param=error.path or None) from error


def refuse(problems: Problems) -> None:
    """Raise the first problem as an error.

    Raises:
        InvalidRequest: There is one; its path is the `param`.
    """
    for path, problem in problems:
        raise InvalidRequest(f"{path}: {problem}", param=path)
