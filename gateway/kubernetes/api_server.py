"""The connection to an API server: requests, streams of changes, and errors in the project's own words."""

import contextlib
import logging
import os
import socket
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeVar

import httpx2
import msgspec
import yaml
from lightkube.config.client_adapter import AsyncClient, ConnectionParams, verify_cluster
from lightkube.config.kubeconfig import DEFAULT_KUBECONFIG, SERVICE_ACCOUNT, KubeConfig, SingleConfig
from lightkube.config.models import User
from lightkube.core.exceptions import ConfigError

from gateway.kubernetes.objects import Watchable
from gateway.kubernetes.resources import Resource
from observability.printable import printable
from protos.cluster_errors import (
    ClusterConflict,
    ClusterHistoryGone,
    ClusterObjectMissing,
    ClusterRefuses,
    ClusterUnavailable,
)

# It tells of each request, and there is one a second and more.
logging.getLogger("httpx2").setLevel(logging.WARNING)

T = TypeVar("T", bound=Watchable)
S = TypeVar("S")

#: Seconds that a connection and each part of an answer may take.
_TIMEOUT_SECONDS: Final = 10.0
#: Seconds until a connection on which nothing comes is asked whether it lives, between questions, and their number:
#: the host of an API server may go away without a word.
_KEEPALIVE: Final = (15, 5, 3)
#: Objects in one part of a list.
_PAGE: Final = 500
_MERGE: Final = "application/merge-patch+json"
#: What the library raises for a kubeconfig that is not of the form.
_MALFORMED: Final = (AttributeError, LookupError, TypeError, ValueError)
_LONGEST_MESSAGE: Final = 400


class _PageMetadata(msgspec.Struct, frozen=True, rename="camel"):
    resource_version: str = ""
    continue_: str = msgspec.field(name="continue", default="")


class _Page(msgspec.Struct, frozen=True):
    metadata: _PageMetadata = _PageMetadata()
    items: list[msgspec.Raw] | None = None


class Change(msgspec.Struct, frozen=True):
    """One line of a watch: what has become of an object."""

    type: str
    object: msgspec.Raw


class _Status(msgspec.Struct, frozen=True):
    """What the API server says of what it does not do."""

    code: int = 0
    reason: str = ""
    message: str = ""


