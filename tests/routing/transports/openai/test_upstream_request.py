"""What keeps tenants apart in an upstream's own prefix cache."""

import itertools
import json
from typing import Any

import pytest

from protos.types import Payload
from routing.transports.http.origin import origin_of
from routing.transports.openai.settings import OpenAISettings
from routing.transports.openai.upstream_request import Requests

BODY = b'{"model":"ours","messages":[{"role":"user","content":"hi"}],"top_k":5}'


def sent(salt: str, key: str | None = "sk-1", salt_as: str = "cache_salt", **payload: Any) -> dict[str, Any]:
    requests = Requests(origin_of("http://h/v1"), "theirs", OpenAISettings(salt_as=salt_as))
    whole = requests.request(Payload(**{**PAYLOAD, **payload}), key, "", salt)
    head, _, body = whole.partition(b"\r\n\r\n")
    assert b"content-length: %d\r\n" % len(body) in head + b"\r\n"
    fields: dict[str, Any] = json.loads(body)
    return fields


PAYLOAD: dict[str, Any] = {
    "path": "/chat/completions", "body": BODY, "stream": False, "usage": False, "answer_model": "ours",
}  # fmt: skip


@pytest.mark.parametrize("path", ["/chat/completions", "/completions"])
def test_a_salt_goes_where_it_is_asked_for_and_nothing_else_changes(path: str) -> None:
    plain, salted = sent("acme", salt_as="", path=path), sent("acme", path=path)
    assert plain == {**json.loads(BODY), "model": "theirs"}
    assert len(salted.pop("cache_salt")) == 32
    assert salted == plain
    assert sent("") == sent("acme", salt_as="")
    assert "extra_key" in sent("acme", salt_as="extra_key")


def test_each_owner_has_its_own_and_always_the_same() -> None:
    owners = ["acme", "/acme", "acme:legal", "/acme:legal", "safety/acme", "other"]
    salts = [sent(owner)["cache_salt"] for owner in owners]
    assert len(set(salts)) == len(owners)
    assert [sent(owner)["cache_salt"] for owner in owners] == salts


def test_it_shows_no_tenant_and_nobody_works_it_out_without_the_key() -> None:
    of_keys = [sent("acme", key)["cache_salt"] for key in ("sk-1", "sk-2", None)]
    assert all("acme" not in salt and bytes.fromhex(salt) for salt in of_keys)
    assert all(one != other for one, other in itertools.combinations(of_keys, 2))


def test_a_clients_own_is_replaced() -> None:
    body = b'{"model":"ours","messages":[],"cache_salt":"%b"}' % sent("victim")["cache_salt"].encode()
    assert sent("acme", body=body)["cache_salt"] == sent("acme")["cache_salt"] != sent("victim")["cache_salt"]
