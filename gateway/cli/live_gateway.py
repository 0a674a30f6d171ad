"""Call a running gateway from a command, over HTTP with an API key; errors are sentences for the user."""

import contextlib
import http.client
import json
import os
import re
import ssl
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

KEY_VARIABLE: Final = "PENSTOCK_API_KEY"
_TIMEOUT_SECONDS: Final = 30.0
#: Bytes: more than an explanation of ten thousand candidates takes.
_MOST_BYTES: Final = 64 * 1024 * 1024
_KEY: Final = re.compile(r"[!-~]{1,4096}")


class LiveGatewayError(Exception):
    """A call failed; the text is one line. `code` is the API's, where the gateway refused."""

    def __init__(self, problem: str, code: str | None = None) -> None:
        super().__init__(problem)
        self.code = code


def api_key(key_file: Path | None, *others: str) -> str:
    """Read the key from a file, or else from the environment, `others` included. Raises LiveGatewayError."""
    if key_file is None:
        source = next((name for name in (KEY_VARIABLE, *others) if os.environ.get(name, "").strip()), None)
        if source is None:
            raise LiveGatewayError(f"no API key: set {KEY_VARIABLE} or name a file that has it with --key-file")
        key = os.environ[source].strip()
    else:
        source = str(key_file)
        try:
            key = key_file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise LiveGatewayError(f"cannot read the key: {error}") from error
    if not _KEY.fullmatch(key):
        raise LiveGatewayError(f"{source} does not hold an API key")
    return key


class LiveGateway:
    """One gateway. Each call opens a connection of its own, directly and not through a proxy."""

    def __init__(self, url: str, key: str, *, timeout: float | None = None) -> None:
        """`url` may end in `/v1`, as OpenAI's clients want it; `timeout` bounds each silence, in seconds: 30.

        Raises LiveGatewayError.
        """
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError as error:
            raise LiveGatewayError(f"--url {url}: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise LiveGatewayError(f"--url {url}: expected one such as http://127.0.0.1:8080")
        self._tls = parts.scheme == "https"
        self._host, self._port = parts.hostname, port
        self._path = parts.path.rstrip("/").removesuffix("/v1")
        self._key = key
        self._timeout = _TIMEOUT_SECONDS if timeout is None else timeout
        # The user and password of the address are not shown.
        self.shown_url = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"

    def call(self, method: str, path: str, body: object = None, headers: Mapping[str, str] | None = None) -> bytes:
        """Return the body of an answer with status 200. Raises LiveGatewayError."""
        status, answer = self._exchange(method, path, body, headers or {})
        if status == 200:
            return answer
        raise self.refusal(status, answer)

    def refusal(self, status: int, answer: bytes) -> LiveGatewayError:
        """Make an error of an answer whose status is not 200."""
        message, code = _error_of(answer)
        if message is None:
            return LiveGatewayError(f"what answers at {self.shown_url} is no Penstock gateway: status {status}")
        return LiveGatewayError(message, code)

    def _exchange(self, method: str, path: str, body: object, headers: Mapping[str, str]) -> tuple[int, bytes]:
        given = None if body is None else json.dumps(body).encode()
        with self.open_response(method, path, given, {"content-type": "application/json", **headers}) as response:
            return response.status, response.read(_MOST_BYTES)

    @contextlib.contextmanager
    def open_response(
        self, method: str, path: str, body: bytes | Iterator[bytes] | None, headers: Mapping[str, str]
    ) -> Iterator[http.client.HTTPResponse]:
        """Yield an answer of any status whose body is unread. Raises LiveGatewayError, inside the block too."""
        connection = self._connection()
        try:
            headers = {"authorization": f"Bearer {self._key}", **headers}
            connection.request(method, self._path + path, body, headers)
            yield connection.getresponse()
        except ssl.SSLCertVerificationError as error:
            raise LiveGatewayError(
                f"the certificate of {self.shown_url} is not good: {error.verify_message}; "
                "SSL_CERT_FILE may name a file with other authorities"
            ) from error
        except ssl.SSLError as error:
            reason = (error.reason or str(error)).lower().replace("_", " ")
            raise LiveGatewayError(f"no TLS with {self.shown_url}: {reason}; is it http://?") from error
        except TimeoutError as error:
            raise LiveGatewayError(f"{self.shown_url} did not answer within {self._timeout:.0f} s") from error
        except http.client.HTTPException as error:
            said = str(error) or type(error).__name__
            raise LiveGatewayError(f"what answers at {self.shown_url} does not speak HTTP: {said[:80]!r}") from error
        except OSError as error:
            raise LiveGatewayError(f"no gateway answers at {self.shown_url}: {error.strerror or error}") from error
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._tls:
            return http.client.HTTPSConnection(self._host, self._port, timeout=self._timeout)
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)


def _error_of(answer: bytes) -> tuple[str | None, str | None]:
    """Read the message and code of an error in the API's form."""
    try:
        error: Any = json.loads(answer)["error"]
        return str(error["message"]), error["code"]
    except (ValueError, KeyError, TypeError):
        return None, None
