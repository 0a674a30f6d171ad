"""The ASGI application of the admin API: find the operation, check the key and the request, render errors.

It is written for clarity, not for speed, unlike the gateway's own paths.
"""

import asyncio
import logging
import re
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, Final
from urllib.parse import parse_qsl

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import compile_path
from starlette.types import Message, Receive, Scope, Send

from gateway.admin.admin_key import matches
from gateway.admin.console import page_at
from gateway.admin.operation import METRICS, Call, Operation, Service
from gateway.admin.operations import OPERATIONS
from gateway.admin.scrape_key import ScrapeKey
from gateway.admin.tenant_operations import TenantView, etag
from gateway.api.server.discard_body import discard_body
from gateway.api.server.openai_errors import error_body
from gateway.tenancy.tenants.inputs import record_of
from protos.errors import (
    AuthenticationFailed,
    BodyTooLarge,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    MethodNotAllowed,
    Overloaded,
    PenstockError,
    RequestTimeout,
    RouteNotFound,
)

log = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 1_000_000
BODY_SECONDS: Final = 10.0
#: Longest time to process one request after its body has arrived, in seconds.
WORK_SECONDS: Final = 30.0
ACTOR_HEADER: Final = "x-penstock-actor"
_MAX_ACTOR: Final = 64
_MAX_QUERY_BYTES: Final = 8192
_MAX_MESSAGE: Final = 512
_MAX_PARAM: Final = 128
_JSON: Final = "application/json"
_NUMBER: Final = re.compile(r"-?[0-9]{1,15}")


class AdminApp:
    """Answer every request with an operation's answer, or with an error in the gateway's form."""

    def __init__(
        self,
        service: Service,
        key: str,
        *,
        scrape_key: ScrapeKey | None = None,
        operations: Sequence[Operation] = OPERATIONS,
    ) -> None:
        """`key` is the admin key that clients must send; `scrape_key` opens those operations that are `scraped`."""
        #: What requests act on; another one after a change of the configuration.
        self.service = service
        self._key = key
        self._scrape_key = scrape_key
        self._active: set[asyncio.Task[Any]] = set()
        self._abandoned = False
        self._resources: dict[str, tuple[re.Pattern[str], dict[str, Operation]]] = {}
        for operation in operations:
            _, methods = self._resources.setdefault(operation.path, (compile_path(operation.path)[0], {}))
            methods[operation.method] = operation

    def abandon(self) -> None:
        """End all requests under way with an error: the process has no time left."""
        self._abandoned = True
        for task in self._active:
            task.cancel()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; raises nothing but a cancellation."""
        task = asyncio.current_task()
        assert task is not None
        self._active.add(task)
        ended = False

        async def noted() -> Message:
            nonlocal ended
            message = await receive()
            ended = message["type"] != "http.request" or not message.get("more_body", False)
            return message

        request = Request(scope, noted)
        try:
            await self._respond(request, send)
            if not ended and (length := _sent_unasked(request)) is not None:
                await discard_body(receive, length)
        finally:
            self._active.discard(task)

    async def _respond(self, request: Request, send: Send) -> None:
        request_id = "req_" + secrets.token_hex(12)
        methods, path = self._find(request)
        try:
            response = await self._answer(request, methods, path)
        except asyncio.CancelledError:
            if not self._abandoned:
                raise
            response = _failure(Overloaded("The admin API is shutting down."), methods)
        except PenstockError as error:
            if error.status >= 500:
                log.warning("request %s: %d %s %s", request_id, error.status, error.code, error.__cause__ or error)
            response = _failure(error, methods)
        except Exception:
            log.exception("request %s failed", request_id)
            response = _failure(InternalError("The admin API failed on this request."), methods)
        response.headers["x-request-id"] = request_id
        response.headers["cache-control"] = "no-store"
        await response(request.scope, request.receive, send)

    async def _answer(self, request: Request, methods: Mapping[str, Operation], path: Mapping[str, str]) -> Response:
        method = "GET" if request.method == "HEAD" else request.method
        if method == "GET" and (page := page_at(request.scope["path"])) is not None:
            return page
        operation = methods.get(method)
        if operation is None or not operation.public:
            self._authenticate(request, scraped=operation is not None and operation.scraped)
        if not methods:
            raise RouteNotFound(f"There is nothing at {request.scope['path'][:128]}; see /admin/openapi.json.")
        if operation is None:
            raise MethodNotAllowed(f"Not allowed to {request.method[:16]} here; use {' or '.join(methods)}.")
        call = Call(
            service=self.service,
            path=path,
            query=_query(request.scope["query_string"], operation),
            body=_body(await _read(request), operation),
            actor=_actor(request),
            if_match=_if_match(request, operation),
        )
        try:
            async with asyncio.timeout(WORK_SECONDS):
                return _success(operation, await operation.handler(call))
        except TimeoutError:
            raise DeadlineExceeded(
                "The request took longer than its time limit; a change may have been made."
            ) from None

    def _find(self, request: Request) -> tuple[Mapping[str, Operation], Mapping[str, str]]:
        """Find the operations at a path, by method, and the path's variables; empty without a match."""
        for pattern, methods in self._resources.values():
            if match := pattern.match(request.scope["path"]):
                return methods, match.groupdict()
        return {}, {}

    def _authenticate(self, request: Request, *, scraped: bool) -> None:
        given = request.headers.get("authorization")
        if matches(given, self._key):
            return
        if self._scrape_key is None or not self._scrape_key.matches(given):
            raise AuthenticationFailed("The admin key is missing or wrong.")
        if not scraped:
            raise AuthenticationFailed("This key may read /metrics and nothing else.")


