"""Uploads a folder to a repository of the Hub: `python -m learner.push FOLDER REPOSITORY MESSAGE`.

Uses HF_ENDPOINT and HF_TOKEN. Creates a missing repository as a private one. Prints its URL.
"""

import os
import sys
from urllib.parse import urlsplit

import httpx
from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError
from huggingface_hub.utils import set_client_factory

from .lifeline import die_with_parent


def origin(address: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(address)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def keep_token_home(endpoint: str, token: str) -> None:
    """The Hub redirects large files to other hosts; the token is not sent to them."""

    def strip(request: httpx.Request) -> None:
        if origin(str(request.url)) != origin(endpoint) and token in request.headers.get("authorization", ""):
            del request.headers["authorization"]

    set_client_factory(lambda: httpx.Client(event_hooks={"request": [strip]}, timeout=120, follow_redirects=True))


def push(folder: str, repository: str, message: str) -> str:
    endpoint, token = os.environ["HF_ENDPOINT"].rstrip("/"), os.environ["HF_TOKEN"]
    keep_token_home(endpoint, token)
    api = HfApi(endpoint=endpoint, token=token)
    api.create_repo(repository, private=True, exist_ok=True)
    api.upload_folder(repo_id=repository, folder_path=folder, commit_message=message)
    return f"{endpoint}/{repository}"


def reason(error: Exception) -> str:
    status = getattr(getattr(error, "response", None), "status_code", None)
    if status == 401:
        return "the Hub does not know the token (401): set HF_TOKEN to one of your own"
    if status == 403:
        return "the token may not write there (403): take one with the right to write, or a repository of your own"
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:400]


def main() -> None:
    die_with_parent()
    folder, repository, message = sys.argv[1:]
    try:
        print(push(folder, repository, message))
    except (HfHubHTTPError, httpx.HTTPError, OSError, ValueError) as error:
        sys.exit(reason(error))


if __name__ == "__main__":
    main()
