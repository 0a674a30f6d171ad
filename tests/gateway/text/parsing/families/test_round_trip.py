import pytest

from gateway.text.parsing.families import hermes, pythonic
from gateway.text.parsing.families.element_calls import QWEN3_CODER
from gateway.text.parsing.families.round_trip import reads
from gateway.text.parsing.tool_format import ToolFormat

OBJECT = '{"name": "probe_call", "arguments": {"probe_key": "probe value", "probe_flag": true}}'
ELEMENTS = (
    "<function=probe_call>\n<parameter=probe_key>\nprobe value\n</parameter>\n"
    "<parameter=probe_flag>\n{}\n</parameter>\n</function>"
)


@pytest.mark.parametrize(
    ("form", "written", "expected"),
    [
        (hermes.FORMAT, f"\n<tool_call>\n{OBJECT}\n</tool_call><|im_end|>\n", True),
        (hermes.FORMAT, f"<think>\n\n</think>\n<tool_call>{OBJECT}", True),
        (hermes.FORMAT, f"<|call|><tool_call>{OBJECT}", True),
        # Another family's tag would be left in the text.
        (hermes.FORMAT, f"<calls>\n<tool_call>{OBJECT}</tool_call>\n</calls>", False),
        (hermes.FORMAT, f"<tool_calls>[{OBJECT}]</tool_calls>", False),
        (hermes.FORMAT, f"<tool_call>{OBJECT}{OBJECT}</tool_call>", False),
        (hermes.FORMAT, f"<tool_call>{OBJECT.replace('true', 'false')}</tool_call>", False),
        (hermes.FORMAT, f"<tool_call>{OBJECT[:-10]}", False),
        (hermes.FORMAT, "", False),
        (QWEN3_CODER, ELEMENTS.format("true"), True),
        (QWEN3_CODER, f"<tool_call>{ELEMENTS.format('True')}</tool_call>", True),
        (QWEN3_CODER, ELEMENTS.format("yes"), False),
        (pythonic.FORMAT, "[probe_call(probe_key='probe value', probe_flag=True)]<|eot|>", True),
        (pythonic.FORMAT, f"<tool_call>{OBJECT}", False),
    ],
)
def test_a_parser_reads_what_was_written(form: ToolFormat, written: str, expected: bool) -> None:
    assert reads(form.new_parser, written) is expected
