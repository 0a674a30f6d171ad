"""Convert text, image and document blocks to parts of a chat message."""

from collections.abc import Iterator
from typing import Any, Final

from gateway.api.anthropic.messages_body import (
    Base64Source,
    Citations,
    ContentSource,
    DocumentBlock,
    FileSource,
    ImageBlock,
    SearchResultBlock,
    Shown,
    TextBlock,
    TextSource,
    UrlSource,
)
from gateway.api.anthropic.messages_decoding import echo, invalid
from protos.errors import UnsupportedParameter

_PDF: Final = "application/pdf"
_IMAGES: Final = ("image/jpeg", "image/png", "image/gif", "image/webp")


def text_part(text: str) -> dict[str, Any]:
    """Make a text part."""
    return {"type": "text", "text": text}


def shown_parts(block: Shown, place: str) -> Iterator[dict[str, Any]]:
    """Convert a block to parts. Raises UnsupportedParameter and InvalidRequest."""
    match block:
        case TextBlock(text=text):
            yield text_part(text)
        case ImageBlock(source=source):
            yield _image(source, f"{place}.source")
        case SearchResultBlock():
            _refuse_citations(block.citations, place)
            yield text_part("\n".join((block.title, block.source, *(piece.text for piece in block.content))))
        case DocumentBlock():
            yield from _document(block, place)


def _image(source: Base64Source | UrlSource | FileSource, place: str) -> dict[str, Any]:
    match source:
        case UrlSource(url=url):
            pass
        case Base64Source(media_type=kind, data=data):
            if kind not in _IMAGES:
                raise invalid(f"{place}.media_type", f"'{echo(kind)}' is none of {', '.join(_IMAGES)}.")
            url = f"data:{kind};base64,{data}"
        case FileSource():
            raise _no_files(place)
    return {"type": "image_url", "image_url": {"url": url}}


def _document(block: DocumentBlock, place: str) -> Iterator[dict[str, Any]]:
    _refuse_citations(block.citations, place)
    about = [line for line in (block.title, block.context) if line]
    at = f"{place}.source"
    match block.source:
        case Base64Source(media_type=kind, data=data):
            if kind != _PDF:
                raise invalid(f"{at}.media_type", f"'{echo(kind)}' is not {_PDF}.")
            if about:
                yield text_part("\n".join(about))
            # The chat API's file part, for replicas that read files.
            yield {"type": "file", "file": {"filename": "document.pdf", "file_data": f"data:{kind};base64,{data}"}}
        case TextSource(data=text):
            yield text_part("\n".join((*about, text)))
        case ContentSource(content=content):
            if about:
                yield text_part("\n".join(about))
            pieces = [TextBlock(text=content)] if isinstance(content, str) else content
            for number, piece in enumerate(pieces):
                yield from shown_parts(piece, f"{at}.content.{number}")
        case UrlSource():
            raise UnsupportedParameter(f"{at}: Documents at URLs are not supported here.", param=at)
        case FileSource():
            raise _no_files(at)


def _no_files(place: str) -> UnsupportedParameter:
    return UnsupportedParameter(f"{place}: Files of the Files API are not supported here.", param=place)


def _refuse_citations(citations: Citations | None, place: str) -> None:
    if citations is not None and citations.enabled:
        raise UnsupportedParameter(f"{place}.citations: Citations are not supported here.", param=f"{place}.citations")
