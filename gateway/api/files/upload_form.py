"""Read forms with a file (multipart/form-data, RFC 7578) as they come."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TYPE_CHECKING, Final

from protos.errors import InvalidRequest

if TYPE_CHECKING:
    from python_multipart import MultipartParser

#: Bounds on a form: the fields beside the file, and the bytes of each one's name and value.
_MOST_FIELDS: Final = 16
_LONGEST_FIELD: Final = 4096
#: Bytes that a form of any allowed size may have beside its file's content.
OVERHEAD_BYTES: Final = 128 * 1024
_LONGEST_HEADER: Final = 4096

Take = Callable[[bytes], Awaitable[None]]


class Form:
    """A form. `fields` are the parts without a file name; `filename` is known once the file part has begun.

    `read` takes the whole body. The file must be the part called `file`.
    """

    def __init__(self, content_type: bytes | None) -> None:
        """Raises InvalidRequest where the content type is no form's."""
        from python_multipart.multipart import parse_options_header

        kind, options = parse_options_header((content_type or b"").decode("latin-1"))
        boundary = options.get(b"boundary", b"")
        if kind != b"multipart/form-data" or not 1 <= len(boundary) <= 200:
            raise InvalidRequest("The request must be a form: Content-Type multipart/form-data with a boundary.")
        self.fields: dict[str, str] = {}
        self.filename: str | None = None
        self._options_of = parse_options_header
        self._parser = self._new_parser(boundary)
        self._header = (bytearray(), bytearray())
        self._disposition = b""
        self._name: str | None = None
        self._value = bytearray()
        self._in_file = False
        self._out: list[bytes] = []
        self._over = False

    async def read(self, body: AsyncIterator[bytes], take: Take) -> None:
        """Feed the file's content to `take` in pieces. Raises InvalidRequest, and what `take` and `body` raise."""
        from python_multipart.exceptions import FormParserError

        async for chunk in body:
            try:
                self._parser.write(chunk)
            except FormParserError as error:
                raise InvalidRequest(f"The form is malformed: {error}.") from None
            out, self._out = self._out, []
            for data in out:
                await take(data)
        if not self._over:
            raise InvalidRequest("The form ended early.")
        if self.filename is None:
            raise InvalidRequest("Missing required parameter: 'file'.", param="file")

    def _new_parser(self, boundary: bytes) -> "MultipartParser":
        from python_multipart import MultipartParser

        return MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, start, end: self._add(self._header[0], data[start:end]),
                "on_header_value": lambda data, start, end: self._add(self._header[1], data[start:end]),
                "on_header_end": self._header_end,
                "on_headers_finished": self._headers_end,
                "on_part_data": self._data,
                "on_part_end": self._end,
                "on_end": self._finish,
            },
            max_header_count=8,
            max_header_size=_LONGEST_HEADER,
        )

    def _add(self, gathered: bytearray, data: bytes) -> None:
        gathered += data

    def _begin(self) -> None:
        self._disposition = b""
        self._header = (bytearray(), bytearray())
        self._value = bytearray()

    def _header_end(self) -> None:
        name, value = self._header
        if bytes(name).lower() == b"content-disposition":
            self._disposition = bytes(value)
        self._header = (bytearray(), bytearray())

    def _headers_end(self) -> None:
        kind, options = self._options_of(self._disposition.decode("latin-1"))
        if kind != b"form-data" or b"name" not in options:
            raise InvalidRequest("The form is malformed: a part has no name.")
        name = _text(options[b"name"])
        self._in_file = b"filename" in options
        if not self._in_file:
            self._name = name
            return
        if name != "file" or self.filename is not None:
            raise InvalidRequest("Only one file can be sent, as the part 'file'.", param=name[:64])
        # Some clients send the whole path; only its last part is kept.
        self.filename = _text(options[b"filename"]).replace("\\", "/").rpartition("/")[2][:512] or "file"

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._in_file:
            self._out.append(data[start:end])
            return
        self._value += data[start:end]
        if len(self._value) > _LONGEST_FIELD:
            raise InvalidRequest(f"Invalid value for '{(self._name or '')[:64]}': it is too long.")

    def _end(self) -> None:
        if self._in_file:
            self._in_file = False
            return
        assert self._name is not None
        if self._name in self.fields:
            raise InvalidRequest(f"The parameter '{self._name[:64]}' is given twice.", param=self._name[:64])
        if len(self.fields) >= _MOST_FIELDS:
            raise InvalidRequest("The form has too many parts.")
        self.fields[self._name] = _text(bytes(self._value))

    def _finish(self) -> None:
        self._over = True


def _text(raw: bytes) -> str:
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        raise InvalidRequest("The form is malformed: a name or a value is not UTF-8.") from None
    if not text.isprintable():
        raise InvalidRequest("The form is malformed: a name or a value has control characters.")
    return text
