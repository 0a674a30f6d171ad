"""Read a body: the fields that the gateway decodes, and the parameters that only an upstream of the API honours."""

import dataclasses
from functools import partial

import msgspec

from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.extension_params import PRIVATE, Honoured, take_honoured, take_out
from gateway.api.openai.guides import take_guide
from gateway.api.openai.media.media_tokens import body_tokens
from gateway.api.openai.sampling_params import SamplingFields
from gateway.api.openai.tools.tool_offer import CallsParser
from gateway.api.server.body_decoder import unsupported
from gateway.inference.generate_request import AnswerDetails, Begun, Chat, GenerateRequest, NewParser, Prompt
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from gateway.text.parsing.parser import OutputParser
from observability.record import RequestRecord
from protos.errors import InvalidRequest, UnsupportedParameter
from protos.types import Guide


class Reading(msgspec.Struct, frozen=True):
    """A decoded body, and that body as an upstream may get it.

    `foreign` refuses the first parameter that the gateway cannot honour itself.
    """

    api: CompletionApi
    fields: SamplingFields
    body: bytes
    include_usage: bool
    guide: Guide | None = None
    guide_param: str = ""
    foreign: UnsupportedParameter | None = None

    def request(self, caller: Caller, model: ServedModel, record: RequestRecord) -> GenerateRequest:
        """Make the request to a model, with its `record`. Raises InvalidRequest."""
        size, foreign = len(self.body), self.foreign
        if foreign is None:
            try:
                request = self.api.request(self.fields, caller, model, record, size, None)
                return request if self.guide is None and not model.opaque else self._completed(request, model.opaque)
            except UnsupportedParameter as refusal:
                foreign = _without_traceback(refusal)
        return self._completed(self.api.request(self.fields, caller, model, record, size, foreign), True)

    def _completed(self, request: GenerateRequest, relayed: bool) -> GenerateRequest:
        """Add the guide, and the estimate of a prompt that may be `relayed` without having been tokenized."""
        if self.guide is not None:
            request = self._guided(request)
        if relayed:
            request = msgspec.structs.replace(request, estimate=self.estimate(request.model))
        return request

    def estimate(self, model: ServedModel) -> int:
        """Estimate the tokens of the prompt, for a model whose tokenizer is not known here."""
        return body_tokens(self.body, self.api.media(self.fields), model.media_rule)

    def _guided(self, request: GenerateRequest) -> GenerateRequest:
        """Add the guide, which binds the whole answer from its first token on, unless the answer calls tools instead.

        Raises InvalidRequest, or UnsupportedParameter where tool calls could not come through.
        """
        guide = self.guide
        if request.guide_param == "tool_choice":
            # A forced call has no text that a format could apply to.
            if self.guide_param != "response_format":
                raise InvalidRequest(
                    f"'tool_choice' and '{self.guide_param}' exclude each other.", param=self.guide_param
                )
            return request
        if guide is not None and isinstance(request.parser, CallsParser):
            guide = request.parser.guide_beside(guide, self.guide_param)
        parser = None if request.parser is None else partial(_from_the_first_token, request.parser)
        return msgspec.structs.replace(request, guide=guide, guide_param=self.guide_param, parser=parser)

    def reread(self, body: bytes) -> "Reading":
        """Read the body that filters have made of this one. Raises InvalidRequest."""
        return read_body(self.api, body)


class _ExtendedReading(Reading, frozen=True):
    """The reading of a body with a cache salt, which keeps its request from sharing the prefixes of others, or with
    parameters by which an answer shows more than its text, or less; `honoured_param` is one of them.
    """

    salt: str = ""
    honoured: Honoured | None = None
    honoured_param: str = ""

    def request(self, caller: Caller, model: ServedModel, record: RequestRecord) -> GenerateRequest:
        if self.salt:
            caller = caller.apart(self.salt)
        if self.honoured is None:
            return super().request(caller, model, record)
        if model.relays:
            # An upstream gets the parameters as they came, and its answer goes back as it comes.
            foreign = self.foreign or unsupported(self.honoured_param)
            return msgspec.structs.replace(self, salt="", honoured=None, foreign=foreign).request(caller, model, record)
        request = super().request(caller, model, record)
        return request if request.foreign is not None else _detailed(request, self.honoured)

    def reread(self, body: bytes) -> Reading:
        return _extended(super().reread(body), self.salt)


