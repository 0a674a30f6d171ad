"""Why a store could not be used, in an operator's words, from what the client raises."""

import re
import socket
import ssl
from collections.abc import Iterator
from typing import Final

from redis.asyncio.sentinel import MasterNotFoundError
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthenticationWrongNumberOfArgsError,
    InvalidResponse,
    NoPermissionError,
    ResponseError,
)

from gateway.config.store.address import StoreAddress

_NO_LOGIN: Final = re.compile("authentication required|NOAUTH|HELLO must be called", re.IGNORECASE)
_NO_PASSWORD_SET: Final = re.compile("without any password configured|no password is set", re.IGNORECASE)
_NO_DATABASE: Final = re.compile("DB index|invalid database|SELECT is not allowed", re.IGNORECASE)
_NO_CLUSTER: Final = re.compile("cluster support disabled|cluster mode is not enabled", re.IGNORECASE)
_NO_TLS: Final = re.compile("version number|record layer|eof")
_CLOSED: Final = re.compile("Connection closed by server|Connection reset by peer")
_NO_SENTINEL: Final = re.compile(r"unknown command[ '`]+SENTINEL", re.IGNORECASE)
_AT: Final = re.compile(r"connecting to (?P<place>\S+?)\.? ")
#: How the client shows each Sentinel that it could not ask.
_ASKED: Final = re.compile(r"<redis\.asyncio\.client\.Redis\(")


class StoreFailure(Exception):
    """A failed call; the text is one line without secrets. `refused`: another try will not do until something is set
    right.
    """

    def __init__(self, text: str, *, refused: bool) -> None:
        super().__init__(text)
        self.refused = refused


def store_problem(error: Exception) -> str:
    """Say in a few words why a call raised StoreUnavailable: the store is away, or it is there and refuses the call."""
    cause = error.__cause__ or error
    reason = " ".join(str(cause).split())
    return f"the store refuses a call: {reason}" if refuses(error) else f"the store is away: {reason}"


def refuses(error: Exception) -> bool:
    """Whether a call raised StoreUnavailable because the store has answered, and will not do it."""
    cause = error.__cause__
    return cause.refused if isinstance(cause, StoreFailure) else isinstance(cause, ResponseError)


def silent(address: StoreAddress, seconds: float) -> TimeoutError:
    """The failure of a call that was not answered in time."""
    # A server without TLS takes the beginning of TLS for half a command, and waits for the rest.
    hint = f"; is it {_other_scheme(address)}?" if address.tls else ""
    return TimeoutError(f"no answer within {seconds:g} s{hint}")


def explained(error: Exception, address: StoreAddress) -> Exception:
    """Give the failure in words where they are known, and else the error itself."""
    if refusal := _refusal(error, address):
        failure = StoreFailure(refusal, refused=True)
    elif silence := _silence(error, address):
        failure = StoreFailure(silence, refused=False)
    else:
        return error
    failure.__cause__ = error
    return failure


def _refusal(error: Exception, address: StoreAddress) -> str:
    """Put an error reply of the store into words."""
    text = str(error)
    if isinstance(error, MasterNotFoundError):
        return _unnamed(text, address)
    if isinstance(error, AuthenticationError | AuthenticationWrongNumberOfArgsError):
        return _login_refused(text, address)
    if isinstance(error, NoPermissionError):
        return f"its user may not do what Penstock needs: {text}"
    if _NO_DATABASE.search(text):
        return f"it has no database {address.database}: {text}"
    if address.kind != "cluster" and isinstance(error, AskError):
        return "it is a node of a cluster, whose address is redis+cluster:// or rediss+cluster://"
    if _NO_CLUSTER.search(text):
        return "it is no cluster; the address of one server is redis:// or rediss://"
    if _NO_SENTINEL.search(text):
        return "it is no Sentinel; the address of a server itself is redis:// or rediss://"
    return ""


def _login_refused(text: str, address: StoreAddress) -> str:
    if address.password is None and (address.username is None or _NO_LOGIN.search(text)):
        return "it wants a password, and the address has none"
    if _NO_PASSWORD_SET.search(text):
        return "it has no password, but the address has one"
    return "it refuses the password of the address" + (
        "" if address.username is None else ", or has no user of that name"
    )


def _unnamed(text: str, address: StoreAddress) -> str:
    """Why Sentinels have named no server; empty if they may do so later."""
    if "AuthenticationError" in text and address.sentinel_password is None:
        return "the Sentinels want a password: the option sentinel_password"
    if "AuthenticationError" in text:
        return "the Sentinels refuse the options sentinel_username and sentinel_password"
    return ""


def _silence(error: Exception, address: StoreAddress) -> str:
    """Why nothing has come from a store: something else may be in between, or nobody is there yet."""
    text = str(error)
    place = match["place"] if (match := _AT.search(text)) else _places(address)
    if isinstance(error, MasterNotFoundError):
        if len(_ASKED.findall(text)) < len(address.nodes):
            return f"the Sentinels know no server of the name {address.service} that is up and takes writes"
        return f"no Sentinel answers at {_places(address)}"
    for cause in _chain(error):
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not good: {cause.verify_message}"
        if isinstance(cause, ssl.SSLError):
            reason = (cause.reason or str(cause)).replace("_", " ").lower()
            hint = f"; is it {_other_scheme(address)}?" if _NO_TLS.search(reason) else ""
            return f"no TLS with it: {reason}{hint}"
        if _CLOSED.search(str(cause)) and not address.tls:
            return f"it has closed the connection; if it always does, is it {_other_scheme(address)}?"
        if isinstance(cause, InvalidResponse):
            return f"what answers does not speak Redis' protocol; is it {_other_scheme(address)}?"
        if isinstance(cause, socket.gaierror):
            return f"the name of {place} is not known: {cause.strerror or cause}"
        if isinstance(cause, ConnectionRefusedError):
            return f"nobody listens at {place}"
        if isinstance(cause, FileNotFoundError):
            return f"there is no {cause.filename or address.path}"
    return ""


def _places(address: StoreAddress) -> str:
    return address.path or ", ".join(f"{host}:{port}" for host, port in address.nodes)


def _other_scheme(address: StoreAddress) -> str:
    scheme, _, _ = address.shown.partition("://")
    return f"{scheme.replace('rediss', 'redis') if address.tls else scheme.replace('redis', 'rediss')}://"


def _chain(error: BaseException) -> Iterator[BaseException]:
    """The error and what it came from, an error among several included."""
    seen: set[int] = set()
    left = [error]
    while left:
        one = left.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [cause for cause in (one.__cause__, one.__context__) if cause is not None]
        if isinstance(one, BaseExceptionGroup):
            left += one.exceptions
