"""Settings and pools of connections for an address."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

from redis.asyncio import ConnectionPool, SSLConnection, UnixDomainSocketConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider
from redis.driver_info import DriverInfo

from gateway.config.store.address import StoreAddress, parse_address

#: Gives user name and password anew.
Login = Callable[[], tuple[str | None, str | None]]


class _Credentials(CredentialProvider):
    """The login of each new connection, as it is now in the file that has it."""

    def __init__(self, login: Login) -> None:
        self._login = login

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        username, password = self._login()
        return (username, password or "") if username else (password or "",)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        return self.get_credentials()


def followed_login(url: str, read: Callable[[], str]) -> Login:
    """Give the login of the address that `read` reads anew, that of `url` at first.

    While that raises ValueError, as a file is being replaced, it is the last one.
    """
    last = url

    def login() -> tuple[str | None, str | None]:
        nonlocal last
        with contextlib.suppress(ValueError):
            last = read()
        address = parse_address(last)
        return address.username, address.password

    return login


@functools.cache
def _driver() -> DriverInfo:
    """What a connection says of its client. By itself each would look its version up anew, for milliseconds."""
    return DriverInfo()


def connection_settings(address: StoreAddress, login: Login | None) -> dict[str, Any]:
    """The settings of connections that the address has, their login among them.

    They try nothing again: a script whose reply was lost may have run, and callers know what may be repeated.
    """
    settings = {**address.options, "retry": Retry(NoBackoff(), 0), "driver_info": _driver()}
    if login is not None and address.password is not None:
        return {**settings, "credential_provider": _Credentials(login)}
    return {**settings, "username": address.username, "password": address.password}


def new_pool(address: StoreAddress, settings: dict[str, Any]) -> ConnectionPool:
    """Make a pool of connections to a server or a socket; it replaces those that a restarted store has closed."""
    if address.kind == "socket":
        return ConnectionPool(connection_class=UnixDomainSocketConnection, path=address.path, **settings)
    host, port = address.nodes[0]
    return node_pool(host, port, settings, tls=address.tls)


def node_pool(host: str, port: int, settings: dict[str, Any], *, tls: bool) -> ConnectionPool:
    """Make a pool of connections to one server."""
    if tls:
        return ConnectionPool(connection_class=SSLConnection, host=host, port=port, **settings)
    return ConnectionPool(host=host, port=port, **settings)
