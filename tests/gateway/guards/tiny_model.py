"""A classifier as small as can be: a sum of what each token's row of a random table says, and its tokenizer."""

import json
import random
from pathlib import Path
from typing import Any

import onnx
from onnx import TensorProto, helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

LABELS = ("BENIGN", "INJECTION", "JAILBREAK")
WORDS = ("[UNK]", "[PAD]", "[CLS]", "[SEP]", "attack", "persona", "hello", "world", ".")
#: A token of these makes its label all but certain.
_TELLING = {"attack": 1, "persona": 2}


def write_model(folder: Path, *, inputs: tuple[str, ...] = ("input_ids", "attention_mask"), outputs: int = 3) -> Path:
    """A folder with all files of such a model."""
    folder.mkdir(exist_ok=True)
    onnx.save(_model(inputs, outputs), folder / "model.onnx")
    tokenizer = Tokenizer(WordLevel({word: number for number, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", WORDS.index("[CLS]")), ("[SEP]", WORDS.index("[SEP]"))]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    labels = {str(number): name for number, name in enumerate(LABELS)}
    config = {"id2label": labels, "pad_token_id": WORDS.index("[PAD]")}
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def _model(inputs: tuple[str, ...], outputs: int) -> Any:
    chance = random.Random(7)
    table = [[chance.uniform(-0.01, 0.01) for _ in range(outputs)] for _ in WORDS]
    for row in table:
        row[0] += 0.1
    for word, label in _TELLING.items():
        if label < outputs:
            table[WORDS.index(word)][label] = 50.0
    # A model that does not heed its mask would be told from padding.
    table[WORDS.index("[PAD]")][-1] = 1000.0
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["mask", "last"], ["column"]),
        helper.make_node("Mul", ["rows", "column"], ["counted"]),
        helper.make_node("ReduceSum", ["counted", "tokens"], ["logits"], keepdims=0),
    ]
    if "attention_mask" not in inputs:
        nodes = [helper.make_node("Gather", ["table", inputs[0]], ["rows"]), *nodes[4:]]
        nodes[1].input[0] = "rows"
    graph = helper.make_graph(
        nodes,
        "tiny",
        [helper.make_tensor_value_info(name, TensorProto.INT64, ["texts", "tokens"]) for name in inputs],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["texts", outputs])],
        [
            helper.make_tensor(
                "table", TensorProto.FLOAT, [len(WORDS), outputs], [each for row in table for each in row]
            ),
            helper.make_tensor("last", TensorProto.INT64, [1], [2]),
            helper.make_tensor("tokens", TensorProto.INT64, [1], [1]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
