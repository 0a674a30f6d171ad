"""Every rule as the admin API and the command line meet it; test_settings.py has the side of the file."""

import json
import math
from typing import Any

import pytest

from gateway.config.tenant_checks import tenant_problems, tier_problems
from gateway.config.tenants import Tenant, Tier
from gateway.tenancy.auth.key_checks import key_problems
from gateway.tenancy.auth.key_records import KeyChange, KeyRequest
from gateway.tenancy.tenants.inputs import record_of, refuse
from protos.errors import InvalidRequest

TIERS = ["gold", "bronze"]
POLICIES = ["strict", "lax"]
MODELS = ["mixtral", "llama-3.1"]

#: Numbers that are no limit, and the part of the message that says so.
NO_COUNTS: list[tuple[Any, str]] = [
    (-1, "expected int >= 1, got -1"),
    (0, "expected int >= 1, got 0"),
    (10**13, "expected int <= 1000000000000, got 10000000000000"),
    (2**80, "expected int <= 1000000000000, got 1208925819614629174706176"),
    (1e13, "expected int, got 10000000000000.0"),
    (1e400, "expected int, got Infinity"),
    (math.nan, "expected int, got NaN"),
    (2.5, "expected int, got 2.5"),
    ("5", 'expected int, got "5"'),
    ("many", 'expected int, got "many"'),
    (True, "expected int, got true"),
    ([5], "expected int, got [5]"),
]
COUNTS = ["rpm", "tpm", "input_tpm", "output_tpm", "concurrency"]
TOKENS = ["max_input_tokens", "max_output_tokens", "default_output_tokens"]


def tenant_refusal(**fields: Any) -> tuple[str | None, str]:
    with pytest.raises(InvalidRequest) as caught:
        refuse(tenant_problems(record_of({"name": "acme", **fields}, Tenant), TIERS, MODELS, POLICIES))
    assert "\n" not in caught.value.message
    return caught.value.param, caught.value.message


def key_refusal(**fields: Any) -> tuple[str | None, str]:
    with pytest.raises(InvalidRequest) as caught:
        refuse(key_problems(record_of({"name": "k", **fields}, KeyRequest), 1000.0))
    return caught.value.param, caught.value.message


@pytest.mark.parametrize("field", COUNTS)
@pytest.mark.parametrize(("value", "says"), NO_COUNTS)
def test_a_limit_is_a_positive_whole_number(field: str, value: object, says: str) -> None:
    for refusal, path in (
        (tenant_refusal(limits={field: value}), f"limits.{field}"),
        (tenant_refusal(model_limits={"llama-3.1": {field: value}}), f"model_limits.llama-3.1.{field}"),
        (key_refusal(limits={field: value}), f"limits.{field}"),
    ):
        assert refusal == (path, f"{path}: {says}")


@pytest.mark.parametrize("field", TOKENS)
@pytest.mark.parametrize("value", [-1, 0, 10**9, 1e13, 1e400, math.nan, "5", True])
def test_a_number_of_tokens_is_bounded(field: str, value: object) -> None:
    param, message = tenant_refusal(limits={field: value})
    assert param == f"limits.{field}"
    assert message.startswith(f"limits.{field}: expected int")


@pytest.mark.parametrize("usd", [-1, 0, 0.0, 1e13, 1e400, 10**400, math.nan, "5", True, None])
def test_a_budget_is_a_positive_amount(usd: object) -> None:
    param, message = tenant_refusal(limits={"budget": {"usd": usd}})
    assert param == "limits.budget.usd"
    assert message.startswith("limits.budget.usd: ")


