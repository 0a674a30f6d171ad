"""What records have for drift: only where a model has it, and nothing is imported where none has."""

import subprocess
import sys

from replicas.engine import Engine
from replicas.engines.answer_lengths import Corpus
from tests.asgi import gateway_of
from tests.gateway.telemetry.test_answer_record import told, watched
from tests.harness import engine_of, tekken

ASKED = "Wie koche ich Reis mit Bohnen in einer kleinen Küche, bitte?"


def says(sentence: str) -> Engine:
    tokenizer = tekken().tokenizer
    return engine_of(corpus=Corpus((tuple(tokenizer.encode(sentence, special=False)),), eos=min(tokenizer.eos_ids)))


async def test_a_language_and_a_refusal(store_url: str) -> None:
    german = {"role": "user", "content": [{"type": "text", "text": ASKED}]}
    english = {"role": "user", "content": "Please tell me how to cook rice and beans."}
    engine = says("I'm sorry, but I can't help with that. ")
    async with gateway_of(store_url, engine, model_fields={"drift": {}}) as client:
        kept = watched(client)
        for messages, language in (
            ([german], "de"),
            ([german, {"role": "assistant", "content": "Of course."}, english], "en"),
        ):
            assert (await client.chat(messages=messages, max_tokens=20)).status == 200
            record = told(client, kept)
            assert (record.language, record.refused, record.tools) == (language, True, 0)


async def test_nothing_is_noted_without_drift(store_url: str) -> None:
    async with gateway_of(store_url, says("I'm sorry, but I can't help with that. ")) as client:
        kept = watched(client)
        await client.chat(messages=[{"role": "user", "content": ASKED}], max_tokens=20)
        record = told(client, kept)
        assert (record.language, record.refused) == ("", False)


def test_nothing_is_imported_without_drift() -> None:
    code = (
        "import sys, gateway.server.app, gateway.server.gateway; "
        "print([name for name in sys.modules if name.startswith(('pycld2', 'gateway.rollouts.drift'))])"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"
