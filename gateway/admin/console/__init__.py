"""The console's static page and assets, without any data; the browser reads data from `/admin/live` with the key."""

from functools import cache
from importlib import resources
from typing import Final

from starlette.responses import Response

#: Path -> file and media type.
_FILES: Final = {
    "/console": ("index.html", "text/html; charset=utf-8"),
    "/console/console.css": ("console.css", "text/css; charset=utf-8"),
    "/console/console.js": ("console.js", "text/javascript; charset=utf-8"),
    "/console/pages.js": ("pages.js", "text/javascript; charset=utf-8"),
    "/console/rollouts.js": ("rollouts.js", "text/javascript; charset=utf-8"),
    "/console/scaling.js": ("scaling.js", "text/javascript; charset=utf-8"),
    "/console/shapes.js": ("shapes.js", "text/javascript; charset=utf-8"),
    "/console/icon.svg": ("icon.svg", "image/svg+xml"),
}
#: A policy by which nothing is loaded from elsewhere, no inline script runs, and no text becomes HTML.
_POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
)
_HEADERS: Final = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


def page_at(path: str) -> Response | None:
    """Return the console's file at a path."""
    if path == "/console/":
        return Response(status_code=308, headers={"location": "../console"})
    found = _FILES.get(path)
    if found is None:
        return None
    name, media = found
    return Response(_content(name), headers={**_HEADERS, "content-type": media})


@cache
def _content(name: str) -> bytes:
    return resources.files(__name__).joinpath(name).read_bytes()
