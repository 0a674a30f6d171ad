"""Make the OpenAPI 3.1 document of a table of routes."""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

import msgspec

from gateway.api.openapi.description import EVENTS, EVERYWHERE, JSON, WITH_BODY, WITH_KEY, Description
from gateway.api.openapi.published_shapes import Published, published_shapes
from gateway.api.server.api_route import ApiRoute
from protos.errors import PenstockError

#: Descriptions by method and path.
Descriptions = Mapping[tuple[str, str], Description]
_REFERENCE: Final = "#/components/schemas/{name}"
#: A path parameter in Starlette's syntax.
_VARIABLE: Final = re.compile(r"\{(\w+)(?::\w+)?\}")
_METHODS: Final = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE"})
_INFO: Final = {
    "title": "Penstock",
    "version": "1",
    "description": "OpenAI's API and Anthropic's Messages, answered by the models that are configured here.",
}
_REQUEST_ID: Final = {
    "x-request-id": {
        "description": "The request's name here; the client's own, where it sends one in a header of this name.",
        "schema": {"type": "string"},
    }
}


def document(routes: Sequence[ApiRoute], descriptions: Descriptions) -> dict[str, Any]:
    """Make the document as plain values. A route without a description has only what the route itself states."""
    shown = [(route, _described(route, descriptions)) for route in routes if route.method in _METHODS]
    kinds = _kinds(description for _, description in shown)
    schemas, components = msgspec.json.schema_components(kinds, ref_template=_REFERENCE)
    schema_of = dict(zip(map(repr, kinds), schemas, strict=True))
    schema_of |= {repr(one): one.schema for one in _published(description for _, description in shown)}
    paths: defaultdict[str, dict[str, Any]] = defaultdict(dict)
    for route, description in shown:
        operation = _operation(route, description, schema_of, components)
        paths[_VARIABLE.sub(r"{\1}", route.path)][route.method.lower()] = operation
    return {
        "openapi": "3.1.0",
        "info": _INFO,
        "paths": dict(paths),
        "components": {
            "schemas": {**components, **published_shapes()},
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer"},
                "anthropicKey": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            },
        },
        "security": [{"key": []}, {"anthropicKey": []}],
    }


def _described(route: ApiRoute, descriptions: Descriptions) -> Description:
    return descriptions.get((route.method, route.path)) or Description(f"{route.method} {route.path}", Any, Any)


def _kinds(descriptions: Iterable[Description]) -> list[Any]:
    """List every type that has a schema of its own, once."""
    found: dict[str, Any] = {}
    for one in descriptions:
        for kind in (one.body, one.answer, one.event, one.query, one.error):
            if kind is not None and not isinstance(kind, Published):
                found[repr(kind)] = kind
    return list(found.values())


def _published(descriptions: Iterable[Description]) -> list[Published]:
    kinds = (kind for one in descriptions for kind in (one.answer, one.event))
    return [kind for kind in kinds if isinstance(kind, Published)]


def _operation(
    route: ApiRoute, description: Description, schema_of: dict[str, Any], components: dict[str, Any]
) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": HTTPStatus.OK.phrase, "headers": _REQUEST_ID}
    content = schema_of[repr(description.answer)] if description.answer is not None else {}
    answer["content"] = {description.answer_media: {"schema": content}}
    if description.event is not None:
        answer["content"][EVENTS] = {"schema": _event(schema_of[repr(description.event)], description)}
    operation: dict[str, Any] = {
        "operationId": _name(route),
        "summary": description.summary,
        "parameters": _parameters(route, description, schema_of, components),
        "responses": {
            "200": answer,
            **{str(status): {**answer, "description": HTTPStatus(status).phrase} for status in description.also},
            **_failures(_errors(description), schema_of[repr(description.error)]),
        },
    }
    tag = description.tag or route.endpoint
    if tag:
        operation["tags"] = [tag]
    if description.body is not None:
        content = {description.media: {"schema": schema_of[repr(description.body)]}}
        operation["requestBody"] = {"required": True, "content": content}
    if description.public:
        operation["security"] = []
    return operation


def _event(schema: dict[str, Any], description: Description) -> dict[str, Any]:
    """Describe a stream by one of its events, as OpenAPI 3.1 allows."""
    data: dict[str, Any] = {"type": "string", "contentMediaType": JSON, "contentSchema": schema}
    if description.done:
        data = {"anyOf": [data, {"const": "[DONE]"}]}
    return {"type": "object", "properties": {"event": {"type": "string"}, "data": data}, "required": ["data"]}


def _name(route: ApiRoute) -> str:
    """Make the operation's id, `post_v1_chat_completions`, which is unique."""
    path = _VARIABLE.sub(r"\1", route.path)
    return re.sub(r"\W+", "_", route.method.lower() + path).strip("_")


def _errors(description: Description) -> set[type[PenstockError]]:
    with_key = () if description.public else WITH_KEY
    with_body = () if description.body is None else WITH_BODY
    return {*description.errors, *EVERYWHERE, *with_key, *with_body}


def _failures(errors: Iterable[type[PenstockError]], schema: dict[str, Any]) -> dict[str, Any]:
    """Make one response for each status; the codes of its errors tell them apart."""
    codes: defaultdict[int, set[str]] = defaultdict(set)
    for error in errors:
        codes[error.status].add(error.code or "null")
    return {
        str(status): {
            "description": f"{HTTPStatus(status).phrase}; `code`: {', '.join(sorted(codes[status]))}",
            "headers": _REQUEST_ID,
            "content": {JSON: {"schema": schema}},
        }
        for status in sorted(codes)
    }


def _parameters(
    route: ApiRoute, description: Description, schema_of: dict[str, Any], components: dict[str, Any]
) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in _VARIABLE.findall(route.path)
    ]
    if description.query is not None:
        query = components[schema_of[repr(description.query)]["$ref"].rpartition("/")[2]]
        found += [
            {"name": name, "in": "query", "required": name in query.get("required", ()), "schema": schema}
            for name, schema in query["properties"].items()
        ]
    return found
