from pathlib import Path

import pytest

from gateway.cli.main import main

MODELS = """models:
- {name: free, context: 9, pools: [{name: p, engine: openai, replicas: ['http://h/v1']}]}
- {name: zero, context: 9, price: {}, pools: [{name: p, engine: openai, replicas: ['http://h/v1']}]}
- {name: paid, context: 9, price: {output: 1}, pools: [{name: p, engine: openai, replicas: ['http://h/v1'], \
upstream: {lora: true}}], adapters: [{name: x}]}
"""
BUDGET = "budget: {usd: 5, period: day}"


@pytest.mark.parametrize(
    ("tenant", "warnings"),
    [
        ("{name: a}", []),
        (f"{{name: a, models: [paid], limits: {{{BUDGET}}}}}", []),
        ("{name: a, models: ['paid:*', 'fre?']}", []),
        (
            f"{{name: a, models: ['gtp*'], limits: {{{BUDGET}}}}}",
            [
                "tenants[0].models[0]: no model matches 'gtp*'",
                "tenants[0].limits.budget: nothing is ever spent, for none of its models has a price",
            ],
        ),
        ("{name: a, models: ['gtp*', paid]}", ["tenants[0].models[0]: no model matches 'gtp*'"]),
        (
            f"{{name: a, models: [free, zero], limits: {{{BUDGET}}}}}",
            ["tenants[0].limits.budget: nothing is ever spent, for none of its models has a price"],
        ),
        (
            f"{{name: a, limits: {{{BUDGET}}}}}",
            ["tenants[0].limits.budget: nothing is spent on free, zero, without a price"],
        ),
        (
            f"{{name: a, model_limits: {{free: {{{BUDGET}}}, paid: {{{BUDGET}}}}}}}",
            ["tenants[0].model_limits.free.budget: nothing is ever spent, for none of its models has a price"],
        ),
    ],
)
def test_check_warns(tmp_path: Path, capsys: pytest.CaptureFixture[str], tenant: str, warnings: list[str]) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(f"{MODELS}tenants: [{tenant}]\n")
    assert main(["check", "--config", str(path)]) == 0
    assert capsys.readouterr().err.splitlines() == [f"warning: {path}: {warning}" for warning in warnings]
