"""Calls of libraries that name a model: which argument has it, and what the call makes of it.

Names are those of the libraries' documentation (transformers, huggingface_hub, sentence-transformers, vLLM, SGLang,
TensorRT-LLM, llama-cpp-python, openai, anthropic, LiteLLM, LangChain, LlamaIndex, Haystack, Ollama, PydanticAI, DSPy,
CrewAI).
"""

from dataclasses import dataclass
from typing import Final

from gateway.scan.finding import Task

_MODEL: Final = ("model", "model_name", "model_id")
_URLS: Final = (
    "base_url",
    "api_base",
    "openai_api_base",
    "api_base_url",
    "azure_endpoint",
    "openai_api_base_url",
    "endpoint",
)
_KEYS: Final = ("api_key", "openai_api_key", "anthropic_api_key", "key", "token", "google_api_key")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallRule:
    """What a call of this name says. `source`: `hub`, `asked`, `prefixed` (the id may begin with a provider), `ollama`.

    With `roots` the name must have been imported from one of these packages; `position` is that of the argument.
    """

    roots: tuple[str, ...] = ()
    keywords: tuple[str, ...] = _MODEL
    position: int | None = None
    source: str = "asked"
    provider: str = ""
    task: Task | None = None
    engine: str = ""
    urls: tuple[str, ...] = _URLS
    keys: tuple[str, ...] = _KEYS


_HUB_NAMES: Final = (
    "pretrained_model_name_or_path",
    "model_name_or_path",
    "model_name",
    "model_id",
    "model",
    "repo_id",
)
_GENERATE, _EMBED, _RERANK = Task.GENERATE, Task.EMBED, Task.RERANK


def _asked(provider: str, *roots: str, position: int | None = None, task: Task | None = None) -> CallRule:
    return CallRule(
        roots=roots,
        keywords=(*_MODEL, "deployment_name", "azure_deployment"),
        position=position,
        provider=provider,
        task=task,
    )


def _hub(*roots: str, position: int | None = 0, task: Task | None = None, engine: str = "") -> CallRule:
    return CallRule(
        roots=roots,
        keywords=_HUB_NAMES,
        position=position,
        source="hub",
        task=task,
        engine=engine,
        provider="huggingface",
    )


def _prefixed(*roots: str, position: int | None = None, provider: str = "", task: Task | None = None) -> CallRule:
    return CallRule(roots=roots, position=position, source="prefixed", provider=provider, task=task)


_OLLAMA: Final = CallRule(position=None, source="ollama", provider="ollama", engine="ollama", task=_GENERATE)
_LANGCHAIN: Final = ("langchain", "langchain_openai", "langchain_community")

