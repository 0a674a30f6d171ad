"""The form of a model's answers: what the configuration says, and what its files show."""

from typing import Any, get_args, get_type_hints

import msgspec
import pytest

from gateway.config.models.output import Output, output_problems
from gateway.config.models.settings import Model
from gateway.models.model_output import model_output
from gateway.text.parsing.families.family_registry import FAMILIES
from gateway.text.tokens.loader import LoadedTokenizer
from tests.harness import tekken

HERMES = "{% for t in tools %}{{ t }}{% endfor %}<tool_call>{'name': 1}</tool_call><think>"
HARMONY = "<|channel|>analysis<|message|>"
POOL = {"name": "p", "engine": "simulated", "replicas": 1}


def model(**fields: Any) -> Model:
    written = {"name": "m", "tokenizer": "mistral-tekken", "context": 100, "pools": [POOL], **fields}
    return msgspec.convert(written, Model)


def loaded(template: str) -> LoadedTokenizer:
    return LoadedTokenizer(tekken().tokenizer, tekken().chat_format, template)


def test_the_configuration_has_the_names_of_all_families() -> None:
    hints = get_type_hints(Output)
    for kind in ("tools", "reasoning"):
        assert set(get_args(hints[kind])) == {"auto", "none", *FAMILIES[kind]}


@pytest.mark.parametrize(
    ("template", "output", "name", "calls"),
    [
        ("", {}, "mistral", True),
        ("", {"tools": "none"}, None, False),
        ("", {"tools": "none", "reasoning": "think"}, "think", False),
        (HERMES, {}, "think+hermes", True),
        (HERMES, {"reasoning": "none"}, "hermes", True),
        (HERMES, {"tools": "none"}, "think", False),
        (HERMES, {"tools": "pythonic"}, "think+pythonic", True),
        (HARMONY, {}, "harmony", True),
        (HARMONY, {"tools": "none"}, "harmony", False),
        # What was configured counts, where both cannot be.
        (HARMONY, {"tools": "hermes"}, "hermes", True),
        (HARMONY, {"reasoning": "think"}, "think", False),
        (HERMES, {"reasoning": "harmony"}, "harmony", False),
    ],
)
def test_what_a_model_writes(template: str, output: dict[str, str], name: str | None, calls: bool) -> None:
    found = model_output(model(output=output), loaded(template))
    assert (None if found is None else found.name) == name
    assert (found is not None and found.calls) is calls


def test_a_model_without_a_tokenizer_has_no_form() -> None:
    assert model_output(model(tokenizer=None), loaded(HERMES)) is None


def problems_of(configured: Model) -> list[tuple[str, str]]:
    return list(output_problems(configured.output, configured.tokenizer, "models[0]"))


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"output": {"tools": "harmony", "reasoning": "think"}}, "models[0].output.tools"),
        ({"output": {"tools": "hermes", "reasoning": "harmony"}}, "models[0].output.tools"),
        ({"output": {"tools": "hermes"}, "tokenizer": None}, "models[0].output"),
    ],
)
def test_what_cannot_be_is_named(fields: dict[str, Any], path: str) -> None:
    assert [where for where, _ in problems_of(model(**fields))] == [path]
    assert not list(problems_of(model(output={"tools": "harmony"})))
    assert not list(problems_of(model(tokenizer=None)))


def test_a_family_that_there_is_not() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.output\.tools"):
        model(output={"tools": "qwen"})
