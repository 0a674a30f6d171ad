"""Screen a request to one model with the filters of its tenant and of that model."""

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from gateway.api.openai.body_reading import Reading
from gateway.api.openai.prompt_texts import has_inner_escapes, prompt_texts, rewritten
from gateway.api.server.filtered_prompt import filtered_prompt
from gateway.api.server.http_exchange import HttpExchange
from gateway.filtering.filters.answer_filter import AnswerFilter
from gateway.filtering.filters.filter_policy import Policy
from gateway.filtering.filters.finding_records import Recorder
from gateway.filtering.filters.prompt_filter import PassedPrompt, ask_guards, messages_pass_prefilter
from gateway.inference.generate_request import GenerateRequest
from gateway.inference.generation import Generation
from gateway.inference.prepare import INLINE_BYTES
from gateway.models.served_model import ServedModel
from gateway.scheduling.encoding_queue import EncodingQueue
from gateway.tenancy.tenants.caller import Caller
from protos.errors import PenstockError

#: Starts a generation from a body and its reading.
Launch = Callable[[Reading, bytes, AnswerFilter | None], Coroutine[Any, Any, Generation]]


def passes_prefilter(policy: Policy, request: GenerateRequest, body: bytes) -> bool:
    """Whether a request has only plain messages and the prefilter finds nothing in them.

    Most requests pass it; `screen_prompt` screens the others.
    """
    messages = request.only_messages
    if (
        messages is None
        or request.guide is not None
        or request.size > INLINE_BYTES
        or not policy.texts_only
        or (b"\\" in body and any(has_inner_escapes(message["content"] or "") for message in messages))
    ):
        return False
    record = request.record
    began = time.monotonic()
    passes = messages_pass_prefilter(policy, request.caller.tenant.name, messages)
    record.screened = ended = time.monotonic()
    record.filter_seconds += ended - began
    return passes


def filter_of_answers(policy: Policy, request: GenerateRequest) -> AnswerFilter | None:
    """Make the answer filter of a request that passed the prefilter."""
    screening = policy.default_screening
    if screening is None:
        return None
    recorder = Recorder(request.record, request.caller.tenant.name, policy.record_text)
    return AnswerFilter(screening, (), None, policy.fail_open, recorder)


async def screen_prompt(
    encoding: EncodingQueue,
    exchange: HttpExchange,
    caller: Caller,
    model: ServedModel,
    policy: Policy,
    reading: Reading,
    body: bytes,
    launch: Launch,
    *,
    again: bool,
) -> Generation:
    """Filter the body; start the generation of what remains with `launch` if the prompt passes.

    `again`: another model could not answer it. Raises ContentFiltered, FilterFailed and what `launch` raises.
    """
    recorder = Recorder(exchange.record, caller.tenant.name, policy.record_text)
    if not policy.reads_prompts:
        return await launch(reading, body, _of_answers(policy, None, recorder))
    texts = prompt_texts(reading, body, model)
    passed = await filtered_prompt(encoding, exchange, policy, texts, recorder, len(body), again=again)
    if passed.replaced:
        body = rewritten(body, _of_one_kind(passed, reading) if model.relays else passed.replaced)
        reading = reading.reread(body)
    launched = launch(reading, body, _of_answers(policy, passed, recorder))
    if not passed.open:
        return await launched
    return await _beside_guards(ask_guards(policy, passed, recorder), launched, exchange)


def _of_one_kind(passed: PassedPrompt, reading: Reading) -> Mapping[tuple[str | int, ...], str]:
    """Give the replaced texts; if one prompt of token ids is replaced, all become text, as upstreams take no mix."""
    prompts = getattr(reading.fields, "prompt", None)
    if not (isinstance(prompts, list) and any(isinstance(prompt, list) for prompt in prompts)):
        return passed.replaced
    return {at.path: at.text for at in passed.texts if at.path[0] == "prompt"} | dict(passed.replaced)


def _of_answers(policy: Policy, passed: PassedPrompt | None, recorder: Recorder) -> AnswerFilter | None:
    screening = policy.default_screening if passed is None else passed.screening
    if screening is None and not policy.answer_guards:
        return None
    prompt: str | None = None
    if policy.answer_guards and passed is not None:
        prompt = next((at.text for at in reversed(passed.texts) if at.role == "user" and at.text), None)
    return AnswerFilter(screening, policy.answer_guards, prompt, policy.fail_open, recorder)


async def _beside_guards(
    asking: Coroutine[Any, Any, None], launched: Coroutine[Any, Any, Generation], exchange: HttpExchange
) -> Generation:
    """Return the generation once the guards let the prompt pass; their refusal ends it, however far it is."""
    handle = exchange.handle

    def end(task: "asyncio.Task[None]") -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, PenstockError):
            handle.fail(error)

    verdict = asyncio.get_running_loop().create_task(asking)
    verdict.add_done_callback(end)
    try:
        generation = await launched
        try:
            await asyncio.shield(verdict)
        except BaseException:
            generation.close()
            raise
    finally:
        verdict.cancel()
        await asyncio.gather(verdict, return_exceptions=True)
    return generation
