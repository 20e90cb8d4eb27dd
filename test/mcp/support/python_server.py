"""A server on MCP's own Python library: one tool that computes, one that fails, one that writes where it should not."""

import sys

from mcp.server.fastmcp import FastMCP

server = FastMCP("abacus")


@server.tool()
def divide(a: float, b: float) -> float:
    """Divides a by b."""
    return a / b


@server.tool()
def say(words: str) -> str:
    """Says words, also to stdout, which is the protocol's."""
    print(words, flush=True)
    print("to the log", file=sys.stderr, flush=True)
    return words


server.run()