def _success(operation: Operation, answer: Any) -> Response:
    if isinstance(answer, Response):
        return answer
    if operation.answer is str:
        return Response(answer, headers={"content-type": METRICS})
    headers = {"etag": etag(answer)} if operation.tagged and isinstance(answer, TenantView) else {}
    return Response(msgspec.json.encode(answer), operation.status, headers, _JSON)


def _failure(error: PenstockError, methods: Mapping[str, Operation]) -> Response:
    error.message, error.param = error.message[:_MAX_MESSAGE], error.param and error.param[:_MAX_PARAM]
    headers = {}
    if error.status == 401:
        headers["www-authenticate"] = "Bearer"
    if error.status == 503:
        headers["retry-after"] = "1"
    if isinstance(error, MethodNotAllowed):
        headers["allow"] = ", ".join(methods)
    return Response(error_body(error), error.status, headers, _JSON)


def _sent_unasked(request: Request) -> int | None:
    """Return the length of a body that the client sends without being asked for it, 0 if unknown; None for no body."""
    headers = request.headers
    length = headers.get("content-length", "")
    if "expect" in headers:
        return None
    if _NUMBER.fullmatch(length):
        return int(length) or None
    return 0 if "transfer-encoding" in headers else None


async def _read(request: Request) -> bytes:
    """Read the body within its bounds. Raises BodyTooLarge, RequestTimeout or InvalidRequest."""
    too_large = BodyTooLarge(f"The request body is longer than the limit of {MAX_BODY_BYTES} bytes.")
    length = request.headers.get("content-length", "")
    if _NUMBER.fullmatch(length) and int(length) > MAX_BODY_BYTES:
        raise too_large
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for chunk in request.stream():
                body += chunk
                if len(body) > MAX_BODY_BYTES:
                    raise too_large
    except TimeoutError:
        raise RequestTimeout(f"The request body did not arrive within {BODY_SECONDS:.0f} seconds.") from None
    except ClientDisconnect:
        raise InvalidRequest("The request body is malformed or ended early.") from None
    return bytes(body)


def _body(body: bytes, operation: Operation) -> Any:
    """Decode the body into the operation's type. Raises InvalidRequest."""
    if operation.body is None:
        if body.strip() not in (b"", b"{}"):
            raise InvalidRequest("This request takes no body.")
        return None
    try:
        value = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidRequest(f"The request body is not valid JSON: {error}") from None
    except RecursionError:
        raise InvalidRequest("The request body is nested too deeply.") from None
    try:
        return record_of(value, operation.body)
    except InvalidRequest as error:
        if not operation.secret:
            raise
        # The decoder's message would quote the bad value, and an unknown field's name may hold anything.
        known = error.param if error.param in operation.body.__struct_fields__ else None
        raise InvalidRequest("The request body is not of the form that this request takes.", param=known) from None


def _query(text: bytes, operation: Operation) -> Any:
    """Decode the query's parameters into the operation's type. Raises InvalidRequest."""
    if len(text) > _MAX_QUERY_BYTES:
        raise InvalidRequest(f"The query is longer than the limit of {_MAX_QUERY_BYTES} bytes.")
    values: dict[str, str | int] = {}
    for name, value in parse_qsl(text.decode("ascii", "replace"), keep_blank_values=True):
        if name in values:
            raise InvalidRequest(f"{name[:_MAX_PARAM]}: given twice", param=name)
        # `limit` is the only number that operations take.
        values[name] = int(value) if name == "limit" and _NUMBER.fullmatch(value) else value
    return record_of(values, operation.query)


def _actor(request: Request) -> str:
    """Read the actor of a change from its header, for the audit trail. Raises InvalidRequest."""
    given = request.headers.get(ACTOR_HEADER)
    if given is None:
        return "admin-api"
    try:
        # Starlette reads headers as Latin-1; what clients send is UTF-8 at most.
        name = given.encode("latin-1").decode()
    except UnicodeDecodeError:
        name = ""
    if not 1 <= len(name) <= _MAX_ACTOR or not name.isprintable():
        raise InvalidRequest(f"{ACTOR_HEADER}: expected 1 to {_MAX_ACTOR} printable characters", param=ACTOR_HEADER)
    return f"admin-api:{name}"


def _if_match(request: Request, operation: Operation) -> frozenset[str] | None:
    """Parse the entity tags of `if-match`. Raises InvalidRequest where the operation does not support them."""
    given = request.headers.get("if-match")
    if given is None:
        return None
    if not operation.conditional:
        raise InvalidRequest("if-match: this request is not made conditionally", param="if-match")
    return frozenset(tag.strip() for tag in given.split(","))
