import msgspec

from gateway.tenancy.auth.key_records import ApiKey, KeyChange

OLD = b"""{"id": "key_1", "name": "ci", "tenant": "acme", "models": ["*"], "endpoints": [], "limits": {},
"metadata": {}, "created_at": 1.0, "expires_at": null, "revoked_at": null, "replaces": null, "lineage": null}"""


def test_a_key_of_before_explanations_may_not_ask_for_them() -> None:
    key = msgspec.json.decode(OLD, type=ApiKey)
    assert key.explain is False
    assert KeyChange(name="cd").applied_to(key).explain is False
    allowed = KeyChange(explain=True).applied_to(key)
    assert allowed.explain is True
    assert KeyChange(name="cd").applied_to(allowed).explain is True
