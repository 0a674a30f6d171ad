"""Pass a prompt's texts through the filters of its tenant and model; time it; move long texts off the event loop."""

import time
from collections.abc import Sequence
from functools import partial

from gateway.api.server.http_exchange import HttpExchange
from gateway.filtering.filters.filter_policy import Policy
from gateway.filtering.filters.finding_records import Recorder
from gateway.filtering.filters.prompt_filter import PassedPrompt, pass_prompt
from gateway.filtering.prompt_text import PromptText
from gateway.inference.prepare import INLINE_BYTES
from gateway.scheduling.encoding_queue import EncodingQueue


async def filtered_prompt(
    encoding: EncodingQueue,
    exchange: HttpExchange,
    policy: Policy,
    texts: Sequence[PromptText],
    recorder: Recorder,
    size: int,
    *,
    again: bool = False,
) -> PassedPrompt:
    """Filter the texts of a body of `size` bytes; guards may still have to be asked.

    `again`: the texts were filtered before, for a model that could not answer. Raises ContentFiltered and FilterFailed.
    """
    record = exchange.record
    # Long texts leave the event loop, as for tokenization.
    run_scan = None if size <= INLINE_BYTES else partial(encoding.run, exchange.handle, record.tenant)
    began = time.monotonic()
    try:
        return await pass_prompt(policy, texts, recorder, run_scan, again=again)
    finally:
        record.screened = ended = time.monotonic()
        record.filter_seconds += ended - began
