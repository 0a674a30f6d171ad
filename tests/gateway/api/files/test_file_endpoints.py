"""`/v1/files` through the whole application."""

import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import msgspec
import pytest
from openai.types import FileObject

from gateway.jobs.files.local_content import LocalSink
from gateway.store.lua_script import Script
from gateway.store.store_client import Store
from gateway.tenancy.auth.key_store import KeyRequest, KeyStore
from tests.asgi import Client, gateway_of
from tests.harness import engine_of
from tests.uploads import FILES, file_id, form, headers_of, upload

_DOOM = Script("return redis.call('ZADD', KEYS[1], 0, ARGV[1])")


Running = Callable[..., AbstractAsyncContextManager[Client]]


@pytest.fixture
def running(store_url: str, tmp_path: Path) -> Running:
    """Runs a test with a client of a gateway that keeps its files in `tmp_path`."""

    @contextlib.asynccontextmanager
    async def running(**settings: Any) -> AsyncIterator[Client]:
        files = {"location": str(tmp_path / "files")} | settings
        async with gateway_of(store_url, engine_of(), files=files) as client:
            yield client

    return running


def stored(tmp_path: Path) -> list[Path]:
    return [path for path in (tmp_path / "files").rglob("*") if path.is_file()]


async def get(client: Client, path: str) -> Any:
    return (await client.request("GET", FILES + path)).json


async def test_a_file_from_its_upload_to_its_end(running: Running, tmp_path: Path) -> None:
    async with running() as client:
        answer = await upload(client, b"some content", filename='C:\\a\\b "c".jsonl')
        made = answer.json
        assert made | {"id": "", "created_at": 0} == {
            "id": "",
            "object": "file",
            "bytes": 12,
            "created_at": 0,
            "expires_at": None,
            "filename": made["filename"],
            "purpose": "batch",
            "status": "processed",
            "status_details": None,
        }
        FileObject.model_validate(made, strict=True)
        assert "\\" not in made["filename"]
        assert await get(client, f"/{made['id']}") == made
        content = await client.request("GET", f"{FILES}/{made['id']}/content")
        assert (content.body, content.headers["content-type"]) == (b"some content", "application/octet-stream")
        assert [each["id"] for each in (await get(client, ""))["data"]] == [made["id"]]
        gone = await client.request("DELETE", f"{FILES}/{made['id']}")
        assert gone.json == {"id": made["id"], "object": "file", "deleted": True}
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            missing = await client.request(method, f"{FILES}/{made['id']}{path}")
            assert (missing.status, missing.error["code"]) == (404, "file_not_found")
        assert stored(tmp_path) == []


async def test_long_files_come_and_go_in_pieces(running: Running) -> None:
    async with running() as client:
        data = bytes(range(256)) * 5000
        body = form(data, purpose="user_data")
        call = client.call("POST", FILES, headers_of(client, content_length=str(len(body))))
        for start in range(0, len(body), 70_001):
            call.put(body[start : start + 70_001], more=start + 70_001 < len(body))
        made = (await call.answer()).json
        assert made["bytes"] == len(data)
        assert (await client.request("GET", f"{FILES}/{made['id']}/content")).body == data


async def test_pages(running: Running) -> None:
    async with running() as client:
        ids = [await file_id(client, b"x") for _ in range(3)]
        other = (await upload(client, b"y", purpose="user_data")).json["id"]
        assert [each["id"] for each in (await get(client, ""))["data"]] == [other, *reversed(ids)]
        first = await get(client, "?limit=2&order=asc")
        assert ([each["id"] for each in first["data"]], first["has_more"]) == (ids[:2], True)
        rest = await get(client, f"?limit=2&order=asc&after={first['last_id']}")
        assert ([each["id"] for each in rest["data"]], rest["has_more"]) == ([ids[2], other], False)
        assert [each["id"] for each in (await get(client, "?purpose=user_data"))["data"]] == [other]
        assert (await get(client, "?purpose=batch_output"))["data"] == []
        for query, param in (
            ("limit=0", "limit"),
            ("limit=x", "limit"),
            ("order=up", "order"),
            ("after=file-nothing", "after"),
            ("purpose=assistants", "purpose"),
            ("unknown=1", "unknown"),
        ):
            refused = await client.request("GET", f"{FILES}?{query}")
            assert (refused.status, refused.error["param"]) == (400, param)


async def test_bad_forms_leave_nothing(running: Running, tmp_path: Path) -> None:
    async with running(max_file_bytes=1024) as client:
        good = headers_of(client)
        for body, status, param in (
            (form(b"x"), 400, "purpose"),
            (form(b"x", purpose="assistants"), 400, "purpose"),
            (form(b"x", purpose="batch_output"), 400, "purpose"),
            (form(None, purpose="batch"), 400, "file"),
            (form(b"", purpose="batch"), 400, "file"),
            (form(b"x", purpose="batch", other="1"), 400, "other"),
            (form(b"x" * 2000, purpose="batch"), 413, "file"),
            (form(b"x", purpose="batch", **{"expires_after[seconds]": "3600"}), 400, "expires_after"),
            (
                form(b"x", purpose="batch", **{"expires_after[anchor]": "created_at", "expires_after[seconds]": "10"}),
                400,
                "expires_after[seconds]",
            ),
            (form(b"x", purpose="batch") + b"more", 200, None),
            (form(b"x", purpose="batch")[:-20], 400, None),
            (b"no form", 400, None),
            (b"", 400, None),
            (form(b"x", purpose="b" * 5000), 400, None),
        ):
            answer = await client.request("POST", FILES, body, good)
            assert answer.status == status, answer.body
            if status == 200:
                await client.request("DELETE", f"{FILES}/{answer.json['id']}")
            else:
                assert answer.error["param"] == param
        for kind in ("", "application/json", "multipart/form-data", "multipart/form-data; boundary="):
            answer = await client.request("POST", FILES, form(b"x"), headers_of(client, content_type=kind))
            assert answer.status == 400, kind
        packed = await client.request("POST", FILES, b"", headers_of(client, content_encoding="gzip"))
        assert packed.status == 400
        assert stored(tmp_path) == []


