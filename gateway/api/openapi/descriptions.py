"""The descriptions of all routes."""

from typing import Any, Final

from gateway.api.anthropic.errors import AnthropicError
from gateway.api.anthropic.messages_body import MessagesBody, PromptBody
from gateway.api.feedback.give_feedback import Feedback, FeedbackBody
from gateway.api.files.batch_endpoints import BatchBody
from gateway.api.openai.chat import ChatBody
from gateway.api.openai.completions import CompletionBody
from gateway.api.openai.deleted import Deleted
from gateway.api.openai.embeddings import EmbeddingsBody
from gateway.api.openai.moderations import ModerationBody
from gateway.api.openai.rerank import Ranking, RerankBody, ScoreBody, Scores
from gateway.api.openai.tokenize import DetokenizeBody, Text, TokenizeBody, Tokens
from gateway.api.openapi.description import FORM, OCTETS, WITH_MODEL, Description
from gateway.api.openapi.document import Descriptions
from gateway.api.openapi.parameters import BatchQuery, FileForm, FileQuery, PageQuery, ReadyQuery, ResponseQuery
from gateway.api.openapi.published_shapes import published, published_list
from gateway.api.responses.compact import CompactBody
from gateway.api.responses.conversation_endpoints import NewConversation, NewItems, UpdatedConversation
from gateway.api.responses.responses_body import CreateBody, Prompting
from gateway.api.server.health import Health, Version
from protos.errors import (
    AnswerNotFound,
    BatchMissing,
    Conflict,
    ContentUnavailable,
    ConversationNotFound,
    FileMissing,
    InvalidRequest,
    ItemNotFound,
    ModelNotFound,
    Overloaded,
    PermissionDenied,
    PreviousResponseNotFound,
    ResponseNotFound,
    StorageFull,
    UnsupportedParameter,
)

