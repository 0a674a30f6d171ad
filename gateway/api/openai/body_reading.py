"""Read a body: the fields that the gateway decodes, and the parameters that only an upstream of the API honours."""

from functools import partial

import msgspec

from gateway.api.openai.completion_api import CompletionApi
from gateway.api.openai.guides import take_guide
from gateway.api.openai.media.media_tokens import body_tokens
from gateway.api.openai.sampling_params import SamplingFields
from gateway.api.openai.tools.tool_offer import CallsParser
from gateway.api.server.body_decoder import unsupported
from gateway.inference.generate_request import GenerateRequest, NewParser
from gateway.models.served_model import ServedModel
from gateway.tenancy.tenants.caller import Caller
from gateway.text.parsing.parser import OutputParser
from observability.record import RequestRecord
from protos.errors import InvalidRequest, UnsupportedParameter
from protos.types import Guide


class Reading(msgspec.Struct, frozen=True):
    """A decoded body. `foreign` refuses the first parameter that the gateway cannot honour itself."""

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


def _from_the_first_token(new_parser: NewParser, prompt_end: str) -> OutputParser | None:
    """Ignore reasoning that the prompt has opened: a guided answer does not continue it."""
    del prompt_end
    return new_parser("")


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
    guide, guide_param = take_guide(extras) or (None, "")
    foreign = unsupported(next(iter(extras))) if extras else None
    try:
        usage = fields.include_usage
    except UnsupportedParameter as refusal:
        foreign = foreign or _without_traceback(refusal)
        options = fields.stream_options
        usage = options is not None and bool(options.include_usage)
    return Reading(api, fields, body, usage, guide, guide_param, foreign)


def _without_traceback(refusal: UnsupportedParameter) -> UnsupportedParameter:
    """Drop the traceback: its frames would live as long as the request."""
    return refusal.with_traceback(None)
