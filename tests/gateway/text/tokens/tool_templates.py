"""Small templates in the styles of families that call tools: each has one habit that others lack."""

#: Tools and calls as JSON; null and an empty text are the same to it.
HERMES = r"""
{%- if tools %}
    {{- '<|im_start|>system\n' }}
    {%- if messages[0].role == 'system' %}{{- messages[0].content + '\n\n' }}{%- endif %}
    {{- '# Tools\n<tools>' }}
    {%- for tool in tools %}{{- '\n' }}{{- tool | tojson }}{%- endfor %}
    {{- '\n</tools>\nAnswer with <tool_call>\n{"name": <name>, "arguments": <object>}\n</tool_call><|im_end|>\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'user' %}
        {{- '<|im_start|>user\n' + message.content + '<|im_end|>\n' }}
    {%- elif message.role == 'assistant' %}
        {{- '<|im_start|>' + message.role }}
        {%- if message.reasoning_content is string %}
            {{- '\n<think>\n' + message.reasoning_content + '\n</think>' }}
        {%- endif %}
        {%- if message.content %}{{- '\n' + message.content }}{%- endif %}
        {%- for tool_call in message.tool_calls %}
            {%- if tool_call.function %}{%- set tool_call = tool_call.function %}{%- endif %}
            {{- '\n<tool_call>\n{"name": "' + tool_call.name + '", "arguments": ' }}
            {{- tool_call.arguments | tojson }}
            {{- '}\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\n' }}
    {%- elif message.role == 'tool' %}
        {{- '<|im_start|>user\n<tool_response>\n' + message.content + '\n</tool_response><|im_end|>\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}{{- '<think>\n\n</think>\n\n' }}{%- endif %}
{%- endif %}"""

#: Defines what it was not given, refuses two calls at once, and joins whatever content there is.
LLAMA = r"""{{- bos_token }}
{%- if not date_string is defined %}{%- set date_string = '26 Jul 2024' %}{%- endif %}
{%- if not tools is defined %}{%- set tools = none %}{%- endif %}
{%- if messages[0]['role'] == 'system' %}
    {%- set system_message = messages[0]['content'] | trim %}{%- set messages = messages[1:] %}
{%- else %}{%- set system_message = '' %}{%- endif %}
{{- '<|start_header_id|>system<|end_header_id|>\n\nToday: ' + date_string + '\n' + system_message + '<|eot_id|>' }}
{%- if tools is not none %}
    {{- '<|start_header_id|>user<|end_header_id|>\n\nFunctions:\n' }}
    {%- for t in tools %}{{- t | tojson(indent=4) }}{{- '\n\n' }}{%- endfor %}
    {{- messages[0]['content'] | trim + '<|eot_id|>' }}{%- set messages = messages[1:] %}
{%- endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' or message.role == 'ipython' %}
        {{- '<|start_header_id|>ipython<|end_header_id|>\n\n' }}
        {%- if message.content is mapping or message.content is iterable %}{{- message.content | tojson }}
        {%- else %}{{- message.content }}{%- endif %}
        {{- '<|eot_id|>' }}
    {%- elif 'tool_calls' in message %}
        {%- if not message.tool_calls | length == 1 %}
            {{- raise_exception('This model only supports single tool-calls at once!') }}
        {%- endif %}
        {%- set tool_call = message.tool_calls[0].function %}
        {{- '<|start_header_id|>assistant<|end_header_id|>\n\n' + message['content'] }}
        {{- '{"name": "' + tool_call.name + '", "parameters": ' }}{{- tool_call.arguments | tojson }}{{- '}' }}
        {{- '<|eot_id|>' }}
    {%- else %}
        {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\n\n' + message['content'] | trim }}
        {{- '<|eot_id|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{%- endif %}"""

