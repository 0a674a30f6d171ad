"""Addresses of Redis-protocol stores: one server, a unix socket, a cluster, or servers that Sentinels watch.

Beside `redis`, `rediss` and `unix` of https://www.iana.org/assignments/uri-schemes/prov/redis there are lists of nodes,
which no standard has. Every text that is raised here may be shown: it has nothing of the address but names of options.
"""

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal
from urllib.parse import SplitResult, parse_qsl, quote, unquote, urlsplit

from observability.printable import printable

DEFAULT_PORT: Final = 6379
SENTINEL_PORT: Final = 26379
Kind = Literal["server", "socket", "cluster", "sentinel"]
OptionValue = str | int | bool
Node = tuple[str, int]

_KINDS: Final[Mapping[str, Kind]] = {
    "redis": "server",
    "rediss": "server",
    "unix": "socket",
    "redis+cluster": "cluster",
    "rediss+cluster": "cluster",
    "redis+sentinel": "sentinel",
    "rediss+sentinel": "sentinel",
}
_SCHEMES: Final = "{}, or {}".format(", ".join(f"{scheme}://" for scheme in [*_KINDS][:-1]), f"{[*_KINDS][-1]}://")
#: The form of the addresses that no standard has.
_FORMS: Final[Mapping[Kind, str]] = {
    "cluster": "expected redis+cluster://HOST:PORT,HOST:PORT without a database",
    "sentinel": "expected redis+sentinel://HOST:PORT,HOST:PORT/SERVICE",
}
_SPACE: Final = re.compile(r"[\s\x00-\x1f\x7f]")
_BOOLEANS: Final = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_VERIFICATIONS: Final = ("none", "optional", "required")
_DATABASE: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True)
class StoreAddress:
    """An address that has been taken apart; names and passwords are unquoted, and `repr` has no password."""

    kind: Kind
    tls: bool
    #: The address for people and logs: without options, and `***` stands for the login.
    shown: str
    #: One server, some nodes of a cluster, or the Sentinels; empty of a socket.
    nodes: tuple[Node, ...] = ()
    path: str = ""
    #: The name under which Sentinels know the servers.
    service: str = ""
    database: int = 0
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    sentinel_username: str | None = None
    sentinel_password: str | None = field(default=None, repr=False)
    #: Settings of connections, by their names in redis-py.
    options: Mapping[str, OptionValue] = field(default_factory=dict)


def parse_address(url: str) -> StoreAddress:
    """Take an address apart.

    Raises:
        ValueError: It cannot be read. The text shows nothing of it but the name of an option.
    """
    scheme, _, rest = url.partition("://")
    kind = _KINDS.get(scheme)
    if kind is None or "://" not in url:
        raise ValueError(f"expected an address that starts with {_SCHEMES}")
    if _SPACE.search(url):
        raise ValueError("an address has no white space in it; in a password it is written %20")
    if "#" in rest:
        raise ValueError("an address has no # in it; in a password it is written %23")
    try:
        return _parsed(kind, scheme, rest)
    except ValueError as error:
        form = _FORMS.get(kind)
        raise ValueError(f"{form}: {error}" if form else str(error)) from None


def _parsed(kind: Kind, scheme: str, rest: str) -> StoreAddress:
    place, _, query = rest.partition("?")
    if "@" in query:
        raise ValueError("an @ in an option is written %40, and a ? in a password %3F")
    tls = scheme.startswith("rediss")
    options = _options(query, kind, tls)
    if kind == "socket":
        login, _, path = place.rpartition("@") if not place.startswith("/") else ("", "", place)
        if not path.startswith("/"):
            raise ValueError("a unix:// address needs an absolute path, as in unix:///run/valkey.sock")
        hosts, below = path, ""
    else:
        authority, _, below = place.partition("/")
        if "@" in below:
            raise ValueError("a / in a user name or a password is written %2F")
        login, _, hosts = authority.rpartition("@")
    username, _, password = (unquote(part) for part in login.partition(":"))
    other_username, other_password = _text(options, "username"), _text(options, "password")
    service, database = _place(kind, below, options)
    return StoreAddress(
        kind=kind,
        tls=tls,
        shown=printable(f"{scheme}://{'***@' if login else ''}{hosts}{'/' if below else ''}{below}"),
        nodes=_nodes(kind, hosts),
        path=unquote(hosts) if kind == "socket" else "",
        service=service,
        database=database,
        username=username or other_username,
        password=password or other_password,
        sentinel_username=_text(options, "sentinel_username"),
        sentinel_password=_text(options, "sentinel_password"),
        options=options,
    )


def address_problem(url: str) -> str:
    """Describe what is wrong with an address, empty if nothing; it is not shown, for it may hold a password."""
    try:
        parse_address(url)
    except ValueError as error:
        return str(error)
    return ""


def with_password(url: str, password: str) -> str:
    """Give an address with a password, which replaces that in it, for the user that it names."""
    scheme, _, rest = url.partition("://")
    place, mark, query = rest.partition("?")
    authority, slash, below = ("", "/", place[1:]) if place.startswith("/") else place.partition("/")
    login, _, hosts = authority.rpartition("@")
    return f"{scheme}://{login.partition(':')[0]}:{quote(password, safe='')}@{hosts}{slash}{below}{mark}{query}"


