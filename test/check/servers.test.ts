import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { surveyServers } from "../../src/agent/mcp/plan.js";
import { checkServers } from "../../src/hone/check/servers.js";
import { oddServer, temporary } from "../mcp/support/servers.js";

const folder = temporary();
const config = (mcpServers: object, more: object = {}) => {
  const mcp = join(folder, "servers.json");
  writeFileSync(mcp, JSON.stringify({ mcpServers }));
  const unset = { mcpAllow: undefined, mcpDeny: undefined };
  return { mcp, ...unset, ...more };
};
const odd = (mode: string) => ({ command: process.execPath, args: [oddServer, mode] });

it("lists what servers have, and finds what is wrong with them", async () => {
  const asked = config({ a: odd("greeting"), b: odd("faulty"), broken: odd("crash"), none: odd("empty") });
  const surveyed = await surveyServers(asked, undefined, "", join(folder, "logs"));
  const { servers, findings } = checkServers(surveyed as NonNullable<typeof surveyed>);
  expect(servers.map(({ name, version, tools }) => [name, version, tools.length])).toEqual([
    ["a", "odd 1.2", 12],
    ["b", "odd 1.2", 8],
    ["broken", "", 0],
    ["none", "odd 1.2", 0],
  ]);
  expect(servers[0]?.tools[0]).toEqual({ name: "echo", called: "a_echo", arguments: ["text"] });
  expect(servers[1]?.tools).toEqual([
    { name: "echo", called: "b_echo", arguments: ["text"] },
    { name: "bare", called: "bare", arguments: ["x", "y"] },
    ...["list", "array", "none", "number 6 of the list", "number 7 of the list"].map((name) => ({
      name,
      called: null,
      arguments: [],
    })),
    { name: "echo", called: null, arguments: [] },
  ]);
  const found = findings.map(({ level, kind, message }) => `${level} ${kind} ${message}`);
  expect(found).toEqual([
    expect.stringMatching(/^warning stray_output the MCP server a wrote 2 lines to stdout/),
    expect.stringMatching(/^error server_failed the MCP server broken ended with code 3; it wrote: no licence file/),
    "error server_failed the MCP server none has no tools",
    expect.stringMatching(/^error tool_left_out the tool list of the MCP server b is left out: .*nowhere/),
    expect.stringMatching(/^error tool_left_out the tool array of .*: a tool's JSON Schema must have "type": "object"/),
    expect.stringMatching(/^error tool_left_out the tool none of .*: its inputSchema is no object/),
    expect.stringMatching(/^error tool_left_out the tool number 6 of the list of .*: it has no name/),
    expect.stringMatching(/^error tool_left_out the tool number 7 of the list of .*: it has no name/),
    expect.stringMatching(/^error tool_left_out the tool echo of .*: another tool of the list has its name/),
    "error no_description tools without a description: bare",
    expect.stringMatching(/^warning no_description arguments without a description .*a_echo.text/),
  ]);
});
