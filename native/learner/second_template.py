"""Renders chat templates with Jinja2, as transformers does: hone renders them itself, and compares.

Reads lines of JSON from its file descriptor 3, {id, asked: [{template, variables, behind?}]}, and writes to 4, in the
same order, {id, texts} or {id, error}. A text is what the template makes of the variables, from the last `behind` on.
Neither PyTorch nor transformers is loaded, which would take seconds: the environment is that of transformers'
`_compile_jinja_template` (utils/chat_template_utils.py), with the date that hone gives to templates.
"""

import functools
import json
import os
import sys
from datetime import datetime
from typing import Any, ClassVar

import jinja2
from jinja2.ext import Extension, loopcontrols
from jinja2.sandbox import ImmutableSandboxedEnvironment

from .lifeline import guard

CONTROL, REPORT = 3, 4
TODAY = datetime(2024, 7, 26)


class _Generation(Extension):
    """Of transformers' own tags around what an assistant writes: they leave it as it is."""

    tags: ClassVar[set[str]] = {"generation"}

    def parse(self, parser: jinja2.parser.Parser) -> list[jinja2.nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _refuse(message: str) -> None:
    raise jinja2.TemplateError(message)


def _to_json(
    value: Any, ensure_ascii: bool = False, indent: Any = None, separators: Any = None, sort_keys: bool = False
) -> str:
    # Jinja's own escapes what HTML does.
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


@functools.cache
def _compiled(template: str) -> jinja2.Template:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[_Generation, loopcontrols]
    )
    environment.filters["tojson"] = _to_json
    environment.globals |= {"raise_exception": _refuse, "strftime_now": TODAY.strftime}
    return environment.from_string(template)


def rendered(template: str, variables: dict[str, Any], behind: str | None = None) -> str:
    """Raises jinja2.TemplateError for what the template refuses, ValueError where it leaves out what is `behind`."""
    text = _compiled(template).render(**variables)
    if behind is None:
        return text
    if behind not in text:
        raise ValueError("the template leaves out the assistant's message")
    return text[text.rindex(behind) + len(behind) :]


def answer(request: dict[str, Any]) -> dict[str, Any]:
    try:
        texts = [rendered(**one) for one in request["asked"]]
    except Exception as error:  # of the template's own expressions: whatever Python raises
        return {"id": request["id"], "error": f"{type(error).__name__}: {error}".splitlines()[0][:200]}
    return {"id": request["id"], "texts": texts}


def main() -> None:
    guard(CONTROL)
    with os.fdopen(CONTROL, encoding="utf-8") as requests, os.fdopen(REPORT, "w", encoding="utf-8") as answers:
        for line in requests:
            # Lone surrogates are JSON's escapes, not UTF-8's.
            print(json.dumps(answer(json.loads(line))), file=answers, flush=True)
    sys.exit()


if __name__ == "__main__":
    main()