@pytest.mark.parametrize(
    ("fields", "path", "says"),
    [
        ({"name": ""}, "name", "expected str matching regex"),
        ({"name": "a b"}, "name", "expected str matching regex"),
        ({"name": "a\n"}, "name", "expected str matching regex"),
        ({"name": "x" * 65}, "name", "expected str matching regex"),
        ({"name": 5}, "name", "expected str, got 5"),
        ({"tire": "gold"}, "tire", "unknown field; did you mean tier?"),
        ({"tier": "platinum"}, "tier", 'there is no tier "platinum"; there are gold, bronze'),
        ({"models": []}, "models", "expected list of length >= 1"),
        ({"models": ["a b"]}, "models[0]", "expected str matching regex"),
        ({"models": ["mixtral", "*"]}, "models[0]", '"mixtral" is already covered by "*"'),
        ({"models": ["*", "mixtral"]}, "models[1]", '"mixtral" is already covered by "*"'),
        ({"models": ["a", "b", "a"]}, "models[2]", '"a" is already in the list'),
        ({"models": ["?*", "*?"]}, "models[1]", '"*?" is already covered by "?*"'),
        ({"model_limits": {"gpt": {}}}, "model_limits.gpt", 'no model "gpt" is served'),
        (
            {"model_limits": {"mix*": {}}},
            "model_limits.mix*",
            'no model "mix*" is served (patterns have no place here)',
        ),
        ({"model_limits": {"mixtral": {"rmp": 5}}}, "model_limits.mixtral.rmp", "unknown field; did you mean rpm?"),
        ({"model_limits": [5]}, "model_limits", "expected mapping, got [5]"),
        (
            {"model_limits": {"mixtral": {}, "llama-3.1": {"max_output_tokens": 5, "default_output_tokens": 6}}},
            "model_limits.llama-3.1.default_output_tokens",
            "must not be above max_output_tokens (5), got 6",
        ),
        (
            {"limits": {"max_output_tokens": 5, "default_output_tokens": 6}},
            "limits.default_output_tokens",
            "must not be above max_output_tokens (5), got 6",
        ),
        ({"limits": {"budget": {"usd": 5, "period": "week"}}}, "limits.budget.period", "expected day or month, got"),
        ({"limits": {"budget": {}}}, "limits.budget.usd", "required, but missing"),
        ({"limits": {"budget": 50}}, "limits.budget", "expected mapping, got 50"),
        (
            {"limits": {"budget": {"usd": 5, "alerts": [75, 90, 75]}}},
            "limits.budget.alerts[2]",
            "75 is already in the list",
        ),
        ({"limits": {"budget": {"usd": 5, "alerts": [0]}}}, "limits.budget.alerts[0]", "expected int >= 1, got 0"),
        ({"limits": {"budget": {"usd": 5, "alerts": [101]}}}, "limits.budget.alerts[0]", "expected int <= 100"),
        ({"limits": {"budget": {"usd": 5, "alerts": [75.5]}}}, "limits.budget.alerts[0]", "expected int, got 75.5"),
        ({"waiting": {"max_requests": -1}}, "waiting.max_requests", "expected int >= 0, got -1"),
        ({"waiting": {"max_seconds": 0}}, "waiting.max_seconds", "expected float > 0.0, got 0"),
        ({"waiting": {"max_seconds": math.nan}}, "waiting.max_seconds", "expected float > 0.0, got NaN"),
        ({"on_store_failure": "open"}, "on_store_failure", 'expected fail_closed or fail_open, got "open"'),
    ],
)
def test_a_tenant_that_cannot_be(fields: dict[str, Any], path: str, says: str) -> None:
    param, message = tenant_refusal(**fields)
    assert param == path
    assert message.startswith(f"{path}: {says}")


@pytest.mark.parametrize(
    ("fields", "path", "says"),
    [
        *(
            ({"name": name}, "name", "a key's name has 1 to 64 printable characters")
            for name in ("", " ", "a\nb", "a\x1b[31m", "\u202e", "x" * 65, "\ud800")
        ),
        ({"models": []}, "models", "expected list of length >= 1"),
        *(
            ({"models": [model]}, "models[0]", "expected str matching")
            for model in ("", "a b", "[a]", "x" * 129, "a\n")
        ),
        ({"models": ["*", "m"]}, "models[1]", '"m" is already covered by "*"'),
        ({"endpoints": ["chat", "audio"]}, "endpoints[1]", "expected batches or chat or completions"),
        ({"endpoints": ["chat", "chat"]}, "endpoints[1]", '"chat" is already in the list'),
        ({"expires_at": 999.0}, "expires_at", "lies in the past: 999, and the store's clock says 1000"),
        ({"expires_at": 1000.0}, "expires_at", "lies in the past"),
        ({"expires_at": -1}, "expires_at", "expected float > 0.0, got -1"),
        ({"expires_at": 1e400}, "expires_at", "expected float <= "),
        ({"expires_at": math.nan}, "expires_at", "expected float > 0.0, got NaN"),
        ({"expires_at": "2030-01-01"}, "expires_at", "expected float, got"),
        ({"metadata": {"": "x"}}, "metadata", 'a name has 1 to 64 printable characters, got ""'),
        ({"metadata": {"x" * 65: "x"}}, "metadata", "a name has 1 to 64 printable characters"),
        ({"metadata": {"a\x07": "x"}}, "metadata", "a name has 1 to 64 printable characters"),
        ({"metadata": {"team": "x" * 513}}, "metadata.team", "at most 512 printable characters"),
        ({"metadata": {"team": "\x1b[31m"}}, "metadata.team", "at most 512 printable characters"),
        ({"metadata": {"team": "\udc80"}}, "metadata.team", "at most 512 printable characters"),
        ({"metadata": {f"n{number}": "" for number in range(17)}}, "metadata", "at most 16 entries, got 17"),
        ({"metadata": {"team": 5}}, "metadata.team", "expected str, got 5"),
        ({"tenant": None}, "tenant", "expected str, got null"),
        ({"key": "sk-mine"}, "key", "unknown field"),
    ],
)
def test_a_key_that_cannot_be(fields: dict[str, Any], path: str, says: str) -> None:
    param, message = key_refusal(**fields)
    assert param == path
    assert message.startswith(f"{path}: {says}")


