"""The file's tenants, tiers, prices and what belongs to them: what is read, and what is said of mistakes."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.config.models.price import Price
from gateway.config.settings import Config
from gateway.config.tenants import DEFAULT_TIERS, Budget, Limits

MODELS = [
    {"name": name, "tokenizer": "t", "context": 9, "pools": [{"name": "p", "engine": "simulated", "replicas": 1}]}
    for name in ("mixtral", "llama-3.1")
]


def loaded(folder: Path, **sections: Any) -> Config:
    path = folder / "penstock.yaml"
    path.write_text(yaml.safe_dump({"models": MODELS, **sections}))
    return load_config(path)


def refusal(folder: Path, text: str) -> str:
    """What is said about a file with these lines under the models, without the file's name in front."""
    path = folder / "penstock.yaml"
    path.write_text(f"{yaml.safe_dump({'models': MODELS})}\n{text}")
    with pytest.raises(ConfigError) as caught:
        load_config(path)
    said = str(caught.value)
    assert "\n" not in said
    return said.removeprefix(f"{path}: ")


def test_defaults(tmp_path: Path) -> None:
    config = loaded(tmp_path)
    assert (config.tiers, config.tenants) == (DEFAULT_TIERS, ())
    assert config.models[0].price is None
    assert (config.admin.enabled, config.admin.host, config.admin.port) == (True, "127.0.0.1", 8081)
    assert config.alerts.webhook is None
    assert config.admission.watermark == 0.95
    assert config.store.timeout_seconds == 0.5
    assert config.model_names == ("mixtral", "llama-3.1")


def test_a_tier_and_its_rank(tmp_path: Path) -> None:
    config = loaded(tmp_path, tiers=[{"name": "paid", "reserved": 0.5}, {"name": "free", "weight": 0.5}])
    assert config.tier("paid") == (0, config.tiers[0])
    assert config.tier("free") == config.tier(None) == config.tier("platinum") == (1, config.tiers[1])


def test_everything(tmp_path: Path) -> None:
    limits = {"rpm": 600, "tpm": 200_000, "budget": {"usd": 500, "period": "day", "alerts": [50]}}
    tenant = {
        "name": "acme",
        "tier": "gold",
        "models": ["mix*", "llama-3.1"],
        "limits": limits,
        "model_limits": {"llama-3.1": {"rpm": 5}},
        "waiting": {"max_requests": 3},
        "on_store_failure": "fail_open",
        "safety": "strict",
        "cache_group": "friends",
    }
    models = [{**MODELS[0], "price": {"input": 0.6, "cached_input": 0.3, "output": 1}}, MODELS[1]]
    config = loaded(
        tmp_path,
        models=models,
        tenants=[tenant, {"name": "default", "limits": {"concurrency": 1}}],
        alerts={"webhook": "https://hooks.internal/T1?x=y"},
        admin={"enabled": False},
        safety={"policies": [{"name": "strict", "input": ["pii"]}]},
    )
    acme, default = config.tenants
    assert acme.limits == Limits(rpm=600, tpm=200_000, budget=Budget(usd=500.0, period="day", alerts=(50,)))
    assert acme.model_limits == {"llama-3.1": Limits(rpm=5)}
    assert (acme.waiting.max_requests, acme.waiting.max_seconds, acme.on_store_failure) == (3, 60.0, "fail_open")
    assert (acme.safety, acme.cache_group) == ("strict", "friends")
    assert default.limits.concurrency == 1
    assert (default.safety, default.cache_group) == (None, None)
    assert config.models[0].price == Price(input=0.6, cached_input=0.3, output=1.0)


