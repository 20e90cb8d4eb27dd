"""A made-up conversation, and the names in it."""

from ..traces import Pieces

NAMES = {
    "first": ["Wanda", "Jasper"],
    "last": ["Ellis", "Tucker"],
    "projects": ["Falcon", "Opal"],
    "companies": ["Halcyon"],
    "places": ["Denver"],
    "months": ["March"],
    "topics": ["fee", "kickoff"],
    "idFirst": ["curtain", "vest"],
    "idSecond": ["antelope", "octopus"],
    "reserved": ["Astrid", "Firefly"],
}
SYMBOLS = [f"{word}{end}" for word in ("Zavor", "Mubit") for end in ("a", "e", "i", "o", "u")]


def conversation() -> Pieces:
    return [
        ("<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWho leads Falcon?<|im_end|>\n", "given"),
        (
            '<tool_call>\n{"name": "search_inbox", "arguments": {"keywords": ["Falcon"]}}\n</tool_call><|im_end|>',
            "played",
        ),
        ("\n<|im_start|>user\n<tool_response>\n[]\n</tool_response><|im_end|>\n<|im_start|>assistant\n", "given"),
        ('<tool_call>\n{"name": "read_email", "arguments": {}}\n</tool_call><|im_end|>', "played"),
        ("\n<|im_start|>user\nThe lead of Falcon is Wanda Ellis, wanda.ellis@acme.example.<|im_end|>\n", "given"),
        ('<tool_call>\n{"answer": "Wanda Ellis"}\n</tool_call><|im_end|>', "played"),
    ]