#: The last part of a call's name -> the rules, of which the first one whose package fits holds.
CALLS: Final[dict[str, tuple[CallRule, ...]]] = {
    # Weights, by the hub's id or a path.
    "from_pretrained": (_hub(),),
    "from_quantized": (_hub(task=_GENERATE),),
    "from_model_id": (_hub(task=_GENERATE),),
    "pipeline": (
        CallRule(
            roots=("transformers", "optimum"), keywords=("model",), position=1, source="hub", provider="huggingface"
        ),
    ),
    "snapshot_download": (_hub(),),
    "hf_hub_download": (_hub(),),
    "SentenceTransformer": (_hub(task=_EMBED),),
    "SparseEncoder": (_hub(task=_EMBED),),
    "CrossEncoder": (_hub(task=_RERANK),),
    "FlagModel": (_hub(task=_EMBED),),
    "BGEM3FlagModel": (_hub(task=_EMBED),),
    "FlagReranker": (_hub(task=_RERANK),),
    "TextEmbedding": (_hub("fastembed", task=_EMBED),),
    "HuggingFaceEmbeddings": (_hub(position=None, task=_EMBED),),
    "HuggingFaceBgeEmbeddings": (_hub(position=None, task=_EMBED),),
    "HuggingFaceInstructEmbeddings": (_hub(position=None, task=_EMBED),),
    "HuggingFaceEmbedding": (_hub(task=_EMBED),),
    "SentenceTransformersTextEmbedder": (_hub(task=_EMBED),),
    "SentenceTransformersDocumentEmbedder": (_hub(task=_EMBED),),
    "SentenceTransformerEmbeddingFunction": (_hub(task=_EMBED),),
    "TransformersSimilarityRanker": (_hub(task=_RERANK),),
    "SentenceTransformerRerank": (_hub(position=None, task=_RERANK),),
    "HuggingFaceCrossEncoder": (_hub(position=None, task=_RERANK),),
    "HuggingFaceLLM": (_hub(position=None, task=_GENERATE),),
    "HuggingFaceLocalGenerator": (_hub(task=_GENERATE),),
    "HuggingFaceLocalChatGenerator": (_hub(task=_GENERATE),),
    "HuggingFaceEndpoint": (_hub(position=None, task=_GENERATE),),
    "HuggingFaceHub": (_hub(position=None, task=_GENERATE),),
    "HuggingFaceInferenceAPI": (_hub(position=None, task=_GENERATE),),
    "InferenceClient": (_hub("huggingface_hub"),),
    "AsyncInferenceClient": (_hub("huggingface_hub"),),
    "TransformersModel": (_hub("smolagents", task=_GENERATE),),
    "InferenceClientModel": (_hub("smolagents", task=_GENERATE),),
    # Engines in the application's own process.
    "LLM": (
        _hub("vllm", task=_GENERATE, engine="vllm"),
        _hub("tensorrt_llm", task=_GENERATE, engine="trtllm"),
        _prefixed("crewai", position=0),
    ),
    "EngineArgs": (_hub("vllm", task=_GENERATE, engine="vllm"),),
    "AsyncEngineArgs": (_hub("vllm", task=_GENERATE, engine="vllm"),),
    "VLLM": (_hub(task=_GENERATE, engine="vllm"),),
    "Vllm": (_hub(task=_GENERATE, engine="vllm"),),
    "Engine": (
        CallRule(
            roots=("sglang",),
            keywords=("model_path",),
            source="hub",
            provider="huggingface",
            task=_GENERATE,
            engine="sglang",
        ),
    ),
    "Llama": (
        CallRule(
            roots=("llama_cpp",), keywords=("model_path",), position=0, source="hub", task=_GENERATE, engine="llama.cpp"
        ),
    ),
    "LlamaCpp": (CallRule(keywords=("model_path",), position=None, source="hub", task=_GENERATE, engine="llama.cpp"),),
    "LlamaCPP": (
        CallRule(keywords=("model_path", "model_url"), position=None, source="hub", task=_GENERATE, engine="llama.cpp"),
    ),
    # Clients of APIs, and the calls that name the model.
    "create": (_asked(""),),
    "parse": (_asked(""),),
    "stream": (_asked(""),),
    "with_raw_response": (_asked(""),),
    "generate_content": (_asked("gemini"),),
    "generate_content_stream": (_asked("gemini"),),
    "embed_content": (_asked("gemini", task=_EMBED),),
    "count_tokens": (_asked("anthropic"),),
    "invoke_model": (CallRule(keywords=("modelId",), provider="bedrock"),),
    "converse": (CallRule(keywords=("modelId",), provider="bedrock"),),
    "converse_stream": (CallRule(keywords=("modelId",), provider="bedrock"),),
    "ChatOpenAI": (_asked("openai"),),
    "OpenAI": (_asked("openai"),),
    "AsyncOpenAI": (_asked("openai"),),
    "OpenAIEmbeddings": (_asked("openai", task=_EMBED),),
    "AzureOpenAI": (_asked("azure"),),
    "AsyncAzureOpenAI": (_asked("azure"),),
    "AzureChatOpenAI": (_asked("azure"),),
    "AzureOpenAIEmbeddings": (_asked("azure", task=_EMBED),),
    "OpenAIEmbedding": (_asked("openai", task=_EMBED),),
    "OpenAIEmbeddingFunction": (_asked("openai", task=_EMBED),),
    "OpenAILike": (_asked(""),),
    "OpenAIGenerator": (_asked("openai"),),
    "OpenAIChatGenerator": (_asked("openai"),),
    "OpenAITextEmbedder": (_asked("openai", task=_EMBED),),
    "OpenAIDocumentEmbedder": (_asked("openai", task=_EMBED),),
    "OpenAIModel": (_asked("openai", position=0),),
    "OpenAIChatModel": (_asked("openai", position=0),),
    "OpenAIResponsesModel": (_asked("openai", position=0),),
    "OpenAIServerModel": (_asked("openai", position=0),),
    "OpenAIProvider": (_asked(""),),
    "VLLMOpenAI": (_asked(""),),
    "Anthropic": (_asked("anthropic"),),
    "AsyncAnthropic": (_asked("anthropic"),),
    "ChatAnthropic": (_asked("anthropic"),),
    "AnthropicChatGenerator": (_asked("anthropic"),),
    "AnthropicModel": (_asked("anthropic", position=0),),
    "ChatGoogleGenerativeAI": (_asked("gemini"),),
    "GoogleGenerativeAIEmbeddings": (_asked("gemini", task=_EMBED),),
    "GenerativeModel": (_asked("gemini", position=0),),
    "GoogleModel": (_asked("gemini", position=0),),
    "Gemini": (_asked("gemini", "llama_index"),),
    "ChatMistralAI": (_asked("mistral"),),
    "MistralAIEmbeddings": (_asked("mistral", task=_EMBED),),
    "complete": (_asked("mistral"),),
    "ChatGroq": (_asked("groq"),),
    "Groq": (_asked("groq"),),
    "AsyncGroq": (_asked("groq"),),
    "ChatCohere": (_asked("cohere"),),
    "CohereEmbeddings": (_asked("cohere", task=_EMBED),),
    "CohereRerank": (_asked("cohere", task=_RERANK),),
    "ChatDeepSeek": (_asked("deepseek"),),
    "ChatXAI": (_asked("xai"),),
    "ChatTogether": (_asked("together"),),
    "Together": (_asked("together"),),
    "ChatFireworks": (_asked("fireworks"),),
    "ChatPerplexity": (_asked("perplexity"),),
    "ChatBedrock": (_asked("bedrock"),),
    "ChatBedrockConverse": (_asked("bedrock"),),
    "ChatVertexAI": (_asked("vertex"),),
    "VoyageAIEmbeddings": (_asked("voyage", task=_EMBED),),
    # Ids that begin with the provider.
    "completion": (_prefixed("litellm"),),
    "acompletion": (_prefixed("litellm"),),
    "text_completion": (_prefixed("litellm"),),
    "embedding": (_prefixed("litellm", task=_EMBED),),
    "aembedding": (_prefixed("litellm", task=_EMBED),),
    "rerank": (_prefixed("litellm", "cohere", task=_RERANK),),
    "responses": (_prefixed("litellm"),),
    "ChatLiteLLM": (_prefixed(),),
    "LiteLLM": (_prefixed(),),
    "LiteLLMModel": (_prefixed(position=0),),
    "LiteLlm": (_prefixed(position=0),),
    "LM": (_prefixed("dspy", position=0),),
    "init_chat_model": (_prefixed(position=0),),
    "init_embeddings": (_prefixed(position=0, task=_EMBED),),
    "Agent": (_prefixed("pydantic_ai", position=0), _prefixed()),
    "from_provider": (_prefixed("instructor", position=0),),
    "create_react_agent": (_prefixed(),),
    "create_agent": (_prefixed(),),
    # Ollama, by the names of its library.
    "ChatOllama": (_OLLAMA,),
    "Ollama": (_OLLAMA,),
    "OllamaLLM": (_OLLAMA,),
    "OllamaEmbeddings": (CallRule(position=None, source="ollama", provider="ollama", engine="ollama", task=_EMBED),),
    "OllamaEmbedding": (CallRule(position=None, source="ollama", provider="ollama", engine="ollama", task=_EMBED),),
    "OllamaGenerator": (_OLLAMA,),
    "OllamaChatGenerator": (_OLLAMA,),
    "chat": (CallRule(roots=("ollama",), source="ollama", provider="ollama", engine="ollama", task=_GENERATE),),
    "generate": (CallRule(roots=("ollama",), source="ollama", provider="ollama", engine="ollama", task=_GENERATE),),
}

