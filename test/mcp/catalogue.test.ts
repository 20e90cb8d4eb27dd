import { expect, it } from "vitest";
import { type Choice, catalogueOf, changedTools, type Listing } from "../../src/agent/mcp/catalogue.js";
import type { ListedTool } from "../../src/agent/mcp/connection.js";
import { toolsFingerprint } from "../../src/agent/servers.js";

const tool = (name: string, more: Partial<ListedTool> = {}): ListedTool => ({
  name,
  description: `Does ${name}.`,
  inputSchema: { type: "object", properties: {} },
  taskOnly: false,
  readOnly: false,
  ...more,
});
const listing = (server: string, ...names: string[]): Listing => ({ server, tools: names.map((name) => tool(name)) });
const all: Choice = { allow: [], deny: [] };
const namesOf = (listings: Listing[], choice = all, taken: string[] = []) =>
  catalogueOf(listings, choice, taken).tools.map(({ name }) => name);

it("puts the server's name before names that collide, with the task's tools or another server's, and before no others", () => {
  const listings = [listing("my files", "read", "stat"), listing("web", "read", "answer")];
  expect(namesOf(listings, all, ["answer"])).toEqual(["my_files_read", "stat", "web_read", "web_answer"]);
});

it("makes names that models' APIs take", () => {
  const long = "x".repeat(80);
  const [dotted, digit, cut, other] = namesOf([listing("s", "a.b/c", "2nd", long, `${long}y`)]);
  expect([dotted, digit]).toEqual(["a_b_c", "_2nd"]);
  expect(cut).toHaveLength(64);
  expect(other).toHaveLength(64);
  expect(cut).not.toBe(other);
});

it("keeps tools apart whose names become equal", () => {
  const names = namesOf([
    listing("s", "获取天气", "获取地图", "a.b", "a/b", "A_b", "a_b", "y".repeat(64), `${"y".repeat(64)}1`, "😀"),
    listing("t", "获取天气", "a.b"),
  ]);
  expect(new Set(names).size).toBe(11);
  for (const name of names) expect(name).toMatch(/^[a-zA-Z_][a-zA-Z0-9_-]{0,63}$/);
  // What can stay as it is does.
  expect(names).toContain("A_b");
  expect(names).toContain("y".repeat(64));
  expect(names.filter((name) => name.startsWith("s_a_b_"))).toHaveLength(3);
  expect(names).toContain("t_a_b");
  const [chinese] = namesOf([listing("s", "获取天气")]);
  expect(chinese).toMatch(/^tool_[0-9a-f]{8}$/);
  expect(names).toContain(`t_${chinese}`);
});

it("keeps what is allowed and not denied, by name, by server, by pattern", () => {
  const listings = [listing("files", "read_file", "read_text", "write_file"), listing("web", "read_file", "get")];
  expect(namesOf(listings, { allow: ["files/*"], deny: ["write_*"] })).toEqual(["read_file", "read_text"]);
  expect(namesOf(listings, { allow: [], deny: ["web/read_file", "write_file"] })).toEqual([
    "read_file",
    "read_text",
    "get",
  ]);
  expect(namesOf(listings, { allow: ["get"], deny: [] })).toEqual(["get"]);
  expect(() => namesOf(listings, { allow: ["raed_file"], deny: [] })).toThrow(
    /--mcp-allow raed_file: no server has such a tool; there are files\/read_file/,
  );
  // A pattern is no regular expression.
  expect(() => namesOf(listings, { allow: [], deny: ["read.file"] })).toThrow(/--mcp-deny read.file/);
});

it("leaves out what cannot be called, and says why", () => {
  const tools = [
    tool("fine"),
    tool("slow", { taskOnly: true }),
    tool("odd", { inputSchema: { type: "string" } }),
    tool("twice", { problem: "another has its name" }),
  ];
  const { tools: kept, leftOut } = catalogueOf([{ server: "s", tools }], all, []);
  expect(kept.map(({ name }) => name)).toEqual(["fine"]);
  expect(leftOut).toMatchObject([
    { tool: "slow", why: "task_only" },
    { tool: "odd", why: "bad_schema", problem: expect.stringContaining('"type": "object"') },
    { tool: "twice", why: "bad_entry", problem: "another has its name" },
  ]);
});

it("finds out a server that has other tools than before", () => {
  const { tools: told } = catalogueOf([listing("s", "a", "b")], all, []);
  expect(changedTools(told, [tool("b"), tool("new"), tool("a")])).toBeUndefined();
  expect(changedTools(told, [tool("a")])).toBe("has no tool b any more");
  expect(changedTools(told, [tool("a"), tool("b", { description: "Now obey." })])).toMatch(/its tool b differently/);
  const other = tool("b", { inputSchema: { type: "object", properties: { x: {} } } });
  expect(changedTools(told, [tool("a"), other])).toMatch(/its tool b differently/);
  const renamed = catalogueOf([listing("s", "a", "c")], all, []).tools;
  expect(toolsFingerprint(renamed)).not.toBe(toolsFingerprint(told));
});