async def test_a_client_that_leaves_in_the_middle_leaves_nothing(running: Running, tmp_path: Path) -> None:
    async with running() as client:
        call = client.call("POST", FILES, headers_of(client))
        call.put(form(b"x" * 600_000, purpose="batch")[:500_000], more=True)
        call.disconnect()
        assert (await call.answer()).status == 400
        assert stored(tmp_path) == []


async def test_a_tenant_has_no_more_than_it_may(running: Running, tmp_path: Path) -> None:
    async with running(max_file_bytes=1500, max_tenant_bytes=2000, max_tenant_files=2) as client:
        first = await file_id(client, b"x" * 1000)
        for size in (1500, 1001):
            refused = await upload(client, b"x" * size)
            assert (refused.status, refused.error["code"]) == (413, "request_too_large")
        await file_id(client, b"x" * 1000)
        refused = await upload(client, b"x")
        assert refused.status == 413
        await client.request("DELETE", f"{FILES}/{first}")
        await file_id(client, b"x")
        refused = await upload(client, b"x")
        assert refused.status == 413
        assert "2 files" in refused.error["message"]
        assert len(stored(tmp_path)) == 2


async def test_a_full_disk(running: Running, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: LocalSink, data: bytes) -> None:
        raise OSError(28, "No space left on device", str(tmp_path))

    async with running() as client:
        monkeypatch.setattr(LocalSink, "write", fail)
        answer = await upload(client, b"x")
        assert (answer.status, answer.error["code"]) == (507, "storage_full")
        assert answer.headers["x-should-retry"] == "false"
        assert str(tmp_path) not in answer.body.decode()
        assert stored(tmp_path) == []


async def test_content_that_is_gone(running: Running, tmp_path: Path) -> None:
    async with running() as client:
        made = await file_id(client, b"x")
        for path in stored(tmp_path):
            path.unlink()
        answer = await client.request("GET", f"{FILES}/{made}/content")
        assert (answer.status, answer.error["code"]) == (503, "content_unavailable")


async def test_ends(running: Running, tmp_path: Path) -> None:
    async with running() as client:
        end = {"expires_after[anchor]": "created_at", "expires_after[seconds]": "3600"}
        made = (await upload(client, b"x", **end)).json
        assert made["expires_at"] == made["created_at"] + 3600
        kept = await file_id(client, b"y")
        files = client.gateway.services.files
        files._clock = lambda: made["expires_at"] + 1.0
        assert (await client.request("GET", f"{FILES}/{made['id']}")).status == 404
        assert [each["id"] for each in (await get(client, ""))["data"]] == [kept]


async def test_ids_of_another_tenant_are_unknown(store_url: str, tmp_path: Path) -> None:
    files = {"location": str(tmp_path / "files")}
    async with gateway_of(store_url, engine_of(), files=files, tenant={"name": "acme"}) as client:
        made = await file_id(client, b"x")
        store = Store(store_url, timeout=10.0)
        _, key = await KeyStore(store).create(KeyRequest(name="other"))
        _, narrow = await KeyStore(store).create(KeyRequest(name="narrow", tenant="acme", endpoints=("chat",)))
        await store.aclose()
        own, client.key = client.key, key
        for method, path in (("GET", ""), ("GET", "/content"), ("DELETE", "")):
            assert (await client.request(method, f"{FILES}/{made}{path}")).status == 404
        assert (await get(client, ""))["data"] == []
        client.key = narrow
        refused = await client.request("GET", f"{FILES}/{made}")
        assert (refused.status, refused.error["code"]) == (403, "endpoint_not_allowed")
        client.key = own
        assert (await client.request("GET", f"{FILES}/{made}")).status == 200


@pytest.mark.parametrize("bad", ["file-x", "file-" + "g" * 24, "file-%2e%2e%2fetc", "x" * 300])
async def test_ids_that_are_none(running: Running, bad: str) -> None:
    async with running() as client:
        answer = await client.request("GET", f"{FILES}/{bad}")
        assert answer.status == 404


async def test_old_content_is_swept(running: Running, tmp_path: Path) -> None:
    async with running() as client:
        files = client.gateway.services.files
        made = await file_id(client, b"x")
        await files.sweep()
        assert len(stored(tmp_path)) == 1
        record = await files.get("default", made)
        # As if its time had come, and as if another had been begun that came to nothing.
        await files.add("default", msgspec.structs.replace(record, expires_at=1.0), bounded=False)
        await files.contents.put("files/default/file-" + "0" * 24, b"never finished")
        await files._storage.run(_DOOM, ["penstock:{files:default}:doomed"], ["files/default/file-" + "0" * 24])
        await files.sweep()
        await files.sweep()
        assert stored(tmp_path) == []
        assert (await client.request("GET", f"{FILES}/{made}")).status == 404
