/** Calls of an agent's model that cannot run, judged by the tools of the request that each answers. */
import { describe, expect, test } from "vitest";
import { refusalByRequest } from "../../src/agent/request-refusals.js";
import type { PlayedTurn } from "../../src/agent/rollout-model.js";
import { sequencesOf } from "../../src/agent/sequences.js";
import { callErrors } from "../../src/core/run/evaluation.js";
import type { CallRecord, ToolCall, ToolSchema } from "../../src/core/task/task.js";
import { callsByMessage } from "../../src/insight/report/calls.js";

type Messages = PlayedTurn["asked"]["next"];
type Written = PlayedTurn["answer"]["read"]["calls"][number];

const tool = (name: string, parameters: Record<string, unknown>): ToolSchema => ({
  type: "function",
  function: { name, description: "", parameters },
});

const city = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const tools = [
  tool("weather", city),
  tool("convert", { type: "object", properties: { celsius: { type: "number" } }, additionalProperties: false }),
  tool("now", { type: "object", properties: {} }),
];

const call = (name: string, args: Record<string, unknown>, id: string): Written => ({
  kind: "call",
  call: { name, arguments: args, id },
});

let number = 0;
/** A turn of one given token and one sampled one. */
function turn(next: Messages, calls: Written[], parent: PlayedTurn | null = null, offered = tools): PlayedTurn {
  const bits = (sampled: number[]) => ({
    ids: Int32Array.from(sampled),
    sampled: Uint8Array.from(sampled),
    logprobs: new Float32Array(sampled.length),
  });
  const point = { parent: parent?.point ?? null, ids: Int32Array.from([0, 1]), closed: true };
  const made = calls.flatMap((one): ToolCall[] => (one.kind === "call" ? [one.call] : []));
  return {
    number: number++,
    point,
    asked: { next, append: [0], key: `${number}`, point: parent?.point ?? null, rewritten: 0, tools: offered },
    answer: { read: { content: `turn ${number}`, calls }, calls: made, segment: bits([1]) },
  } as unknown as PlayedTurn;
}

const user: Messages = [{ role: "user", content: "How warm is it?" }];
const shown = ({ turn, name, outcome, result }: CallRecord) => [turn, name, outcome, result];

test("those of tools that are not there and those with refused arguments have names, causes and hone's words for them", () => {
  const first = turn(user, [
    call("wether", { city: "Bonn" }, "a"),
    call("weather", { town: "Bonn" }, "b"),
    call("weather", { city: "Bonn" }, "c"),
    { kind: "malformed", text: "{", reason: "no JSON" },
    call("now", {}, "d"),
  ]);
  const last = turn(
    [
      // In another order than they were called, and one of them never.
      { role: "tool", name: "weather", content: '{"celsius": 21}', id: "c" },
      { role: "tool", name: "wether", content: "there is no such tool here", id: "a" },
    ],
    [call("search_inbox", { keywords: ["warm"] }, "e")],
    first,
  );
  const { first: main } = sequencesOf([first, last], 7);
  expect(main?.calls.map(shown)).toEqual([
    [1, "wether", "unknown_tool", { error: "no tool is called wether; did you mean weather?" }],
    [1, "weather", "bad_arguments", { error: "must have required property 'city'; weather takes city" }],
    [1, "weather", "ok", { celsius: 21 }],
    [1, "", "malformed", { error: "no JSON" }],
    [1, "now", "ok", null],
    [2, "search_inbox", "unknown_tool", { error: "no tool is called search_inbox; there are weather, convert, now" }],
  ]);
});

test("each turn is judged by the tools of its own request", () => {
  const first = turn(user, [call("weather", { city: "Bonn" }, "a")]);
  const without = [tool("now", { type: "object", properties: {} })];
  const answered: Messages = [{ role: "tool", name: "weather", content: "warm", id: "a" }];
  const last = turn(answered, [call("weather", { city: "Bonn" }, "b")], first, without);
  const { first: main } = sequencesOf([first, last], 7);
  expect(main?.calls.map(({ outcome }) => outcome)).toEqual(["ok", "unknown_tool"]);
});

test("those of further sequences count once, in the sequence that trains their turn", () => {
  const first = turn(
    [{ role: "user", content: "An example" }, { role: "assistant", content: "Warm." }, ...user],
    [call("nowhere", {}, "a")],
  );
  const left = turn([{ role: "tool", name: "nowhere", content: "none", id: "a" }], [call("weather", {}, "c")], first);
  const right = turn([{ role: "user", content: "Go on" }], [call("convert", { fahrenheit: 9 }, "b")], first);
  const beside = turn([{ role: "user", content: "A sub-agent" }], []);
  const { first: main, branches, tree } = sequencesOf([first, left, right, beside], 7);
  expect(main?.calls.map(({ name }) => name)).toEqual(["nowhere", "convert"]);
  expect(branches.map(({ calls }) => calls?.map(({ name }) => name))).toEqual([["weather"], undefined]);
  const trajectory = { ...(main as NonNullable<typeof main>), branches, tree, turns: 4 };
  expect(callErrors([trajectory])).toEqual({ bad_arguments: 2, unknown_tool: 1 });
  // Each is found at the message that has it, behind the assistant message of the prompt.
  const found = callsByMessage(trajectory).map((of) => [...of].map(([at, [record]]) => [at, record?.name]));
  expect(found).toEqual([
    [
      [3, "nowhere"],
      [5, "convert"],
    ],
    [[5, "weather"]],
    [],
  ]);
});

describe("schemas as clients write them", () => {
  const judged = (parameters: Record<string, unknown>, args: Record<string, unknown>) =>
    refusalByRequest({ name: "act", arguments: args }, [tool("act", parameters)])?.error;

  test.each<[string, Record<string, unknown>, Record<string, unknown>, Record<string, unknown>]>([
    ["without a type", { properties: city.properties, required: ["city"] }, { city: "a" }, {}],
    [
      "with definitions",
      { type: "object", properties: { to: { $ref: "#/$defs/To" } }, $defs: { To: { enum: ["C", "F"] } } },
      { to: "C" },
      { to: "K" },
    ],
    [
      "of draft 7, whose lists are in items",
      { type: "object", properties: { at: { type: "array", items: [{ type: "number" }] } } },
      { at: [1] },
      { at: ["x"] },
    ],
    [
      "that name a draft that no validator has",
      { $schema: "http://json-schema.org/draft-04/schema#", ...city },
      { city: "a" },
      { city: 1 },
    ],
    [
      "with formats",
      { type: "object", properties: { on: { type: "string", format: "date" } } },
      { on: "2026-11-26" },
      { on: "today" },
    ],
    [
      "of integers, however large",
      { type: "object", properties: { id: { type: "integer" } } },
      { id: 9007199254740993n },
      { id: 0.5 },
    ],
  ])("%s", (_, parameters, right, wrong) => {
    expect(judged(parameters, right)).toBeUndefined();
    expect(judged(parameters, wrong)).toContain("act takes");
  });

  test("that name an $id twice are kept apart, and one of no draft refuses nothing", () => {
    const id = "https://example.com/args";
    expect(judged({ $id: id, ...city }, { city: "a" })).toBeUndefined();
    expect(judged({ $id: id, type: "object", required: ["town"] }, { city: "a" })).toContain("'town'");
    expect(judged({ type: "object", properties: { a: { type: "any" } } }, { a: 1 })).toBeUndefined();
    expect(judged({}, { a: 1 })).toBeUndefined();
  });
});