def test_what_may_be_however_it_looks() -> None:
    tenant = {
        "name": "a.b_c-D9",
        "tier": "gold",
        "models": ["mix*", "*tral", "llama-3.?"],
        # A key may have more than its tenant: both bounds hold.
        "limits": {"rpm": 10**12, "budget": {"usd": 10**6, "alerts": [90, 100, 1]}},
        "model_limits": {"mixtral": {"max_output_tokens": 5, "default_output_tokens": 5}},
        "waiting": {"max_requests": 0},
    }
    assert list(tenant_problems(record_of(tenant, Tenant), TIERS, MODELS, POLICIES)) == []
    key = {"name": "x" * 64, "metadata": {f"n{n}": "x" * 512 for n in range(16)}, "expires_at": 1000.1}
    assert list(key_problems(record_of(key, KeyRequest), 1000.0)) == []
    assert record_of({}, KeyChange) == KeyChange()


@pytest.mark.parametrize(
    ("fields", "path", "says"),
    [
        ({"safety": "strct"}, "safety", 'there is no policy "strct"; there are strict, lax'),
        ({"safety": ""}, "safety", "expected str matching regex"),
        ({"safety": ["strict"]}, "safety", "expected str, got "),
        ({"cache_group": ""}, "cache_group", "expected str matching regex"),
        ({"cache_group": "a/b"}, "cache_group", "expected str matching regex"),
        ({"cache_group": "a:b"}, "cache_group", "expected str matching regex"),
        ({"cache_group": "a\n"}, "cache_group", "expected str matching regex"),
        ({"cache_group": 5}, "cache_group", "expected str, got 5"),
    ],
)
def test_policies_and_cache_groups_are_names(fields: dict[str, Any], path: str, says: str) -> None:
    param, message = tenant_refusal(**fields)
    assert param == path
    assert message.startswith(f"{path}: {says}")


def test_without_policies_none_can_be_named() -> None:
    tenant = Tenant(name="acme", safety="strict")
    assert list(tenant_problems(tenant, TIERS, MODELS, [])) == [
        ("safety", 'there is no policy "strict"; there is none in safety.policies')
    ]
    for fine in (Tenant(name="acme"), Tenant(name="acme", safety="lax", cache_group="acme")):
        assert list(tenant_problems(fine, TIERS, MODELS, POLICIES)) == []


@pytest.mark.parametrize(
    ("tiers", "problems"),
    [
        ([("a", 0.5), ("b", 0.5)], []),
        ([("a", 0.1)] * 1 + [(f"t{n}", 0.1) for n in range(9)], []),
        ([("a", 0.6), ("b", 0.5)], ["tiers: they reserve 1.1 of the fleet together; `reserved` may sum up to 1"]),
        ([("a", 0.0), ("a", 0.0)], ['tiers[1].name: "a" is already taken by tiers[0].name']),
    ],
)
def test_tiers(tiers: list[tuple[str, float]], problems: list[str]) -> None:
    found = tier_problems([Tier(name=name, reserved=reserved) for name, reserved in tiers])
    assert [f"{path}: {problem}" for path, problem in found] == problems


@pytest.mark.parametrize("value", [None, 5, [], "acme"])
def test_what_is_no_mapping(value: object) -> None:
    with pytest.raises(InvalidRequest, match=f"expected mapping, got {json.dumps(value)}".replace("[", r"\[")):
        record_of(value, Tenant)
