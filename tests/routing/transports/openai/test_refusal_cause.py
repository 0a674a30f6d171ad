"""What providers' refusals are about, in the forms in which they say it."""

import json

import pytest

from routing.transports.openai.refusal_cause import Cause, cause_of, error_words


def said(message: str, code: str | int | None = None, **more: object) -> bytes:
    return json.dumps({"error": {"message": message, "code": code, **more}}).encode()


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (403, said("Your chosen model requires moderation and your input was flagged", 403), Cause.CONTENT),
        (403, b'{"code":"permission","error":"Content violates usage guidelines."}', Cause.CONTENT),
        (400, said("Content Exists Risk", "invalid_request_error"), Cause.CONTENT),
        (400, said("filtered", "content_filter"), Cause.CONTENT),
        (400, said("x", "BadRequest", innererror={"code": "ResponsibleAIPolicyViolation"}), Cause.CONTENT),
        (400, said("x", "data_inspection_failed"), Cause.CONTENT),
        (451, b"", Cause.CONTENT),
        (498, b'{"message":"blocked input"}', Cause.CONTENT),
        (403, said("Your prompt about api keys was flagged"), Cause.CONTENT),
        (403, said("Input token count + max_tokens parameter must be less than the context length"), Cause.CONTEXT),
        (400, said("prompt is too long: 201000 tokens > 200000 maximum"), Cause.CONTEXT),
        (400, said("long", "context_length_exceeded"), Cause.CONTEXT),
        (413, said("Request too large for model on tokens per minute", "rate_limit_exceeded"), Cause.SIZE),
        (413, b"<html></html>", Cause.SIZE),
        (400, said("Unknown parameter: 'foo'", "unknown_parameter"), Cause.REQUEST),
        (422, b'{"detail":[{"loc":["body","foo"],"msg":"Extra inputs are not permitted"}]}', Cause.REQUEST),
        (404, said("No endpoints found that support image input", 404), Cause.REQUEST),
        (404, said("No such File object: file-1"), Cause.REQUEST),
        (401, b"", Cause.KEY),
        (401, said("Authentication Fails", "invalid_request_error"), Cause.KEY),
        (403, said("Your API key does not have permission to use the specified resource"), Cause.KEY),
        (403, said("Your account was suspended for violating our usage policies"), Cause.KEY),
        (400, said("Incorrect API key provided: xx"), Cause.KEY),
        (400, b'[{"error":{"code":400,"message":"API key not valid.","status":"INVALID"}}]', Cause.KEY),
        (400, said("Unsupported value: 'Incorrect API key provided'"), Cause.REQUEST),
        (400, said("Invalid value: 'your credit balance is too low'"), Cause.REQUEST),
        (404, said("The model `x` does not exist or you do not have access to it.", "model_not_found"), Cause.MODEL),
        (403, said("Project `p` does not have access to model `x`"), Cause.MODEL),
        (402, b"", Cause.FUNDS),
        (402, said("You requested up to 4096 tokens, but can only afford 100"), Cause.TOO_DEAR),
        (400, said("Your credit balance is too low to access the API."), Cause.FUNDS),
        (400, said("Access denied", "Arrearage"), Cause.FUNDS),
        (403, said("Key limit exceeded (total limit)"), Cause.FUNDS),
        (403, b'{"error":"Your newly created team doesn\'t have any credits yet."}', Cause.FUNDS),
        (412, said("Account is suspended"), Cause.FUNDS),
        (429, said("x", "insufficient_quota"), Cause.FUNDS),
        (429, said("x", None, type="exceeded_current_quota_error"), Cause.FUNDS),
        (429, said("Rate limit reached, please try again", "rate_limit_exceeded"), Cause.LIMIT),
        (429, said("You exceeded your current quota, please check your plan and billing details"), Cause.LIMIT),
        (403, b"<html>blocked</html>", Cause.UNCLEAR),
        (404, b"", Cause.UNCLEAR),
        (405, b"", Cause.UNCLEAR),
        (503, b"", Cause.AWAY),
        (500, said("flagged"), Cause.FAULT),
        (302, b"", Cause.FAULT),
    ],
)  # fmt: skip
def test_what_a_refusal_is_about(status: int, body: bytes, cause: Cause) -> None:
    assert cause_of(status, error_words(body)) is cause


@pytest.mark.parametrize(
    "body", [b"", b"[" * 100_000, b"[]", b'"x"', b'{"error":{"code":[1],"status":true,"message":{}}}']
)
def test_a_body_of_any_form_is_read(body: bytes) -> None:
    assert error_words(body).status == 0
