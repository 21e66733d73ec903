"""The OpenAPI 3.1 document, made from the routes and messages that are served."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from thresher._version import __version__
from thresher.protocol.messages import Problem
from thresher.server.auth import KINDS
from thresher.server.event_streams import EVENTS
from thresher.server.routing import JSON, OCTETS, Route

_REFERENCE = "#/components/schemas/{name}"
_NAME = {"type": "string", "minLength": 1, "maxLength": 100, "pattern": r"^[A-Za-z0-9][A-Za-z0-9._:-]*$"}
_NUMBER = {"type": "integer", "minimum": 0, "maximum": 999_999_999_999}
_WORDS = {
    "enrolment": "An enrolment key, which enrols devices.",
    "device": "A device's token, returned when it enrols.",
    "analyst": "An analyst's token.",
    "operator": "An operator's token.",
}
_PROBLEMS = {
    400: "The message cannot be read, or is of another version; then `versions` lists those of the server.",
    401: "The token is missing, wrong, expired or revoked.",
    402: "The budget has not enough left; nothing was charged.",
    403: "The token is for another role, or a page of this origin may not ask.",
    404: "There is no such query, series, round or key.",
    405: "The path does not take this method.",
    408: "The body did not arrive in time.",
    409: "Something else is stored under this name; nothing was changed.",
    413: "The body is too large.",
    422: "A setting is out of range, or the target cannot be reached.",
    429: "Too many requests, rounds, queries or streams; see Retry-After.",
    503: "A store or another role is not available; nothing was acknowledged. See Retry-After.",
}
# Raw bytes, which no message type describes.
_OCTETS = {"type": "string", "contentMediaType": OCTETS}


def document(routes: Iterable[Route]) -> bytes:
    """The document as JSON."""
    routes = tuple(routes)
    kinds = {kind for route in routes for kind in (route.body, route.answer) if kind is not None and kind is not dict}
    ordered = sorted(kinds | {Problem}, key=lambda kind: kind.__name__)
    shapes, components = msgspec.json.schema_components(ordered, ref_template=_REFERENCE)
    shape_of: dict[type, dict[str, Any]] = dict(zip(ordered, shapes, strict=True))
    shape_of[dict] = {"type": "object"}
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, shape_of)
    used = [kind for kind in KINDS if any(kind in (*route.opens, *route.also) for route in routes)]
    content = {
        "openapi": "3.1.0",
        "info": {
            "title": "Thresher",
            "version": __version__,
            "summary": "What many people hold, without learning what any one of them holds.",
            "license": {"name": "Apache 2.0", "identifier": "Apache-2.0"},
        },
        "paths": paths,
        "components": {
            "schemas": {name: _plain(shape) for name, shape in components.items()},
            "securitySchemes": {
                kind: {"type": "http", "scheme": "bearer", "description": _WORDS.get(kind, "A key between two roles.")}
                for kind in used
            },
        },
    }
    return msgspec.json.encode(content)


def _plain(shape: Any) -> Any:
    """A schema without `prefixItems`, which common readers of OpenAPI 3.1 still refuse.

    A pair becomes an array of two items, each of one of the pair's types. That is less strict, and still true.
    """
    if isinstance(shape, list):
        return [_plain(part) for part in shape]
    if not isinstance(shape, dict):
        return shape
    plain = {key: _plain(value) for key, value in shape.items() if key != "prefixItems"}
    if "prefixItems" in shape:
        plain["items"] = {"anyOf": _plain(shape["prefixItems"])}
    return plain


def _operation(route: Route, shape_of: dict[type, dict[str, Any]]) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [_tag(route)],
        "security": [*([{}] if route.also else []), *({kind: []} for kind in (*route.opens, *route.also))],
        "responses": _responses(route, shape_of),
    }
    names = re.findall(r"{(\w+)}", route.path)
    if names:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": _NUMBER if name == "number" else _NAME}
            for name in names
        ]
    if route.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": shape_of[route.body]}}}
    elif route.takes == OCTETS:
        operation["requestBody"] = {"required": True, "content": {OCTETS: {"schema": _OCTETS}}}
    return operation


def _responses(route: Route, shape_of: dict[type, dict[str, Any]]) -> dict[str, Any]:
    if route.answer is None and route.answers == JSON:
        responses: dict[str, Any] = {"204": {"description": "Done."}}
    else:
        shape: dict[str, Any] = {"type": "string"}
        if route.answer is not None and route.answers != EVENTS:
            shape = shape_of[route.answer]
        media = route.answers.partition(";")[0]
        words = (route.answer.__doc__ if route.answer not in (None, dict) else None) or route.summary
        answer = {"description": words.partition("\n")[0], "content": {media: {"schema": shape}}}
        responses = {str(route.status): answer}
    statuses = set(route.problems) | {503}
    if route.opens or route.also:
        statuses |= {401, 403, 429}
    if route.method in ("POST", "PUT"):
        statuses |= {408, 413}
    for status in sorted(statuses):
        responses[str(status)] = _problem(status, shape_of)
    if route.name == "readiness":
        responses["503"] = {**responses["200"], "description": "The server cannot do its work now."}
    return responses


def _problem(status: int, shape_of: dict[type, dict[str, Any]]) -> dict[str, Any]:
    problem: dict[str, Any] = {
        "description": _PROBLEMS[status],
        "content": {"application/problem+json": {"schema": shape_of[Problem]}},
    }
    if status in (429, 503):
        problem["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    return problem


def _tag(route: Route) -> str:
    if not route.opens:
        return "health"
    if any("-to-" in kind for kind in route.opens):
        return "peer"
    return "device" if route.opens[0] == "enrolment" else route.opens[0]