class ApiServer:
    """An API server, for one event loop. Every call raises ClusterUnavailable, or one of its kinds."""

    def __init__(self, kubeconfig: str | None = None, namespace: str | None = None) -> None:
        """Nothing is connected, or even read, before the first call.

        Args:
            kubeconfig: A file; None: `$KUBECONFIG`, else the pod's service account, else `~/.kube/config`.
            namespace: The namespace where none is given; None: the pod's, or the context's.
        """
        self._kubeconfig = kubeconfig
        self._namespace = namespace
        self._client: httpx2.AsyncClient | None = None
        #: The clients that are in use, with how many calls each has.
        self._lent: Counter[httpx2.AsyncClient] = Counter()
        self._config: SingleConfig | None = None

    @property
    def namespace(self) -> str:
        """Where objects are that are named without a namespace. Raises ClusterUnavailable."""
        self._connected()
        return self._namespace or (self._config.namespace if self._config is not None else "")

    async def get(self, resource: Resource[T], name: str, namespace: str | None = None) -> T:
        path = resource.path(self._place(namespace), name)
        return decoded(await self._send("get", resource, "GET", path), resource.form)

    async def list(self, resource: Resource[T], namespace: str | None = None, labels: str = "") -> tuple[list[T], str]:
        """All objects that `labels` select, and the version from which they can be watched."""
        path = resource.path(self._place(namespace))
        parameters = {"limit": str(_PAGE)} | ({"labelSelector": labels} if labels else {})
        found: list[T] = []
        while True:
            page = decoded(await self._send("list", resource, "GET", path, parameters), _Page)
            found += [decoded(item, resource.form) for item in page.items or ()]
            if not page.metadata.continue_:
                return found, page.metadata.resource_version
            parameters["continue"] = page.metadata.continue_

    @contextlib.asynccontextmanager
    async def watch(
        self, resource: Resource[T], version: str, seconds: int, namespace: str | None = None, labels: str = ""
    ) -> AsyncIterator[AsyncIterator[Change]]:
        """Begin to watch what changes after a version, for so many seconds at most; it is told as it comes."""
        parameters = {"watch": "true", "allowWatchBookmarks": "true", "resourceVersion": version}
        parameters |= {"timeoutSeconds": str(seconds)} | ({"labelSelector": labels} if labels else {})
        path, timeout = resource.path(self._place(namespace)), httpx2.Timeout(_TIMEOUT_SECONDS, read=None)
        async with self._borrowed() as client:
            with self._translated("watch", resource):
                request = client.build_request("GET", path, params=parameters, timeout=timeout)
                response = await client.send(request, stream=True)
            try:
                if response.is_error:
                    with self._translated("watch", resource):
                        content = await response.aread()
                    raise _refusal("watch", resource, response.status_code, content, response.headers)
                yield self._changes(resource, response.aiter_lines())
            finally:
                await response.aclose()

    async def create(self, resource: Resource[T], body: Mapping[str, object], namespace: str | None = None) -> T:
        path = resource.path(self._place(namespace))
        return decoded(await self._send("create", resource, "POST", path, body=body), resource.form)

    async def replace(
        self, resource: Resource[T], name: str, body: Mapping[str, object], namespace: str | None = None
    ) -> T:
        """Replace an object; with `metadata.resourceVersion` only if it is still that version."""
        path = resource.path(self._place(namespace), name)
        return decoded(await self._send("update", resource, "PUT", path, body=body), resource.form)

    async def patch(
        self,
        resource: Resource[T],
        name: str,
        body: Mapping[str, object],
        namespace: str | None = None,
        subresource: str = "",
    ) -> None:
        """Merge into an object or a part of it; with `metadata.resourceVersion` only if it is still that version."""
        path = resource.path(self._place(namespace), name, subresource)
        await self._send("patch", resource, "PATCH", path, body=body, part=subresource)

    async def delete(
        self, resource: Resource[T], name: str, uid: str, grace_seconds: int, namespace: str | None = None
    ) -> None:
        """Delete an object if it is still the one of that uid. One that is gone is no error."""
        path = resource.path(self._place(namespace), name)
        body = {
            "kind": "DeleteOptions",
            "apiVersion": "v1",
            "preconditions": {"uid": uid},
            "gracePeriodSeconds": grace_seconds,
        }
        with contextlib.suppress(ClusterObjectMissing, ClusterConflict):
            await self._send("delete", resource, "DELETE", path, body=body)

    async def aclose(self) -> None:
        """Close all connections; the next call makes new ones, from what the files say by then."""
        clients = {self._client, *self._lent} - {None}
        self._client = None
        for client in clients:
            if client is not None:
                await client.aclose()

    @contextlib.asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[httpx2.AsyncClient]:
        """Lend the client; one that another one has taken the place of is closed by its last user."""
        client = self._connected()
        self._lent[client] += 1
        try:
            yield client
        finally:
            self._lent[client] -= 1
            if not self._lent[client]:
                del self._lent[client]
                if client is not self._client:
                    await client.aclose()

    def _place(self, namespace: str | None) -> str:
        return namespace or self.namespace

    async def _send(
        self,
        verb: str,
        resource: Resource[Any],
        method: str,
        path: str,
        parameters: Mapping[str, str] | None = None,
        body: Mapping[str, object] | None = None,
        part: str = "",
    ) -> bytes:
        content = None if body is None else msgspec.json.encode(body)
        headers = {"Content-Type": _MERGE if verb == "patch" else "application/json"}
        async with self._borrowed() as client:
            with self._translated(verb, resource, part):
                response = await client.request(method, path, params=parameters, content=content, headers=headers)
                if response.is_error:
                    raise _refusal(verb, resource, response.status_code, response.content, response.headers, part)
                return response.content

    def _connected(self) -> httpx2.AsyncClient:
        if self._client is None:
            try:
                self._config = config = _config(self._kubeconfig)
                self._client = AsyncClient(config, _parameters(config))
            except (ConfigError, OSError, yaml.YAMLError, *_MALFORMED) as error:
                problem = "the kubeconfig has another form: " if isinstance(error, _MALFORMED) else ""
                raise ClusterUnavailable.of(f"no API server is configured: {problem}{_one_line(error)}") from error
        return self._client

    async def _changes(self, resource: Resource[Any], lines: AsyncIterator[str]) -> AsyncIterator[Change]:
        with self._translated("watch", resource):
            async for line in lines:
                try:
                    change = decoded(line.encode(), Change)
                except ClusterUnavailable as error:
                    # From the same version it would come again.
                    raise ClusterHistoryGone.of(str(error)) from error
                if change.type == "ERROR":
                    status = decoded(change.object, _Status)
                    raise _refusal("watch", resource, status.code, bytes(change.object), {})
                yield change

    @contextlib.contextmanager
    def _translated(self, verb: str, resource: Resource[Any], part: str = "") -> Iterator[None]:
        """Raise ClusterUnavailable for whatever the client library raises."""
        try:
            yield
        except (httpx2.HTTPError, httpx2.StreamError, httpx2.InvalidURL, ConfigError, OSError, ValueError) as error:
            if isinstance(error, httpx2.ConnectError):
                # By the next time the certificates or the address may be others. What is open stays open.
                self._client = None
            problem = _one_line(error) or type(error).__name__
            raise ClusterUnavailable.of(f"{verb} {_named(resource, part)}: {problem}") from error


