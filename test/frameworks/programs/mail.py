"""The mail task's prompt and tools, for agents of every framework in Python."""

import json
import sys
from pathlib import Path

ABOUT = json.loads((Path(__file__).parent / "mail.json").read_text())
SYSTEM = ABOUT["system"]
QUESTION = sys.argv[1]


def search_inbox(keywords: list[str]) -> str:
    """Search the subjects and texts of the user's mails.

    Args:
        keywords: words that the mails have
    """
    return json.dumps(ABOUT["found"])


def read_email(message_id: str) -> str:
    """Read one mail of the user.

    Args:
        message_id: of a mail that was found
    """
    return json.dumps({"message_id": message_id, "body": ABOUT["body"]})