def _place(kind: Kind, below: str, options: dict[str, OptionValue]) -> tuple[str, int]:
    """Read service and database from what follows the hosts; a server's database may be an option, too."""
    service, database = "", below
    if kind == "sentinel":
        service, _, database = below.partition("/")
        service = unquote(service)
        if not service:
            raise ValueError("the name of the service is missing, by which Sentinels know the servers")
    elif kind == "cluster" and below:
        raise ValueError("a cluster has one database, which has no number")
    database = database.rstrip("/")
    if database and not _DATABASE.fullmatch(database):
        raise ValueError("a database is a number, as in redis://HOST:PORT/0")
    chosen = options.pop("db", None)
    if chosen is not None and database and int(database) != chosen:
        raise ValueError("the option db names another database than the path")
    return service, int(database or chosen or 0)


def _nodes(kind: Kind, hosts: str) -> tuple[Node, ...]:
    if kind == "socket":
        return ()
    if kind == "server":
        if "," in hosts:
            raise ValueError("several hosts are a cluster's (redis+cluster://) or Sentinels (redis+sentinel://)")
        return (_node(hosts if hosts and not hosts.startswith(":") else f"localhost{hosts}", DEFAULT_PORT),)
    return tuple(_node(host, SENTINEL_PORT if kind == "sentinel" else DEFAULT_PORT) for host in hosts.split(","))


def _node(text: str, port: int) -> Node:
    # A single node is an address that Python can parse, brackets of IPv6 included.
    found: int | None = None
    try:
        parts: SplitResult | None = urlsplit(f"//{text}")
        found = None if parts is None else parts.port
    except ValueError:
        parts = None
    if parts is None or not parts.hostname or parts.netloc != text:
        raise ValueError("the address cannot be read; a port is a number from 0 to 65535")
    if found == 0:
        raise ValueError("nobody can listen on port 0")
    return unquote(parts.hostname), found or port


def _text(options: dict[str, OptionValue], name: str) -> str | None:
    value = options.pop(name, None)
    return None if value is None else str(value)


def _number(text: str) -> int:
    if not _DATABASE.fullmatch(text):
        raise ValueError("a number")
    return int(text)


def _boolean(text: str) -> bool:
    value = _BOOLEANS.get(text.lower())
    if value is None:
        raise ValueError("true or false")
    return value


def _verification(text: str) -> str:
    if text not in _VERIFICATIONS:
        raise ValueError(" or ".join(_VERIFICATIONS))
    return text


def _protocol(text: str) -> int:
    if text not in ("2", "3"):
        raise ValueError("2 or 3")
    return int(text)


_Reader = Callable[[str], OptionValue]
#: What connections of every kind take.
_COMMON: Final[Mapping[str, _Reader]] = {
    "username": str,
    "password": str,
    "client_name": str,
    "health_check_interval": _number,
    "protocol": _protocol,
}
_TCP: Final[Mapping[str, _Reader]] = {"socket_keepalive": _boolean}
_TLS: Final[Mapping[str, _Reader]] = {
    "ssl_ca_certs": str,
    "ssl_ca_path": str,
    "ssl_certfile": str,
    "ssl_keyfile": str,
    "ssl_password": str,
    "ssl_cert_reqs": _verification,
    "ssl_check_hostname": _boolean,
}
_SENTINEL: Final[Mapping[str, _Reader]] = {"sentinel_username": str, "sentinel_password": str}
#: The options that name a file or folder.
FILE_OPTIONS: Final = ("ssl_ca_certs", "ssl_ca_path", "ssl_certfile", "ssl_keyfile")


def _options(query: str, kind: Kind, tls: bool) -> dict[str, OptionValue]:
    known = dict(_COMMON)
    if kind != "cluster":
        known["db"] = _number
    if kind != "socket":
        known |= _TCP
    if tls:
        known |= _TLS
    if kind == "sentinel":
        known |= _SENTINEL
    found: dict[str, OptionValue] = {}
    for name, value in parse_qsl(query, keep_blank_values=True, separator="&"):
        shown = printable(name[:40])
        read = known.get(name)
        if read is None:
            raise ValueError(_unknown(name, shown, known))
        if name in found:
            raise ValueError(f"the option {shown} is given twice")
        try:
            found[name] = read(value) if value else _missing()
        except ValueError as error:
            raise ValueError(f"the option {shown} is {error}") from None
    return found


def _missing() -> OptionValue:
    raise ValueError("without a value")


def _unknown(name: str, shown: str, known: Mapping[str, object]) -> str:
    if name in _TLS:
        return f"the option {shown} needs TLS: rediss://, rediss+cluster:// or rediss+sentinel://"
    if name in _SENTINEL:
        return f"the option {shown} needs redis+sentinel:// or rediss+sentinel://"
    close = difflib.get_close_matches(name, known, n=1)
    meant = f"did you mean {close[0]}?" if close else f"known here: {', '.join(known)}"
    return f"unknown option {shown}; {meant}"
