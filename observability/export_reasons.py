"""Why an export failed, in words for an operator: the SDK's exporters say little more than that it did."""

import logging
import socket
import ssl
from collections.abc import Iterator, Sequence
from http.client import RemoteDisconnected
from typing import Any, Final

from requests import ConnectTimeout, Response, Session, Timeout
from requests.exceptions import ProxyError, RequestException

from observability.printable import printable

_MOST_TEXT: Final = 300
#: Reasons that are said between one recovery and the next.
_MOST_REASONS: Final = 16
_REDIRECTS: Final = range(300, 400)


class NotedSession(Session):
    """The HTTP session of an exporter; `problem` says why the last request failed, empty if it did not."""

    def __init__(self) -> None:
        super().__init__()
        self.problem = ""

    def request(self, *arguments: Any, **options: Any) -> Response:
        """Send a request. Raises RequestException, for a redirection too: the SDK would take it for a success."""
        try:
            response = super().request(*arguments, **options)
        except Exception as error:
            self.problem = reason_of(error)
            raise
        status = response.status_code
        answer = printable(f"status {status} {response.reason or ''}".strip())[:_MOST_TEXT]
        self.problem = "" if status < _REDIRECTS.start else answer
        if status in _REDIRECTS:
            to = printable(response.headers.get("location", "elsewhere"))[:_MOST_TEXT]
            self.problem += f", which sends to {to}"
            raise RequestException(self.problem)
        return response


class LastMessage(logging.Filter):
    """Keep an SDK's last log message instead of writing it: it logs one or more lines for each export that fails."""

    def __init__(self) -> None:
        super().__init__()
        self.last = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the message and suppress the record."""
        self.last = printable(record.getMessage())[:_MOST_TEXT]
        return False


class SaidReasons:
    """Which reasons have been said since the last recovery: each is said once."""

    def __init__(self) -> None:
        self._said: set[str] = set()

    def is_new(self, reason: str) -> bool:
        """Return whether a reason is to be said now."""
        if reason in self._said or len(self._said) >= _MOST_REASONS:
            return False
        self._said.add(reason)
        return True

    def clear(self) -> None:
        """Forget all of them: the export works again."""
        self._said.clear()


def reason_of(error: BaseException) -> str:
    """Find the cause that an operator can mend in an exception of `requests` and those that it was made from."""
    causes = list(_causes(error))
    where = "the proxy: " if any(isinstance(cause, ProxyError) for cause in causes) else ""
    return where + _reason(causes)


def _reason(causes: Sequence[BaseException]) -> str:
    for cause in causes:
        if isinstance(cause, socket.gaierror):
            return f"the host's name cannot be resolved: {_words(cause)}"
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not good: {printable(cause.verify_message)}"
        if isinstance(cause, ssl.SSLError):
            return f"no TLS: {printable((cause.reason or str(cause)).lower().replace('_', ' '))}; is it http://?"
    for cause in causes:
        if isinstance(cause, ConnectTimeout):
            return "no connection in time"
        if isinstance(cause, Timeout):
            return "no answer in time"
        if isinstance(cause, RemoteDisconnected):
            return "the connection was closed without an answer"
        if isinstance(cause, OSError) and cause.errno is not None:
            return _words(cause)
    return printable(f"{type(causes[0]).__name__}: {causes[0]}")[:_MOST_TEXT]


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Give an exception and all that it was made from, which libraries pass as arguments, reasons and causes."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop(0)
        if id(one) not in seen:
            seen.add(id(one))
            yield one
            inner = (*one.args, getattr(one, "reason", None), one.__cause__, one.__context__)
            waiting += [each for each in inner if isinstance(each, BaseException)]


def _words(error: OSError) -> str:
    words = error.strerror or str(error)
    return printable(words[:1].lower() + words[1:])
