"""A tiny Llama with random weights and a tokenizer of its own, made on the spot: an engine's work without its size.

usage: checkpoint.py FOLDER [SEED]   (needs torch and transformers; run by the environment of `make test-real`)
"""

import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

CORPUS = (
    "the quick brown fox jumps over the lazy dog",
    "water runs down the pipe and turns the wheel",
    "a gate is raised, a turbine hums, a lamp is lit",
)
TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|>{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
SPECIALS = ("<|begin|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>")


def main() -> None:
    folder, seed = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 0
    torch.manual_seed(seed)
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, special_tokens=list(SPECIALS), initial_alphabet=alphabet)
    tokenizer.train_from_iterator(CORPUS, trainer)
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token=SPECIALS[0], eos_token=SPECIALS[1])
    wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        bos_token_id=0,
        eos_token_id=1,
    )
    model = LlamaForCausalLM(config)
    # Random weights would end an answer at any moment: this one goes on until its limit.
    model.generation_config.suppress_tokens = [1]
    model.save_pretrained(folder)


if __name__ == "__main__":
    main()
