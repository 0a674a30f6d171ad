"""The configuration of filters: what is refused, and where it says that the fault is."""

from pathlib import Path

import pytest

from gateway.config.errors import ConfigError
from gateway.config.load import load_config
from gateway.server.machine_checks import resolve
from safety.pii.kinds import KINDS

MODEL = """
models:
  - name: m
    tokenizer: mistral-tekken
    context: 2000
    pools: [{name: p, engine: simulated, replicas: 1}]
"""


def refusal(folder: Path, text: str) -> str:
    path = folder / "c.yaml"
    path.write_text(MODEL + text, encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        resolve(load_config(path), "c.yaml", ["mistral-tekken"])
    return str(caught.value).removeprefix(f"{path}: ").removeprefix("c.yaml: ")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("safety: {input: [pi]}", 'safety.input[0]: there is no filter "pi"; there are injection, pii, secrets'),
        ("safety: {input: [pii, pii]}", 'safety.input[1]: "pii" is already in the list'),
        ("safety: {filters: [{name: x}]}", "safety.filters[0]: expected exactly one of pii, injection, terms"),
        ("safety: {filters: [{name: x, pii: {}, sizes: {messages: 1}}]}", "safety.filters[0]: expected exactly one"),
        ("safety: {filters: [{name: pii, sizes: {messages: 1}}]}", 'safety.filters[0].name: "pii" is the name of a'),
        ("safety: {filters: [{name: x, sizes: {}}]}", "safety.filters[0].sizes: expected a bound"),
        ("safety: {filters: [{name: x, terms: {}}]}", "safety.filters[0].terms: expected terms, a file, or both"),
        ("safety: {filters: [{name: x, terms: {file: no.txt}}]}", "safety.filters[0].terms.file: "),
        ('safety: {filters: [{name: x, terms: {terms: [a, " "]}}]}', "safety.filters[0].terms.terms[1]: nothing is"),
        (
            'safety: {filters: [{name: x, expressions: {patterns: [ok, "(a"]}}]}',
            "safety.filters[0].expressions.patterns[1]: not an expression of RE2: missing )",
        ),
        (
            'safety: {filters: [{name: x, expressions: {patterns: ["a.*b"]}}]}',
            "safety.filters[0].expressions.patterns[0]: it can match without bound",
        ),
        ("safety: {filters: [{name: x, pii: {detect: [mail]}}]}", "safety.filters[0].pii.detect[0]: there is no kind"),
        (
            "safety: {filters: [{name: x, pii: {detect: [email, phone], ignore: [phone, email]}}]}",
            "safety.filters[0].pii.ignore: leaves no kind to look for",
        ),
        (
            f"safety: {{filters: [{{name: x, pii: {{ignore: [{', '.join(KINDS)}]}}}}]}}",
            "safety.filters[0].pii.ignore: leaves no kind to look for",
        ),
        ("safety: {filters: [{name: x, model: {name: gone}}]}", "safety.filters[0].model.name: there is no model"),
        (
            'safety: {filters: [{name: x, plugin: {target: "tests.plugins:Gone"}}]}',
            "safety.filters[0].plugin.target: tests.plugins has nothing of that name: Gone",
        ),
        ("safety: {filters: [{name: x, sizes: {messages: 1}}], output: [x]}", "safety.output[0]: sizes is a filter of"),
        (
            "safety: {filters: [{name: x, canaries: {prefix: abcd}}], input: [x]}",
            "safety.input[0]: canaries is a filter of answers alone",
        ),
        (
            "safety: {filters: [{name: x, sizes: {messages: 1}}], input: [{filter: x, action: redact}]}",
            "safety.input[0]: a verdict of sizes is about the text as a whole",
        ),
        ("safety: {policies: [{name: a}, {name: a}]}", 'safety.policies[1].name: "a" is already the name of another'),
        ("safety: {policies: [{name: none}]}", 'safety.policies[0].name: "none" means no policy'),
        ("tenants: [{name: acme, safety: gone}]", 'tenants[0].safety: there is no policy "gone"'),
    ],
)
def test_refusals_name_the_field(tmp_path: Path, text: str, problem: str) -> None:
    assert refusal(tmp_path, text).startswith(problem)


def test_a_models_policy_must_be_there(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(MODEL.replace("context: 2000", "context: 2000\n    safety: gone"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"models\[0\]\.safety: there is no policy"):
        load_config(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"fine\n\xff\xfe\n", "line 2: not valid UTF-8"),
        (b"fine\n" + b"x" * 64 + b"\n", "line 2: longer than 63 characters"),
        (b"# nothing\n\n", "has no terms"),
        (b"".join(b"t%d\n" % number for number in range(250_001)), "line 250001: more than 250000 terms"),
    ],
)
def test_a_list_that_cannot_be_used(tmp_path: Path, content: bytes, problem: str) -> None:
    (tmp_path / "terms.txt").write_bytes(content)
    said = refusal(tmp_path, "safety: {filters: [{name: x, terms: {file: terms.txt}}]}")
    assert said.startswith("safety.filters[0].terms.file: ")
    assert problem in said


def test_a_list_of_many_terms_is_read(tmp_path: Path) -> None:
    (tmp_path / "terms.txt").write_text(
        "\ufeff# words\n" + "".join(f"term{n}\n" for n in range(1000)), encoding="utf-8"
    )
    path = tmp_path / "c.yaml"
    path.write_text(MODEL + "safety: {filters: [{name: x, terms: {file: terms.txt}}], input: [x]}", encoding="utf-8")
    config = load_config(path)
    resolve(config, "c.yaml", ["mistral-tekken"])
    assert config.safety.filters[0].terms is not None
    assert config.safety.filters[0].terms.file == str(tmp_path / "terms.txt")
