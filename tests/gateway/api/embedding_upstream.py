"""An upstream that makes embeddings of what it is asked: of each input its length and a number of its own."""

import base64
import struct
from typing import Any

import orjson

from tests.upstreams import Caller, Heard, Upstream, plain, upstream

__all__ = ["Embedder", "upstream"]


class Embedder:
    """How a fake upstream behaves. `written` is the form that it writes, whatever is asked; None: as asked."""

    def __init__(self, fake: Upstream, *, written: str | None = None, dimensions: int = 3) -> None:
        self.written = written
        self.dimensions = dimensions
        self.asked: list[dict[str, Any]] = []
        #: Changes an answer before it goes.
        self.spoils: Any = lambda answer: answer
        self.backwards = False
        fake.behaves = self

    def vector(self, given: Any) -> list[float]:
        return [float(len(given)), *([0.5] * (self.dimensions - 1))]

    async def __call__(self, caller: Caller, heard: Heard) -> object:
        assert heard.target == "/v1/embeddings"
        body = orjson.loads(heard.body)
        self.asked.append(body)
        inputs = body["input"]
        if isinstance(inputs, str) or isinstance(inputs[0], int):
            inputs = [inputs]
        written = self.written or body.get("encoding_format") or "float"
        data = []
        for index, given in enumerate(inputs):
            vector: Any = self.vector(given)
            if written == "base64":
                vector = base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()
            data.append({"object": "embedding", "index": index, "embedding": vector})
        if self.backwards:
            data.reverse()
        usage = {"prompt_tokens": sum(map(len, inputs)), "total_tokens": sum(map(len, inputs))}
        answer = self.spoils({"object": "list", "data": data, "model": "theirs", "usage": usage})
        await caller.say(answer if isinstance(answer, bytes) else plain(orjson.dumps(answer)))
        return True