#: Tells a call by its null content, and wants its arguments as a text.
DEEPSEEK = r"""
{%- set ns = namespace(system='') -%}
{%- for message in messages if message['role'] == 'system' -%}{%- set ns.system = message['content'] -%}{%- endfor -%}
{{- bos_token }}{{ ns.system }}
{%- if tools %}{{ '\n\n## Tools\n' }}{% for tool in tools %}{{ tool.function.name }}{{ ': ' + tool.function.description
    + '\n' + (tool.function.parameters | tojson) + '\n' }}{% endfor %}{% endif %}
{%- for message in messages -%}
    {%- if message['role'] == 'user' -%}{{ '<|User|>' + message['content'] }}{%- endif -%}
    {%- if message['role'] == 'assistant' and message['content'] is none -%}
        {{- '<|Assistant|><|calls|>' -}}
        {%- for tool in message['tool_calls'] -%}
            {{- '<|call|>' + tool['type'] + '<|sep|>' + tool['function']['name'] + '\n```json\n'
                + tool['function']['arguments'] + '\n```<|/call|>' -}}
        {%- endfor -%}
        {{- '<|/calls|></s>' -}}
    {%- elif message['role'] == 'assistant' -%}{{ '<|Assistant|>' + message['content'] + eos_token }}{%- endif -%}
    {%- if message['role'] == 'tool' -%}{{ '<|tool|>' + message['content'] }}{%- endif -%}
{%- endfor -%}
{%- if add_generation_prompt -%}{{ '<|Assistant|><think>\n' }}{%- endif -%}"""

#: Knows how much to think, calls thoughts by another name, and needs to know what a result is of.
HARMONY = r"""
{%- macro typed(spec) -%}{{ 'string' if spec.type == 'string' else 'any' }}{%- endmacro -%}
{{- '<|start|>system<|message|>Reasoning: ' + (reasoning_effort if reasoning_effort is defined else 'medium') }}
{{- '<|end|>' }}
{%- if tools or messages[0].role in ('developer', 'system') %}
    {{- '<|start|>developer<|message|>' }}
    {%- if tools %}{{- 'namespace functions {\n' }}
        {%- for tool in tools %}{%- set tool = tool.function %}
            {{- '// ' + tool.description + '\ntype ' + tool.name + ' = (_: {' }}
            {%- for name, spec in tool.parameters.properties.items() %}{{ name }}: {{ typed(spec) }}, {% endfor %}
            {{- '}) => any;\n' }}
        {%- endfor %}{{- '}' }}
    {%- endif %}
    {{- '<|end|>' }}
{%- endif %}
{%- set last = namespace(name=none) %}
{%- for message in messages %}
    {%- if message.role == 'assistant' and 'tool_calls' in message %}
        {%- if message.content and message.thinking %}{{- raise_exception('Not both') }}{%- endif %}
        {%- if message.thinking %}
            {{- '<|start|>assistant<|channel|>analysis<|message|>' + message.thinking + '<|end|>' }}
        {%- endif %}
        {%- set call = message.tool_calls[0].function %}{%- set last.name = call.name %}
        {{- '<|start|>assistant to=functions.' + call.name + '<|channel|>commentary json<|message|>' }}
        {{- call.arguments | tojson }}{{- '<|call|>' }}
    {%- elif message.role == 'tool' %}
        {%- if last.name is none %}{{- raise_exception('No call before it') }}{%- endif %}
        {{- '<|start|>functions.' + last.name + ' to=assistant<|message|>' + message.content | tojson + '<|end|>' }}
    {%- elif message.role not in ('system', 'developer') %}
        {{- '<|start|>' + message.role + '<|message|>' + message.content + '<|end|>' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{%- endif %}"""

