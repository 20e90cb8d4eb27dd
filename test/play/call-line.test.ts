import { describe, expect, it } from "vitest";
import { z } from "zod";
import { defineTool, toolSchema } from "../../src/core/task/task.js";
import { readCallLine, usage } from "../../src/hone/play/call-line.js";

const tool = (name: string, parameters: z.ZodObject) =>
  toolSchema(defineTool({ name, description: "", parameters, execute: () => null }));
const search = tool(
  "search_inbox",
  z.object({
    keywords: z.array(z.string()),
    from_addr: z.string().optional(),
    max_results: z.number().nullable().optional(),
  }),
);
const tools = [search, tool("read_email", z.object({ message_id: z.string() })), tool("read_all", z.object({}))];
const read = (line: string) => readCallLine(line, tools);
const call = (args: Record<string, unknown>) => ({ name: "search_inbox", arguments: args });

describe("a typed call", () => {
  it("fills parameters in order, lists split at commas or else at blanks", () => {
    expect(read("search_inbox Falcon deadline")).toEqual(call({ keywords: ["Falcon", "deadline"] }));
    expect(read("search_inbox first quarter, deadline")).toEqual(call({ keywords: ["first quarter", "deadline"] }));
    expect(read("search_inbox Falcon | a@b.com | 3")).toEqual(
      call({ keywords: ["Falcon"], from_addr: "a@b.com", max_results: 3 }),
    );
    expect(read("  read_email <1.a@b>  ")).toEqual({ name: "read_email", arguments: { message_id: "<1.a@b>" } });
  });

  it("names parameters out of order, and takes JSON", () => {
    expect(read("search_inbox max_results=2 | Falcon")).toEqual(call({ keywords: ["Falcon"], max_results: 2 }));
    expect(read('search_inbox {"keywords": ["a b"]}')).toEqual(call({ keywords: ["a b"] }));
  });

  it("takes the beginning of one tool's name", () => {
    expect(read("sea Falcon")).toEqual(call({ keywords: ["Falcon"] }));
    expect(read("read x")).toEqual({
      reason: "no tool is called read; there are search_inbox, read_email, read_all",
    });
  });

  it("leaves what a tool must judge to the tool", () => {
    expect(read("search_inbox")).toEqual(call({ keywords: [] }));
    expect(read("read_email")).toEqual({ name: "read_email", arguments: {} });
    expect(read("search_inbox a | b | many")).toEqual(call({ keywords: ["a"], from_addr: "b", max_results: "many" }));
  });

  it("says why it makes no sense", () => {
    expect(read("read_email a | b")).toHaveProperty("reason", expect.stringContaining("no more values"));
    expect(read("search_inbox {oops")).toHaveProperty("reason", expect.stringContaining("not valid JSON"));
  });

  it("has a usage line", () => {
    expect(usage(search)).toBe("search_inbox keywords ... | [from_addr=...] | [max_results=...]");
  });
});