def _config(kubeconfig: str | None) -> SingleConfig:
    """Read how the API server is reached. Raises ConfigError, OSError, YAMLError or one of `_MALFORMED`."""
    path = kubeconfig or os.environ.get("KUBECONFIG")
    if path:
        found = KubeConfig.from_file(path).get()
    elif Path(SERVICE_ACCOUNT, "token").exists():
        found = KubeConfig.from_service_account(SERVICE_ACCOUNT).get()
    else:
        found = KubeConfig.from_file(DEFAULT_KUBECONFIG).get()
    if found is None:
        raise ConfigError("the kubeconfig has no current context")
    return found if found.user is not None else found._replace(user=User())


def _parameters(config: SingleConfig) -> ConnectionParams:
    # To read all authorities takes a while, and a server of this machine (`kubectl proxy`) has no certificate.
    plain = config.cluster.server.startswith("http://")
    verify = False if plain else verify_cluster(config.cluster, config.user or User(), config.abs_file)
    options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
    if hasattr(socket, "TCP_KEEPIDLE"):
        names = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
        options += [(socket.IPPROTO_TCP, name, value) for name, value in zip(names, _KEEPALIVE, strict=True)]
    # Each watch holds a connection for as long as it lasts.
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=8)
    transport = httpx2.AsyncHTTPTransport(verify=verify, socket_options=options, limits=limits)
    # Its type is that of the client that is not asynchronous.
    return ConnectionParams(timeout=httpx2.Timeout(_TIMEOUT_SECONDS), transport=transport)  # type: ignore[arg-type]


def _refusal(
    verb: str, resource: Resource[Any], code: int, content: bytes, headers: Mapping[str, str], part: str = ""
) -> ClusterUnavailable:
    """The error for a status that is one."""
    try:
        status = msgspec.json.decode(content, type=_Status)
    except (msgspec.DecodeError, UnicodeDecodeError):
        status = _Status(code)
    what, said = f"{verb} {_named(resource, part)}", _one_line(status.message) or f"status {code}"
    if code == 401:
        return ClusterRefuses.of(f"{what}: the API server does not take the credentials: {said}")
    if code == 403:
        return ClusterRefuses.of(f"the role lacks the verb {verb} on {_named(resource, part)}: {said}")
    if code == 404:
        return ClusterObjectMissing.of(f"{what}: {said}")
    if code == 409:
        return ClusterConflict.of(f"{what}: {said}")
    if code == 410 or status.reason == "Expired":
        return ClusterHistoryGone.of(f"{what}: {said}")
    after = headers.get("Retry-After", "")
    return ClusterUnavailable.of(f"{what}: {said}", float(after) if after.isdigit() else None)


def decoded(content: bytes | msgspec.Raw, form: type[S]) -> S:
    """Decode an answer. Raises ClusterUnavailable."""
    try:
        return msgspec.json.decode(content, type=form)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ClusterUnavailable.of(f"the API server's answer cannot be read: {_one_line(error)}") from error


def _named(resource: Resource[Any], part: str) -> str:
    return f"{resource.role_name}{f'/{part}' if part else ''}"


def _one_line(error: object) -> str:
    return printable(" ".join(str(error).split()))[:_LONGEST_MESSAGE]