#: Classes of clients -> the provider that they ask unless told otherwise; empty: any.
CLIENTS: Final = {
    "OpenAI": "openai", "AsyncOpenAI": "openai", "ChatOpenAI": "openai", "OpenAIEmbeddings": "openai",
    "AzureOpenAI": "azure", "AsyncAzureOpenAI": "azure", "AzureChatOpenAI": "azure", "OpenAIProvider": "openai",
    "Anthropic": "anthropic", "AsyncAnthropic": "anthropic", "ChatAnthropic": "anthropic",
    "Groq": "groq", "AsyncGroq": "groq", "Mistral": "mistral", "MistralClient": "mistral", "Together": "together",
    "OpenAILike": "", "ChatOllama": "ollama", "OllamaLLM": "ollama", "Ollama": "ollama",
    "InferenceClient": "huggingface",
    "OpenAIServerModel": "openai", "VLLMOpenAI": "",
}  # fmt: skip

#: Arguments that hold an engine's settings, by what they are called in a proposal.
OPTIONS: Final = {
    "tensor_parallel_size": "tp",
    "tp_size": "tp",
    "pipeline_parallel_size": "pp",
    "max_model_len": "context",
    "max_seq_len": "context",
    "context_length": "context",
    "n_ctx": "context",
    "quantization": "quantisation",
    "load_in_4bit": "quantisation",
    "load_in_8bit": "quantisation",
    "kv_cache_dtype": "kv",
}