def _extended(reading: Reading, salt: str, honoured: Honoured | None = None, param: str = "") -> Reading:
    """Add what a body has beside; a reading that has been read again has its honoured parameters."""
    if isinstance(reading, _ExtendedReading):
        return msgspec.structs.replace(reading, salt=salt)
    if not salt and honoured is None:
        return reading
    if honoured is not None and honoured.return_tokens_as_token_ids:
        reading = msgspec.structs.replace(
            reading, api=dataclasses.replace(reading.api, logprobs=reading.api.logprobs_by_id)
        )
    made = reading.api, reading.fields, reading.body, reading.include_usage
    return _ExtendedReading(*made, reading.guide, reading.guide_param, reading.foreign, salt, honoured, param)


def _detailed(request: GenerateRequest, asked: Honoured) -> GenerateRequest:
    """Set the request's answer details from the body's extension parameters. Raises InvalidRequest."""
    details = request.details or AnswerDetails(logprobs=request.sampling.logprobs)
    alternatives, sampling, prompts = asked.prompt_logprobs, request.sampling, request.prompts
    prompt = _begun(request.prompt, asked)
    if isinstance(prompt, Begun) and asked.echo:
        details = msgspec.structs.replace(details, echo=(prompt.text,) * sampling.n)
    if alternatives is not None:
        if request.stream:
            raise InvalidRequest("'prompt_logprobs' cannot be streamed.", param="prompt_logprobs")
        most = max(sampling.logprobs or 0, alternatives)
        sampling = msgspec.structs.replace(sampling, logprobs=most, prompt_logprobs=True)
    if alternatives is not None or asked.return_token_ids:
        prompts = prompts or (prompt,)
    return msgspec.structs.replace(
        request,
        prompt=prompt,
        sampling=sampling,
        prompts=prompts,
        prompt_param="messages" if isinstance(prompt, Chat | Begun) else "prompt",
        details=msgspec.structs.replace(
            details,
            token_ids=asked.return_token_ids,
            prompt_logprobs=alternatives,
            thoughts=asked.include_reasoning,
        ),
    )


def _begun(prompt: Prompt, asked: Honoured) -> Prompt:
    """Give the prompt, with the last message as the answer's begin if that is asked for.

    Raises InvalidRequest or UnsupportedParameter.
    """
    if not asked.continue_final_message:
        if not asked.add_generation_prompt:
            raise unsupported("add_generation_prompt")
        if asked.echo:
            raise unsupported("echo")
        return prompt
    if not isinstance(prompt, Chat):
        raise unsupported("continue_final_message")
    *before, last = prompt.messages
    if last["role"] != "assistant" or not last["content"] or "tool_calls" in last or not before:
        raise InvalidRequest(
            "'continue_final_message' goes with a last message of the assistant's that is text, after another one.",
            param="continue_final_message",
        )
    return Begun(Chat(before, prompt.extras), last["content"])


def _from_the_first_token(new_parser: NewParser, prompt_end: str | None, *, whole: bool = False) -> OutputParser | None:
    """Ignore reasoning that the prompt has opened: a guided answer does not continue it."""
    del prompt_end
    return new_parser(None, whole=whole)


def read_body(api: CompletionApi, body: bytes) -> Reading:
    """Read a body. Raises InvalidRequest, with `param` where one is at fault."""
    try:
        fields = api.decode(body)
        return Reading(api, fields, body, fields.include_usage)
    except UnsupportedParameter:
        # The slow path, so that the usual request pays nothing for it.
        return _read_all(api, body)


def _read_all(api: CompletionApi, body: bytes) -> Reading:
    fields, extras = api.decode_all(body)
    body, salt = take_out(body, extras)
    fields = api.hints(fields, extras)
    guide, guide_param = take_guide(extras) or (None, "")
    honoured, honoured_param = take_honoured(extras) or (None, "")
    for name in extras.keys() & PRIVATE:
        raise unsupported(name)
    foreign = unsupported(next(iter(extras))) if extras else None
    try:
        usage = fields.include_usage
    except UnsupportedParameter as refusal:
        foreign = foreign or _without_traceback(refusal)
        options = fields.stream_options
        usage = options is not None and bool(options.include_usage)
    reading = Reading(api, fields, body, usage, guide, guide_param, foreign)
    return _extended(reading, salt, honoured, honoured_param)


def _without_traceback(refusal: UnsupportedParameter) -> UnsupportedParameter:
    """Drop the traceback: its frames would live as long as the request."""
    return refusal.with_traceback(None)