#: Writes each argument by itself, which an object alone allows.
GLM = r"""
{%- if tools %}<|system|>
# Tools
{% for tool in tools %}{{ tool | tojson(ensure_ascii=False) }}
{% endfor %}{% endif %}
{%- for m in messages %}
{%- if m.role == 'user' %}<|user|>
{{ m.content }}
{%- elif m.role == 'assistant' %}<|assistant|>
{%- if m.content.strip() %}{{ '\n' + m.content.strip() }}{% endif %}
{%- for tc in m.tool_calls or [] %}{% if tc.function %}{% set tc = tc.function %}{% endif %}
{{ '\n<tool_call>' + tc.name }}
{% for k, v in tc.arguments.items() %}<arg_key>{{ k }}</arg_key>
<arg_value>{{ v | tojson(ensure_ascii=False) if v is not string else v }}</arg_value>
{% endfor %}</tool_call>{% endfor %}
{%- elif m.role == 'tool' %}<|tool|>
<tool_response>{{ m.content }}</tool_response>
{%- endif %}{% endfor %}
{%- if add_generation_prompt %}<|assistant|>
{%- endif %}"""

#: Takes no ids but short ones.
MISTRAL = r"""{{- bos_token }}
{%- for message in messages %}
    {%- if message['role'] == 'user' %}
        {%- if tools is not none and loop.last %}{{- '[TOOLS]' + tools | tojson + '[/TOOLS]' }}{%- endif %}
        {{- '[INST] ' + message['content'] + '[/INST]' }}
    {%- elif message.tool_calls is defined and message.tool_calls is not none %}
        {{- '[CALLS] [' }}
        {%- for call in message.tool_calls %}
            {%- set out = call.function | tojson %}{{- out[:-1] }}
            {%- if call.id | length != 9 %}{{- raise_exception('Ids should be 9 characters') }}{%- endif %}
            {{- ', "id": "' + call.id + '"}' }}{%- if not loop.last %}{{- ', ' }}{%- endif %}
        {%- endfor %}
        {{- ']' + eos_token }}
    {%- elif message['role'] == 'tool' %}
        {%- if message.tool_call_id | length != 9 %}{{- raise_exception('Ids should be 9 characters') }}{%- endif %}
        {{- '[RESULTS] ' + message.content + ' of ' + message.tool_call_id + '[/RESULTS]' }}
    {%- else %}{{- message['content'] }}{%- endif %}
{%- endfor %}"""

#: Calls in the words of Python, and names each result's function.
PYTHONIC = r"""
{%- if tools %}<|system|>{% for tool in tools %}{{ tool['function'] | tojson }}{% endfor %}<|end|>{% endif %}
{%- for message in messages %}
    {%- if message.role == 'tool' %}{{- '<|tool|>' + message.name + ': ' + message.content + '<|end|>' }}
    {%- elif message.tool_calls %}{{- '<|assistant|>[' }}
        {%- for call in message.tool_calls %}{{- call.function.name + '(' }}
            {%- for key in call.function.arguments %}{{ key }}={% if call.function.arguments[key] is string -%}
            "{{ call.function.arguments[key] }}"{% else %}{{ call.function.arguments[key] }}{% endif %}
            {%- if not loop.last %}, {% endif %}{%- endfor %}{{- ')' }}{%- endfor %}{{- ']<|end|>' }}
    {%- else %}{{- '<|' + message.role + '|>' + message.content + '<|end|>' }}{%- endif %}
{%- endfor %}<|assistant|>"""

FAMILIES = {
    "hermes": HERMES,
    "llama": LLAMA,
    "deepseek": DEEPSEEK,
    "harmony": HARMONY,
    "glm": GLM,
    "mistral": MISTRAL,
    "pythonic": PYTHONIC,
}
CONTROL = (
    *("<s>", "</s>", "<|im_start|>", "<|im_end|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    *("<|User|>", "<|Assistant|>", "<|calls|>", "<|/calls|>", "<|call|>", "<|/call|>", "<|sep|>"),
    *("<think>", "</think>"),
    *("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>", "<|tool|>"),
    *("[INST]", "[/INST]", "[TOOLS]", "[/TOOLS]", "[CALLS]", "[RESULTS]", "[/RESULTS]", "<tool_call>", "</tool_call>"),
    *("<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>", "<tool_response>", "</tool_response>"),
    *("<tools>", "</tools>"),
)