#: The beginning of a class's name -> what its models are for; the first that fits holds.
CLASSES: Final = (
    (("AutoTokenizer", "AutoProcessor", "AutoConfig", "AutoFeatureExtractor", "AutoImageProcessor"), "part"),
    (("AutoModelForSequenceClassification", "AutoModelForTokenClassification"), Task.CLASSIFY),
    (("AutoModelForQuestionAnswering", "AutoModelForMaskedLM"), Task.CLASSIFY),
    (
        ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForImageTextToText", "AutoModelForVision2Seq"),
        _GENERATE,
    ),
    (("AutoGPTQ", "AutoAWQ", "FastLanguageModel", "FastModel", "Llama", "GPT2LM"), _GENERATE),
    (("AutoModelForSpeech", "AutoModelForTextToSpe", "Whisper", "Wav2Vec2", "SpeechT5", "Bark", "Vits"), Task.SPEECH),
    (("Diffusion", "StableDiffusion", "Flux", "AutoPipelineFor", "ControlNet", "AutoencoderKL", "UNet"), Task.IMAGE),
    (("AutoModelForImage", "AutoModelForObject", "CLIP", "ViT", "Blip", "Detr", "Sam"), Task.IMAGE),
)

#: The tasks of transformers' pipelines.
PIPELINES: Final = {
    "text-generation": _GENERATE,
    "text2text-generation": _GENERATE,
    "conversational": _GENERATE,
    "summarization": _GENERATE,
    "translation": _GENERATE,
    "image-text-to-text": _GENERATE,
    "feature-extraction": _EMBED,
    "sentence-similarity": _EMBED,
    "text-ranking": _RERANK,
    "text-classification": Task.CLASSIFY,
    "sentiment-analysis": Task.CLASSIFY,
    "zero-shot-classification": Task.CLASSIFY,
    "token-classification": Task.CLASSIFY,
    "ner": Task.CLASSIFY,
    "question-answering": Task.CLASSIFY,
    "fill-mask": Task.CLASSIFY,
    "automatic-speech-recognition": Task.SPEECH,
    "text-to-speech": Task.SPEECH,
    "text-to-audio": Task.SPEECH,
    "image-classification": Task.IMAGE,
    "object-detection": Task.IMAGE,
    "image-segmentation": Task.IMAGE,
    "image-to-text": Task.IMAGE,
    "depth-estimation": Task.IMAGE,
    "text-to-image": Task.IMAGE,
}
