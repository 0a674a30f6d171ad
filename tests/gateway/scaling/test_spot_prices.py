import http.server
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.config.models.launchers import SpotPrices
from gateway.scaling.spot_prices import HOLDS, SpotPriceSource

GOOD = {"pools": [{"model": "m", "pool": "p", "price_per_hour": 0.7, "interruptions_per_hour": 0.02}]}


@contextmanager
def answering(body: bytes, status: int = 200) -> Iterator[str]:
    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/prices"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


async def expect_told(settings: SpotPrices) -> None:
    source = SpotPriceSource(settings, {})
    await source.ask()
    assert source.warning == ""
    (told,) = source.of("m").values()
    assert (told.pool, told.price_per_hour, told.interruptions_per_hour) == ("p", 0.7, 0.02)
    assert source.of("other") == {}


async def test_each_kind_of_source(tmp_path: Path) -> None:
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(GOOD))
    await expect_told(SpotPrices(file=str(path)))
    await expect_told(SpotPrices(command=(sys.executable, "-I", "-c", f"print({json.dumps(json.dumps(GOOD))})")))
    with answering(json.dumps(GOOD).encode()) as url:
        await expect_told(SpotPrices(url=url))


@pytest.mark.parametrize(
    "said",
    ["", "{", "[]", '{"pools": 1}', '{"pools": [{"model": "m", "pool": "p", "price_per_hour": -1}]}', '{"pool": []}'],
)
async def test_nonsense_leaves_what_was_told_for_a_while(tmp_path: Path, said: str) -> None:
    now = [0.0]
    path = tmp_path / "prices.json"
    path.write_text(json.dumps(GOOD))
    source = SpotPriceSource(SpotPrices(file=str(path), every_seconds=10.0), {}, lambda: now[0])
    await source.ask()
    path.write_text(said)
    await source.ask()
    assert str(path) in source.warning
    assert source.of("m").keys() == {"p"}
    now[0] += HOLDS * 10.0 + 1.0
    assert source.of("m") == {}
    path.write_text(json.dumps(GOOD))
    await source.ask()
    assert source.warning == ""


async def test_a_source_that_is_not_there_is_told(tmp_path: Path) -> None:
    for settings in (
        SpotPrices(file=str(tmp_path / "none")),
        SpotPrices(command=(sys.executable, "-c", "raise SystemExit(3)")),
        SpotPrices(url="http://127.0.0.1:1/"),
    ):
        source = SpotPriceSource(settings, {})
        await source.ask()
        assert source.warning.startswith("spot prices are not told")
        assert source.of("m") == {}
    with answering(b"", 500) as url:
        source = SpotPriceSource(SpotPrices(url=url), {})
        await source.ask()
        assert "500" in source.warning
