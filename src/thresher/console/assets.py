"""The style sheet, the scripts and the logo: read and compressed once, and named by their content, for caches."""

from __future__ import annotations

import functools
import gzip
import hashlib
from dataclasses import dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response

_DIRECTORY = Path(__file__).parent / "static"
_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@dataclass(frozen=True, slots=True)
class Asset:
    """A static file."""

    content: bytes
    compressed: bytes
    kind: str
    digest: str


@functools.cache
def _assets() -> dict[str, Asset]:
    found = {}
    for path in sorted(_DIRECTORY.iterdir()):
        if path.suffix in _TYPES:
            content = path.read_bytes()
            digest = hashlib.sha256(content).hexdigest()[:16]
            found[path.name] = Asset(content, gzip.compress(content, 9, mtime=0), _TYPES[path.suffix], digest)
    return found


def address(name: str) -> str:
    """The address of an asset; it changes when the content does."""
    return f"/static/{_assets()[name].digest}/{name}"


async def serve(request: Request) -> Response:
    """An asset by its address. There are no other files than these, whatever the path says."""
    asset = _assets().get(request.path_params["name"])
    if asset is None or asset.digest != request.path_params["digest"]:
        return Response("Not found", 404, media_type="text/plain")
    content = asset.content
    headers = {"Cache-Control": "public, max-age=31536000, immutable", "Vary": "Accept-Encoding"}
    if "gzip" in request.headers.get("accept-encoding", ""):
        content = asset.compressed
        headers["Content-Encoding"] = "gzip"
    return Response(content, headers=headers, media_type=f"{asset.kind}; charset=utf-8")
