"""Renders templates as transformers compiles them, for comparison with hone's.

Reads a JSON list of {source, variables} from standard input and writes a list of texts, null where it raises.
"""

import json
import sys
from datetime import datetime

from transformers.utils.chat_template_utils import _compile_jinja_template


def render(case: dict) -> str | None:
    try:
        template = _compile_jinja_template(case["source"])
        template.globals["strftime_now"] = datetime(2024, 7, 26).strftime
        return template.render(**case["variables"])
    # A template may raise whatever Python does.
    except Exception:
        return None


json.dump([render(case) for case in json.load(sys.stdin)], sys.stdout)
