"""What the document says of each route."""

from typing import Final

from gateway.api.anthropic.messages_body import MessagesBody, PromptBody
from gateway.api.files.batch_endpoints import BatchBody
from gateway.api.openai.chat import ChatBody
from gateway.api.openai.completions import CompletionBody
from gateway.api.openai.embeddings import EmbeddingsBody
from gateway.api.openai.moderations import ModerationBody
from gateway.api.openai.rerank import RerankBody, ScoreBody
from gateway.api.openai.tokenize import DetokenizeBody, TokenizeBody
from gateway.api.openapi.answers import (
    ApiDocument,
    ChatChunk,
    ChatCompletion,
    Completion,
    Health,
    Model,
    Models,
    Moderation,
)
from gateway.api.openapi.description import ASKING, FORM, OCTETS, Description
from gateway.api.openapi.document import Descriptions
from gateway.api.openapi.kept_answers import (
    Batch,
    Batches,
    BatchQuery,
    Conversation,
    Deleted,
    File,
    FileForm,
    FileQuery,
    Files,
    InputTokens,
    Item,
    Items,
    NewConversation,
    NewItems,
    PageQuery,
    Response,
    ResponseEvent,
    ResponseQuery,
    UpdatedConversation,
)
from gateway.api.openapi.message_answers import AnthropicError, MessageAnswer, MessageEvent, TokenCount
from gateway.api.openapi.vector_answers import Embeddings, Ranking, Scores, Text, Tokens
from gateway.api.responses.responses_body import CreateBody, Prompting
from protos.errors import (
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

_NO_MODEL: Final = (ModelNotFound, PermissionDenied)
_MODELS: Final[Descriptions] = {
    ("POST", "/v1/chat/completions"): Description(
        "Answer a conversation.", ChatBody, ChatCompletion, ChatChunk, errors=ASKING, done=True
    ),
    ("POST", "/v1/completions"): Description(
        "Go on with a text.", CompletionBody, Completion, Completion, errors=ASKING, done=True
    ),
    ("POST", "/v1/embeddings"): Description("Turn texts into vectors.", EmbeddingsBody, Embeddings, errors=ASKING),
    ("POST", "/v1/rerank"): Description("Order documents by a query.", RerankBody, Ranking, errors=ASKING),
    ("POST", "/v1/score"): Description("Tell how alike texts are.", ScoreBody, Scores, errors=ASKING),
    ("POST", "/v1/tokenize"): Description("Turn a text into token ids.", TokenizeBody, Tokens, errors=ASKING),
    ("POST", "/v1/detokenize"): Description("Turn token ids into a text.", DetokenizeBody, Text, errors=ASKING),
    ("GET", "/v1/models"): Description("List the models that the key may use.", answer=Models),
    ("GET", "/v1/models/{model:path}"): Description("Tell of one model.", answer=Model, errors=_NO_MODEL),
    ("POST", "/v1/moderations"): Description(
        "Have the configured filters look at texts.", ModerationBody, Moderation, errors=ASKING
    ),
    ("GET", "/healthz"): Description("Whether this process answers.", answer=Health, tag="service", public=True),
    ("GET", "/readyz"): Description(
        "Whether it could serve a request now.", answer=Health, tag="service", public=True, also=(503,)
    ),
    ("GET", "/openapi.json"): Description("This document.", answer=ApiDocument, tag="service", public=True),
}
_MESSAGES: Final[Descriptions] = {
    ("POST", "/v1/messages"): Description(
        "Answer a conversation.", MessagesBody, MessageAnswer, MessageEvent, errors=ASKING, error=AnthropicError
    ),
    ("POST", "/v1/messages/count_tokens"): Description(
        "Count a prompt's tokens.", PromptBody, TokenCount, errors=ASKING, error=AnthropicError
    ),
}
_RESPONSE: Final = "/v1/responses/{response_id}"
_LOST_RESPONSE: Final = (ResponseNotFound, InvalidRequest, UnsupportedParameter)
_RESPONSES: Final[Descriptions] = {
    ("POST", "/v1/responses"): Description(
        "Answer, and keep the answer.",
        CreateBody,
        Response,
        ResponseEvent,
        errors=(*ASKING, PreviousResponseNotFound, ConversationNotFound),
    ),
    ("POST", "/v1/responses/input_tokens"): Description(
        "Count a prompt's tokens.",
        Prompting,
        InputTokens,
        errors=(*ASKING, PreviousResponseNotFound, ConversationNotFound),
    ),
    ("GET", _RESPONSE): Description(
        "Show a response, or follow one.",
        answer=Response,
        event=ResponseEvent,
        query=ResponseQuery,
        errors=(*_LOST_RESPONSE, Overloaded),
    ),
    ("DELETE", _RESPONSE): Description("Remove a response.", answer=Deleted, errors=_LOST_RESPONSE),
    ("POST", _RESPONSE + "/cancel"): Description("End a response.", answer=Response, errors=_LOST_RESPONSE),
    ("GET", _RESPONSE + "/input_items"): Description(
        "List what a response was made from.", answer=Items, query=PageQuery, errors=(*_LOST_RESPONSE, ItemNotFound)
    ),
}
_CONVERSATION: Final = "/v1/conversations/{conversation_id}"
_ITEM: Final = _CONVERSATION + "/items/{item_id}"
_LOST_ITEM: Final = (ConversationNotFound, ItemNotFound, InvalidRequest, UnsupportedParameter)
_CONVERSATIONS: Final[Descriptions] = {
    ("POST", "/v1/conversations"): Description(
        "Begin a conversation.", NewConversation, Conversation, errors=_LOST_ITEM
    ),
    ("GET", _CONVERSATION): Description("Tell of a conversation.", answer=Conversation, errors=_LOST_ITEM),
    ("POST", _CONVERSATION): Description(
        "Change a conversation.", UpdatedConversation, Conversation, errors=_LOST_ITEM
    ),
    ("DELETE", _CONVERSATION): Description("Remove a conversation.", answer=Deleted, errors=_LOST_ITEM),
    ("GET", _CONVERSATION + "/items"): Description(
        "List a conversation's items.", answer=Items, query=PageQuery, errors=_LOST_ITEM
    ),
    ("POST", _CONVERSATION + "/items"): Description("Add items.", NewItems, Items, errors=_LOST_ITEM),
    ("GET", _ITEM): Description("Show an item.", answer=Item, errors=_LOST_ITEM),
    ("DELETE", _ITEM): Description("Remove an item.", answer=Conversation, errors=_LOST_ITEM),
}
_FILE: Final = "/v1/files/{file_id}"
_LOST_FILE: Final = (FileMissing, ContentUnavailable, Overloaded)
_FILES: Final[Descriptions] = {
    ("POST", "/v1/files"): Description(
        "Take a file.", FileForm, File, media=FORM, errors=(StorageFull, ContentUnavailable, Overloaded)
    ),
    ("GET", "/v1/files"): Description(
        "List the files.", answer=Files, query=FileQuery, errors=(InvalidRequest, FileMissing, Overloaded)
    ),
    ("GET", _FILE): Description("Tell of a file.", answer=File, errors=_LOST_FILE),
    ("DELETE", _FILE): Description("Remove a file.", answer=Deleted, errors=_LOST_FILE),
    ("GET", _FILE + "/content"): Description("Give out a file.", answer_media=OCTETS, errors=_LOST_FILE),
}
_BATCH: Final = "/v1/batches/{batch_id}"
_LOST_BATCH: Final = (BatchMissing, Overloaded)
_BATCHES: Final[Descriptions] = {
    ("POST", "/v1/batches"): Description(
        "Have the requests of a file answered when there is room.", BatchBody, Batch, errors=(*_LOST_FILE, Conflict)
    ),
    ("GET", "/v1/batches"): Description(
        "List the batches.", answer=Batches, query=BatchQuery, errors=(InvalidRequest, *_LOST_BATCH)
    ),
    ("GET", _BATCH): Description("Tell of a batch.", answer=Batch, errors=_LOST_BATCH),
    ("POST", _BATCH + "/cancel"): Description("End a batch.", answer=Batch, errors=(*_LOST_BATCH, Conflict)),
}
#: By method and path; tests see to it that no route lacks one.
DESCRIPTIONS: Final[Descriptions] = {**_MODELS, **_MESSAGES, **_RESPONSES, **_CONVERSATIONS, **_FILES, **_BATCHES}
