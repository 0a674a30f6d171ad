"""Make the OpenAPI 3.1 document of a table of operations."""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from gateway.admin.operation import EVENTS, METRICS, Operation
from gateway.config.base import Record
from protos.errors import (
    AuthenticationFailed,
    BodyTooLarge,
    DeadlineExceeded,
    InternalError,
    InvalidRequest,
    PenstockError,
    RequestTimeout,
    StoreUnavailable,
)

_REFERENCE: Final = "#/components/schemas/{name}"
_JSON: Final = "application/json"
_MERGE_PATCH: Final = "application/merge-patch+json"
_VARIABLE: Final = re.compile(r"\{(\w+)\}")
_EVERYWHERE: Final = (InvalidRequest, RequestTimeout, BodyTooLarge, InternalError)
_WITH_KEY: Final = (AuthenticationFailed, StoreUnavailable, DeadlineExceeded)


class ErrorObject(Record, frozen=True, kw_only=True):
    """The error object, in the form of the gateway's own errors."""

    message: str
    type: str
    param: str | None
    code: str | None


class Error(Record, frozen=True, kw_only=True):
    """The body of every answer with a status of 400 or more."""

    error: ErrorObject


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """Return the document as plain values."""
    kinds = _kinds(operations)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    schema_of = dict(zip(map(repr, kinds), schemas, strict=True))
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for operation in operations:
        paths[operation.path][operation.method.lower()] = _operation(operation, schema_of, components)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Penstock admin API", "version": "1"},
        "paths": dict(paths),
        "components": {
            "schemas": components,
            "securitySchemes": {
                "adminKey": {"type": "http", "scheme": "bearer"},
                "scrapeKey": {"type": "http", "scheme": "bearer"},
            },
        },
        "security": [{"adminKey": []}],
    }


def _kinds(operations: Sequence[Operation]) -> list[Any]:
    """List every type that has a schema, once."""
    found: dict[str, Any] = {repr(Error): Error}
    for operation in operations:
        for kind in (operation.query, operation.body, operation.answer):
            if kind is not None:
                found[repr(kind)] = kind
    return list(found.values())


def _operation(operation: Operation, schema_of: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    kinds = [METRICS if operation.answer is str else _JSON, *([EVENTS] if operation.streamed else ())]
    answer: dict[str, Any] = {
        "description": HTTPStatus(operation.status).phrase,
        "content": {name: {"schema": schema_of[repr(operation.answer)]} for name in kinds},
    }
    if operation.tagged:
        answer["headers"] = {"etag": {"description": "For `if-match`.", "schema": {"type": "string"}}}
    responses = {str(operation.status): answer, **_failures(_errors(operation), schema_of)}
    described: dict[str, Any] = {
        "operationId": operation.name,
        "summary": operation.summary,
        "parameters": _parameters(operation, schema_of, components),
        "responses": responses,
    }
    if operation.body is not None:
        media = _MERGE_PATCH if operation.method == "PATCH" else _JSON
        described["requestBody"] = {"required": True, "content": {media: {"schema": schema_of[repr(operation.body)]}}}
    if operation.public:
        described["security"] = []
    elif operation.scraped:
        described["security"] = [{"adminKey": []}, {"scrapeKey": []}]
    return described


def _errors(operation: Operation) -> Iterable[type[PenstockError]]:
    return {*operation.errors, *_EVERYWHERE, *(() if operation.public else _WITH_KEY)}


def _failures(errors: Iterable[type[PenstockError]], schema_of: dict[str, Any]) -> dict[str, Any]:
    """Make one response per status, which may stand for several errors; their codes tell these apart."""
    codes: defaultdict[int, set[str]] = defaultdict(set)
    for error in errors:
        codes[error.status].add(error.code or "null")
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}; `code`: {', '.join(sorted(codes[status]))}",
            "content": {_JSON: {"schema": schema_of[repr(Error)]}},
        }
        for status in sorted(codes)
    }


def _parameters(operation: Operation, schema_of: dict[str, Any], components: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
        for name in _VARIABLE.findall(operation.path)
    ]
    query = components[schema_of[repr(operation.query)]["$ref"].rpartition("/")[2]]
    found += [
        {"name": name, "in": "query", "required": name in query.get("required", ()), "schema": schema}
        for name, schema in query["properties"].items()
    ]
    if operation.conditional:
        found.append(_header("if-match", "Change the record only while it has one of these entity tags."))
    if operation.method not in ("GET", "HEAD"):
        found.append(_header("x-penstock-actor", "Who makes the change, for the audit trail: 1 to 64 characters."))
    return found


def _header(name: str, description: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": False, "description": description, "schema": {"type": "string"}}