_CHAT: Final = published("openai.ChatCompletion")
_CHAT_CHUNK: Final = published("openai.ChatCompletionChunk")
_TEXT: Final = published("openai.Completion")
_VECTORS: Final = published("openai.CreateEmbeddingResponse")
_MODEL: Final = published("openai.Model")
_MODEL_LIST: Final = published_list("openai.Model", paged=False)
_MODERATION: Final = published("openai.ModerationCreateResponse")
_MESSAGE: Final = published("anthropic.Message")
_MESSAGE_EVENT: Final = published("anthropic.RawMessageStreamEvent")
_MESSAGE_TOKENS: Final = published("anthropic.MessageTokensCount")
_RESPONSE_OBJECT: Final = published("openai.Response")
_RESPONSE_EVENT: Final = published("openai.ResponseStreamEvent")
_RESPONSE_ITEMS: Final = published_list("openai.ResponseItem")
_INPUT_TOKENS: Final = published("openai.InputTokenCountResponse")
_COMPACTED: Final = published("openai.CompactedResponse")
_CONVERSATION_OBJECT: Final = published("openai.Conversation")
_CONVERSATION_ITEM: Final = published("openai.ConversationItem")
_CONVERSATION_ITEMS: Final = published_list("openai.ConversationItem")
_FILE_OBJECT: Final = published("openai.FileObject")
_FILE_LIST: Final = published_list("openai.FileObject")
_BATCH_OBJECT: Final = published("openai.Batch")
_BATCH_LIST: Final = published_list("openai.Batch")
_NO_MODEL: Final = (ModelNotFound, PermissionDenied)
_MODELS: Final[Descriptions] = {
    ("POST", "/v1/chat/completions"): Description(
        "Answer a conversation.", ChatBody, _CHAT, _CHAT_CHUNK, errors=WITH_MODEL, done=True
    ),
    ("POST", "/v1/completions"): Description(
        "Go on with a text.", CompletionBody, _TEXT, _TEXT, errors=WITH_MODEL, done=True
    ),
    ("POST", "/v1/embeddings"): Description("Turn texts into vectors.", EmbeddingsBody, _VECTORS, errors=WITH_MODEL),
    ("POST", "/v1/rerank"): Description("Order documents by a query.", RerankBody, Ranking, errors=WITH_MODEL),
    ("POST", "/v1/score"): Description("Tell how alike texts are.", ScoreBody, Scores, errors=WITH_MODEL),
    ("POST", "/v1/tokenize"): Description("Turn a text into token ids.", TokenizeBody, Tokens, errors=WITH_MODEL),
    ("POST", "/v1/detokenize"): Description("Turn token ids into a text.", DetokenizeBody, Text, errors=WITH_MODEL),
    ("GET", "/v1/models"): Description("List the models that the key may use.", answer=_MODEL_LIST),
    ("GET", "/v1/models/{model:path}"): Description("Tell of one model.", answer=_MODEL, errors=_NO_MODEL),
    ("POST", "/v1/moderations"): Description(
        "Have the configured filters look at texts.",
        ModerationBody,
        _MODERATION,
        errors=WITH_MODEL,
    ),
    ("POST", "/v1/feedback"): Description(
        "Tell of an answer, while versions of its model are compared.",
        FeedbackBody,
        Feedback,
        errors=(InvalidRequest, PermissionDenied, AnswerNotFound),
    ),
    ("GET", "/healthz"): Description("Whether this process answers.", answer=Health, tag="service", public=True),
    ("GET", "/version"): Description("The gateway's version.", answer=Version, tag="service", public=True),
    ("GET", "/readyz"): Description(
        "Whether it could serve a request now.",
        answer=Health,
        query=ReadyQuery,
        tag="service",
        public=True,
        also=(503,),
        errors=(InvalidRequest,),
    ),
    ("GET", "/openapi.json"): Description("This document.", answer=dict[str, Any], tag="service", public=True),
}
_MESSAGES: Final[Descriptions] = {
    ("POST", "/v1/messages"): Description(
        "Answer a conversation.",
        MessagesBody,
        _MESSAGE,
        _MESSAGE_EVENT,
        errors=WITH_MODEL,
        error=AnthropicError,
    ),
    ("POST", "/v1/messages/count_tokens"): Description(
        "Count a prompt's tokens.",
        PromptBody,
        _MESSAGE_TOKENS,
        errors=WITH_MODEL,
        error=AnthropicError,
    ),
}
_RESPONSE: Final = "/v1/responses/{response_id}"
_LOST_RESPONSE: Final = (ResponseNotFound, InvalidRequest, UnsupportedParameter)
_RESPONSES: Final[Descriptions] = {
    ("POST", "/v1/responses"): Description(
        "Answer, and keep the answer.",
        CreateBody,
        _RESPONSE_OBJECT,
        _RESPONSE_EVENT,
        errors=(*WITH_MODEL, PreviousResponseNotFound, ConversationNotFound),
    ),
    ("POST", "/v1/responses/input_tokens"): Description(
        "Count a prompt's tokens.",
        Prompting,
        _INPUT_TOKENS,
        errors=(*WITH_MODEL, PreviousResponseNotFound, ConversationNotFound),
    ),
    ("POST", "/v1/responses/compact"): Description(
        "Make a conversation shorter.",
        CompactBody,
        _COMPACTED,
        errors=(*WITH_MODEL, PreviousResponseNotFound),
    ),
    ("GET", _RESPONSE): Description(
        "Show a response, or follow one.",
        answer=_RESPONSE_OBJECT,
        event=_RESPONSE_EVENT,
        query=ResponseQuery,
        errors=(*_LOST_RESPONSE, Overloaded),
    ),
    ("DELETE", _RESPONSE): Description("Remove a response.", answer=Deleted, errors=_LOST_RESPONSE),
    ("POST", _RESPONSE + "/cancel"): Description("End a response.", answer=_RESPONSE_OBJECT, errors=_LOST_RESPONSE),
    ("GET", _RESPONSE + "/input_items"): Description(
        "List what a response was made from.",
        answer=_RESPONSE_ITEMS,
        query=PageQuery,
        errors=(*_LOST_RESPONSE, ItemNotFound),
    ),
}
_CONVERSATION: Final = "/v1/conversations/{conversation_id}"
_ITEM: Final = _CONVERSATION + "/items/{item_id}"
_LOST_ITEM: Final = (ConversationNotFound, ItemNotFound, InvalidRequest, UnsupportedParameter)
_CONVERSATIONS: Final[Descriptions] = {
    ("POST", "/v1/conversations"): Description(
        "Begin a conversation.", NewConversation, _CONVERSATION_OBJECT, errors=_LOST_ITEM
    ),
    ("GET", _CONVERSATION): Description("Tell of a conversation.", answer=_CONVERSATION_OBJECT, errors=_LOST_ITEM),
    ("POST", _CONVERSATION): Description(
        "Change a conversation.", UpdatedConversation, _CONVERSATION_OBJECT, errors=_LOST_ITEM
    ),
    ("DELETE", _CONVERSATION): Description("Remove a conversation.", answer=Deleted, errors=_LOST_ITEM),
    ("GET", _CONVERSATION + "/items"): Description(
        "List a conversation's items.", answer=_CONVERSATION_ITEMS, query=PageQuery, errors=_LOST_ITEM
    ),
    ("POST", _CONVERSATION + "/items"): Description("Add items.", NewItems, _CONVERSATION_ITEMS, errors=_LOST_ITEM),
    ("GET", _ITEM): Description("Show an item.", answer=_CONVERSATION_ITEM, errors=_LOST_ITEM),
    ("DELETE", _ITEM): Description("Remove an item.", answer=_CONVERSATION_OBJECT, errors=_LOST_ITEM),
}
_FILE: Final = "/v1/files/{file_id}"
_LOST_FILE: Final = (FileMissing, ContentUnavailable, Overloaded)
_FILES: Final[Descriptions] = {
    ("POST", "/v1/files"): Description(
        "Take a file.", FileForm, _FILE_OBJECT, media=FORM, errors=(StorageFull, ContentUnavailable, Overloaded)
    ),
    ("GET", "/v1/files"): Description(
        "List the files.",
        answer=_FILE_LIST,
        query=FileQuery,
        errors=(InvalidRequest, FileMissing, Overloaded),
    ),
    ("GET", _FILE): Description("Tell of a file.", answer=_FILE_OBJECT, errors=_LOST_FILE),
    ("DELETE", _FILE): Description("Remove a file.", answer=Deleted, errors=_LOST_FILE),
    ("GET", _FILE + "/content"): Description("Give out a file.", answer_media=OCTETS, errors=_LOST_FILE),
}
_BATCH: Final = "/v1/batches/{batch_id}"
_LOST_BATCH: Final = (BatchMissing, Overloaded)
_BATCHES: Final[Descriptions] = {
    ("POST", "/v1/batches"): Description(
        "Have the requests of a file answered when there is room.",
        BatchBody,
        _BATCH_OBJECT,
        errors=(*_LOST_FILE, Conflict),
    ),
    ("GET", "/v1/batches"): Description(
        "List the batches.",
        answer=_BATCH_LIST,
        query=BatchQuery,
        errors=(InvalidRequest, *_LOST_BATCH),
    ),
    ("GET", _BATCH): Description("Tell of a batch.", answer=_BATCH_OBJECT, errors=_LOST_BATCH),
    ("POST", _BATCH + "/cancel"): Description("End a batch.", answer=_BATCH_OBJECT, errors=(*_LOST_BATCH, Conflict)),
}
#: By method and path; a test checks that no route lacks one.
DESCRIPTIONS: Final[Descriptions] = {**_MODELS, **_MESSAGES, **_RESPONSES, **_CONVERSATIONS, **_FILES, **_BATCHES}
