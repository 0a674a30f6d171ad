"""Choose a model's output format from its files and the configuration."""

import logging

from gateway.config.models.settings import Model
from gateway.text.parsing.families.family_registry import CHANNELS, output_format, recognised
from gateway.text.parsing.output_format import OutputFormat
from gateway.text.parsing.tagged_format import TaggedFormat
from gateway.text.tokens.chat_format import ChatFormat
from gateway.text.tokens.loader import LoadedTokenizer

log = logging.getLogger(__name__)


def model_output(model: Model, loaded: LoadedTokenizer) -> OutputFormat | None:
    """The output format of a model; None if its answers are plain text or its tokens are not seen here."""
    if model.tokenizer is None:
        return None
    found = recognised(loaded.template, loaded.tokenizer.specials, loaded.written_call)
    tools = _chosen(model.output.tools, found.tools)
    reasoning = _chosen(model.output.reasoning, found.reasoning)
    if not CHANNELS.keys().isdisjoint((tools, reasoning)) and tools != reasoning and None not in (tools, reasoning):
        # The two are incompatible unless configured so: the configured one takes precedence.
        tools, reasoning = (tools, None) if model.output.reasoning == "auto" else (None, reasoning)
    log.info("model %s: its form of tool calls is %s, of thoughts %s", model.name, tools or "none", reasoning or "none")
    return output_format(tools, reasoning, found.learned_tools)


def model_chat_format(loaded: LoadedTokenizer, output: OutputFormat | None) -> ChatFormat:
    """Choose a model's chat format: where its template writes no calls, those of earlier turns are written for it."""
    found = loaded.chat_format
    if not loaded.template or found.calls or "tools" not in found.reads or not isinstance(output, TaggedFormat):
        return found
    # Imported here, as Jinja2 takes 3 MB that other formats do not need.
    from gateway.text.tokens.chat_template import ChatTemplate
    from gateway.text.tokens.written_calls import WrittenCalls

    if output.written is None or not isinstance(found, ChatTemplate) or not found.results:
        return found
    return WrittenCalls(found, output.written)


def _chosen(configured: str, recognised_name: str | None) -> str | None:
    if configured == "auto":
        return recognised_name
    return None if configured == "none" else configured
