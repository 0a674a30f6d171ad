"""Choose a model's output format from its files and the configuration."""

import logging

from gateway.config.models.settings import Model
from gateway.text.parsing.families.family_registry import HARMONY, output_format, recognised
from gateway.text.parsing.output_format import OutputFormat
from gateway.text.tokens.loader import LoadedTokenizer

log = logging.getLogger(__name__)


def model_output(model: Model, loaded: LoadedTokenizer) -> OutputFormat | None:
    """The output format of a model; None if its answers are plain text or its tokens are not seen here."""
    if model.tokenizer is None:
        return None
    recognised_tools, recognised_reasoning = recognised(loaded.template, loaded.tokenizer.specials)
    tools = _chosen(model.output.tools, recognised_tools)
    reasoning = _chosen(model.output.reasoning, recognised_reasoning)
    if HARMONY in (tools, reasoning) and not {tools, reasoning} <= {None, HARMONY}:
        # The two are incompatible unless configured so: the configured one takes precedence.
        tools, reasoning = (tools, None) if model.output.reasoning == "auto" else (None, reasoning)
    log.info("model %s: its form of tool calls is %s, of thoughts %s", model.name, tools or "none", reasoning or "none")
    return output_format(tools, reasoning)


def _chosen(configured: str, recognised_name: str | None) -> str | None:
    if configured == "auto":
        return recognised_name
    return None if configured == "none" else configured
