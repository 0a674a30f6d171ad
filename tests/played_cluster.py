"""A small API server of Kubernetes for tests, in the test's own loop, on a real socket.

It keeps objects and their versions, tells watches of changes, merges patches, keeps to preconditions, and refuses what
a role lacks. What controllers would do is done by a test, or by what it puts into `controllers`. The real server is in
tests/kubernetes.
"""

import asyncio
import contextlib
import itertools
import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import yaml

from tests.upstreams import Caller, Heard, chunk, plain

Object = dict[str, Any]

_REASONS = {
    400: "BadRequest",
    403: "Forbidden",
    404: "NotFound",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
}


class Refused(Exception):
    """A status that is an error."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> bytes:
        return json.dumps(
            {"kind": "Status", "code": self.code, "reason": _REASONS.get(self.code, ""), "message": self.message}
        ).encode()


@dataclass
class PlayedCluster:
    """Its objects by kind (as in paths) and name, all of the namespace `default`."""

    objects: dict[tuple[str, str], Object] = field(default_factory=dict)
    #: What a role lacks, as `list pods`.
    lacks: set[str] = field(default_factory=set)
    #: Requests as they came, as `list pods`.
    heard: list[str] = field(default_factory=list)
    #: Whether the server answers at all.
    is_away: bool = False
    #: Called after each change of an object: a controller's work.
    controllers: list[Any] = field(default_factory=list)
    kubeconfig: Path = Path()
    port: int = 0
    _version: int = 0
    _oldest: int = 0
    _history: list[tuple[int, str, str, Object]] = field(default_factory=list)
    _changed: asyncio.Event = field(default_factory=asyncio.Event)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _callers: set[Caller] = field(default_factory=set)

    def named(self, plural: str) -> dict[str, Object]:
        return {name: one for (kind, name), one in self.objects.items() if kind == plural}

    def put(self, plural: str, one: Object) -> Object:
        """Create or replace an object, as a controller or a person would."""
        metadata = one.setdefault("metadata", {})
        known = self.objects.get((plural, metadata["name"]))
        metadata.setdefault("namespace", "default")
        metadata.setdefault("uid", known["metadata"]["uid"] if known else f"{next(self._numbers):08d}-aaaa")
        metadata.setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        self._version += 1
        metadata["resourceVersion"] = str(self._version)
        self.objects[plural, metadata["name"]] = one
        self._tell(plural, "MODIFIED" if known else "ADDED", one)
        return one

    def remove(self, plural: str, name: str) -> None:
        one = self.objects.pop((plural, name), None)
        if one is not None:
            self._version += 1
            one = {**one, "metadata": {**one["metadata"], "resourceVersion": str(self._version)}}
            self._tell(plural, "DELETED", one)

    def _tell(self, plural: str, kind: str, one: Object) -> None:
        self._history.append((self._version, plural, kind, json.loads(json.dumps(one))))
        self._wake()
        for controller in self.controllers:
            controller(self, plural)

    def forget(self) -> None:
        """Forget what has happened: a watch from earlier is answered by 410 Gone."""
        self._version += 1
        self._oldest = self._version

    def bookmark(self) -> None:
        """Tell all watches how far they are."""
        self._version += 1
        self._history.append((self._version, "", "BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}}))
        self._wake()

    def cut(self) -> None:
        """Close all connections."""
        for caller in self._callers:
            caller.writer.transport.abort()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    # ---- the server

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        caller = Caller(reader, writer)
        self._callers.add(caller)
        try:
            while True:
                heard = await caller.hear()
                if self.is_away:
                    return
                await self._answer(caller, heard)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._callers.discard(caller)
            writer.close()

    async def _answer(self, caller: Caller, heard: Heard) -> None:
        parts = urlsplit(heard.target)
        asked = dict(parse_qsl(parts.query))
        path = parts.path.strip("/").split("/")
        rest = path[2:] if path[0] == "api" else path[3:]
        plural, name, part = [*(rest[2:] if rest[0] == "namespaces" else rest), "", ""][:3]
        verb = {"PATCH": "patch", "POST": "create", "PUT": "update", "DELETE": "delete"}.get(
            heard.method, "watch" if "watch" in asked else "get" if name else "list"
        )
        what = f"{verb} {plural}{f'/{part}' if part else ''}"
        self.heard.append(what)
        try:
            if what in self.lacks:
                raise Refused(403, f'{plural} is forbidden: User "system:serviceaccount:default:x" cannot {verb}')
            if verb == "watch":
                await self._watch(caller, plural, asked)
                return
            body = json.loads(heard.body) if heard.body else {}
            answer = getattr(self, f"_{verb}")(plural, name, part, body, asked)
            await caller.say(plain(json.dumps(answer).encode()))
        except Refused as error:
            await caller.say(plain(error.status, f"{error.code} {_REASONS.get(error.code, 'Error')}"))

    def _list(self, plural: str, _: str, __: str, ___: Object, asked: dict[str, str]) -> Object:
        found = [one for one in self.named(plural).values() if _selected(one, asked.get("labelSelector", ""))]
        return {"metadata": {"resourceVersion": str(self._version)}, "items": found}

    def _get(self, plural: str, name: str, _: str, __: Object, ___: dict[str, str]) -> Object:
        one = self.objects.get((plural, name))
        if one is None:
            raise Refused(404, f'{plural} "{name}" not found')
        return one

    def _create(self, plural: str, _: str, __: str, body: Object, ___: dict[str, str]) -> Object:
        name = body["metadata"]["name"]
        if (plural, name) in self.objects:
            raise Refused(409, f'{plural} "{name}" already exists')
        return self.put(plural, body)

    def _update(self, plural: str, name: str, part: str, body: Object, asked: dict[str, str]) -> Object:
        one = self._get(plural, name, part, body, asked)
        self._check(one, body)
        return self.put(plural, {**body, "metadata": {**one["metadata"], **body["metadata"]}})

    def _patch(self, plural: str, name: str, part: str, body: Object, asked: dict[str, str]) -> Object:
        one = self._get(plural, name, part, body, asked)
        self._check(one, body)
        if part == "scale":
            body = {"spec": {"replicas": body["spec"]["replicas"]}}
        return self.put(plural, _merged(one, body))

    def _delete(self, plural: str, name: str, _: str, body: Object, asked: dict[str, str]) -> Object:
        one = self._get(plural, name, "", body, asked)
        if body.get("preconditions", {}).get("uid", one["metadata"]["uid"]) != one["metadata"]["uid"]:
            raise Refused(409, "the UID in the precondition does not match")
        if plural == "pods":
            # It is the kubelet that removes it, once its processes have ended.
            self.put(plural, _merged(one, {"metadata": {"deletionTimestamp": "2026-01-01T00:01:00Z"}}))
        else:
            self.remove(plural, name)
        return {"kind": "Status", "status": "Success"}

    @staticmethod
    def _check(one: Object, body: Object) -> None:
        version = body.get("metadata", {}).get("resourceVersion")
        if version not in (None, one["metadata"]["resourceVersion"]):
            raise Refused(409, "the object has been modified; please apply your changes to the latest version")

    async def _watch(self, caller: Caller, plural: str, asked: dict[str, str]) -> None:
        since = int(asked["resourceVersion"])
        if since < self._oldest:
            raise Refused(410, f"too old resource version: {since} ({self._oldest})")
        await caller.say(b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n")
        while True:
            changed = self._changed
            for version, kind_of, kind, one in list(self._history):
                told = kind_of == plural and _selected(one, asked.get("labelSelector", ""))
                if version > since and (told or kind == "BOOKMARK"):
                    await caller.say(chunk(json.dumps({"type": kind, "object": one}).encode() + b"\n"))
            since = max(since, self._version)
            await changed.wait()


def _selected(one: Object, selector: str) -> bool:
    labels = one["metadata"].get("labels", {})
    terms = [term.partition("=") for term in selector.split(",") if term]
    return all(name in labels and (not equals or labels[name] == value) for name, equals, value in terms)


def _merged(one: Any, patch: Any) -> Any:
    """RFC 7396."""
    if not isinstance(patch, dict):
        return patch
    merged = dict(one) if isinstance(one, dict) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


@contextlib.asynccontextmanager
async def played_cluster(folder: Path) -> AsyncIterator[PlayedCluster]:
    """One that listens; `kubeconfig` is a file in the folder."""
    cluster = PlayedCluster()
    tasks: set[asyncio.Task[None]] = set()

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.ensure_future(cluster.serve(reader, writer))
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    cluster.port = server.sockets[0].getsockname()[1]
    cluster.kubeconfig = folder / "kubeconfig"
    cluster.kubeconfig.write_text(kubeconfig_of(cluster.port))
    try:
        yield cluster
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.wait_closed()


def kubeconfig_of(port: int) -> str:
    return yaml.safe_dump(
        {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u", "namespace": "default"}}],
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{port}"}}],
            "users": [{"name": "u", "user": {"token": "t"}}],
        }
    )
