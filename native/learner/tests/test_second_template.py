"""Chat templates by Jinja2: as transformers renders them, and what cannot be rendered is said."""

import json
import os
import subprocess
import sys

import pytest
from learner.second_template import answer, rendered
from transformers.utils.chat_template_utils import render_jinja_template

TEMPLATE = """{{ bos_token }}{%- if tools %}
Tools: {{ tools | tojson }}
{% endif %}
{% for message in messages %}
    {% if message.role == "odd" %}{% continue %}{% endif %}
<|{{ message.role }}|>
{% generation %}{{ message.content | trim }}{% endgeneration %}<|end|>
{% for call in message.tool_calls or [] %}{{ call.function | tojson(indent=2) }}{% endfor %}
{% endfor %}
{%- if add_generation_prompt %}
<|assistant|>
{% endif %}"""
MESSAGES = [
    {"role": "system", "content": " Be brief: <b>&</b> 'ö' \n"},
    {"role": "user", "content": "?"},
    {"role": "odd", "content": "left out"},
    {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "look", "arguments": {"a": 1.5}}}]},
    {"role": "tool", "content": "seen"},
]
TOOLS = [{"type": "function", "function": {"name": "look", "description": "<Look>"}}]


@pytest.mark.parametrize("tools", [None, TOOLS])
@pytest.mark.parametrize("opens", [True, False])
def test_a_template_has_the_text_that_transformers_gives_it(tools, opens):
    given = {"add_generation_prompt": opens, "bos_token": "<s>"}
    (wanted,), _ = render_jinja_template([MESSAGES], tools=tools, chat_template=TEMPLATE, **given)
    assert rendered(TEMPLATE, given | {"messages": MESSAGES, "tools": tools, "documents": None}) == wanted


def test_the_text_behind_a_turn_is_what_the_template_adds_to_it():
    template = "{% for m in messages %}[{{ m.content }}]\n{% endfor %}>"
    messages = [{"content": text} for text in ("a", "TURN", "b")]
    assert rendered(template, {"messages": messages}, "TURN") == "]\n[b]\n>"
    assert answer({"id": 1, "asked": [{"template": "none", "variables": {}, "behind": "TURN"}]})["error"].endswith(
        "leaves out the assistant's message"
    )


def test_what_a_template_refuses_is_told_and_dates_are_those_of_hone():
    asked = [{"template": "{{ raise_exception('alternate') }}", "variables": {}}]
    assert answer({"id": 3, "asked": asked}) == {"id": 3, "error": "TemplateError: alternate"}
    assert rendered("{{ strftime_now('%d %b %Y') }}", {}) == "26 Jul 2024"


def test_requests_are_answered_in_turn_until_the_pipe_is_closed():
    ends = [os.pipe(), os.pipe()]
    (control, to), (answers, report) = ends
    # In the program these are 3 and 4, whatever they are here.
    program = f"import os; os.dup2({control}, 103); os.dup2({report}, 104); os.dup2(103, 3); os.dup2(104, 4); "
    program += "os.close(103); os.close(104); from learner.second_template import main; main()"
    child = subprocess.Popen(
        [sys.executable, "-c", program],
        pass_fds=(control, report),
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    os.close(control)
    os.close(report)
    with os.fdopen(to, "w") as requests, os.fdopen(answers) as lines:
        for number in range(2):
            asked = [{"template": "{{ x }}", "variables": {"x": number}}]
            print(json.dumps({"id": number, "asked": asked}), file=requests, flush=True)
            assert json.loads(lines.readline()) == {"id": number, "texts": [str(number)]}
        requests.close()
        child.wait()