@pytest.mark.parametrize(
    "number", ["-1", "0", "10000000000000", ".inf", ".nan", "1.0e+13", "1e400", "'5'", "true", "[]"]
)
@pytest.mark.parametrize(
    "field",
    [
        "limits.rpm",
        "limits.tpm",
        "limits.input_tpm",
        "limits.output_tpm",
        "limits.concurrency",
        "limits.max_input_tokens",
        "limits.max_output_tokens",
        "limits.default_output_tokens",
        "limits.budget.usd",
        "model_limits.llama-3.1.tpm",
        "model_limits.llama-3.1.budget.usd",
    ],
)
def test_a_number_that_is_no_limit(tmp_path: Path, field: str, number: str) -> None:
    *outer, name = field.replace("llama-3.1", "LLAMA").split(".")
    value = f"{{{name}: {number}}}"
    for part in reversed(outer):
        value = f"{{{part.replace('LLAMA', 'llama-3.1')}: {value}}}"
    text = f"tenants: [{{name: first}}, {value[:1]}name: acme, {value[1:]}]"
    assert refusal(tmp_path, text).startswith(f"tenants[1].{field}: expected ")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tenants: [{}]", "tenants[0].name: required, but missing"),
        ("tenants: [{name: a b}]", "tenants[0].name: expected str matching regex"),
        ("tenants: {name: a}", "tenants: expected list, got "),
        ("tenants: [{name: a}, {name: b}, {name: a}]", 'tenants[2].name: "a" is already taken by tenants[0].name'),
        ("tenants: [{name: a, tier: tin}]", 'tenants[0].tier: there is no tier "tin"; there are gold, silver, bronze'),
        ("tenants: [{name: a, models: ['*', mixtral]}]", 'tenants[0].models[1]: "mixtral" is already covered by "*"'),
        ("tenants: [{name: a, models: []}]", "tenants[0].models: expected list of length >= 1"),
        ("tenants: [{name: a, model_limits: {x: {}}}]", 'tenants[0].model_limits.x: no model "x" is served'),
        ("tenants: [{name: a, model_limits: {5: {}}}]", "tenants[0].model_limits: keys must be strings"),
        (
            "tenants: [{name: a, model_limits: {mixtral: {}, llama-3.1: {rmp: 5}}}]",
            "tenants[0].model_limits.llama-3.1.rmp: unknown field; did you mean rpm?",
        ),
        (
            "tenants: [{name: a, limits: {max_output_tokens: 5, default_output_tokens: 6}}]",
            "tenants[0].limits.default_output_tokens: must not be above max_output_tokens (5), got 6",
        ),
        (
            "tenants: [{name: a, limits: {budget: {usd: 5, alerts: [90, 75, 90]}}}]",
            "tenants[0].limits.budget.alerts[2]: 90 is already in the list",
        ),
        (
            "tenants: [{name: a, on_store_failure: open}]",
            'tenants[0].on_store_failure: expected fail_closed or fail_open, got "open"',
        ),
        ("tenants: [{name: a, waiting: {max_seconds: 0}}]", "tenants[0].waiting.max_seconds: expected float > 0.0"),
        ("tenants: [{name: a, safety: lax}]", 'tenants[0].safety: there is no policy "lax"; there is none in'),
        (
            "safety: {policies: [{name: b, input: [pii]}]}\ntenants: [{name: x, safety: b}, {name: y, safety: a}]",
            'tenants[1].safety: there is no policy "a"; there are b',
        ),
        ("tenants: [{name: a, cache_group: a/b}]", "tenants[0].cache_group: expected str matching regex"),
        ("tiers: []", "tiers: expected list of length >= 1"),
        ("tiers: [{name: a}, {name: a}]", 'tiers[1].name: "a" is already taken by tiers[0].name'),
        ("tiers: [{name: a, weight: 0}]", "tiers[0].weight: expected float >= 0.01, got 0"),
        ("tiers: [{name: a, weight: .nan}]", "tiers[0].weight: expected float >= 0.01, got NaN"),
        ("tiers: [{name: a, reserved: 1.5}]", "tiers[0].reserved: expected float <= 1.0, got 1.5"),
        (
            "tiers: [{name: a, reserved: 0.7}, {name: b, reserved: 0.6}]",
            "tiers: they reserve 1.3 of the fleet together; `reserved` may sum up to 1",
        ),
        (
            "tiers: [{name: a}]\ntenants: [{name: x, tier: gold}]",
            'tenants[0].tier: there is no tier "gold"; there are a',
        ),
        ("admission: {watermark: 1.1}", "admission.watermark: expected float <= 1.0, got 1.1"),
        ("admin: {port: 0}", "admin.port: expected int >= 1, got 0"),
        ("alerts: {webhook: 5}", "alerts.webhook: expected str, got 5"),
        *(
            (
                f"alerts: {{webhook: '{url}'}}",
                "alerts.webhook: expected an address that starts with http:// or https://",
            )
            for url in ("", "hook", "ftp://h", "http://", "https:///x", "http://h:x", "http://h:99999", "http://h/a b")
        ),
    ],
)
def test_refusals_name_the_place(tmp_path: Path, text: str, said: str) -> None:
    found = refusal(tmp_path, text)
    assert found.startswith(said)


@pytest.mark.parametrize("price", ["-1", "1000000000", ".nan", ".inf", "free", "true"])
@pytest.mark.parametrize("field", ["input", "cached_input", "output"])
def test_a_price_that_is_none(tmp_path: Path, field: str, price: str) -> None:
    (tmp_path / "c.yaml").write_text(
        f"models: [{{name: m, tokenizer: t, context: 9, price: {{{field}: {price}}}, "
        "pools: [{name: p, engine: simulated, replicas: 1}]}]"
    )
    with pytest.raises(ConfigError) as caught:
        load_config(tmp_path / "c.yaml")
    assert caught.value.path == f"models[0].price.{field}"


def test_a_webhooks_secret_is_not_shown(tmp_path: Path) -> None:
    assert "hunter2" not in refusal(tmp_path, "alerts: {webhook: 'ftp://hunter2@h/hunter2'}")
