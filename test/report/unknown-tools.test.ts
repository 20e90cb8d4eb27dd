/** Whoever begins with a model that knows other tools is told so. */
import { expect, test } from "vitest";
import type { CallRecord } from "../../src/core/task/task.js";
import { modelFile } from "../../src/engine/models.js";
import { unknownToolsText } from "../../src/insight/report/unknown-tools.js";

const call = (name: string, outcome: CallRecord["outcome"]) => ({
  turn: 1,
  name,
  arguments: {},
  outcome,
  result: null,
});
const player = (model: string) => ({ kind: "engine" as const, model, adapter: null, temperature: 1 });

function told(model: string, ...rollouts: CallRecord[][]): string | undefined {
  return unknownToolsText(rollouts.map((calls) => ({ calls, player: player(model) })));
}

const wrong = call("search_inbox", "unknown_tool");

test("the tiny model is named with what plays instead, any other with where to look", () => {
  const branches = [
    { messages: [], calls: [call("read_email", "unknown_tool")], tokens: { ids: [], sampled: [], logprobs: [] } },
  ];
  const tiny = player(modelFile("tiny"));
  const rollouts = [
    { calls: [wrong, wrong], branches, player: tiny },
    { calls: [call("weather", "bad_arguments")], player: tiny },
  ];
  expect(unknownToolsText(rollouts)).toMatch(
    /^in 1 of 2 rollouts the model calls tools that the agent has not \(search_inbox, read_email\):\nthe tiny model .*\(--model qwen2.5-0.5b\)$/,
  );
  const made = ["a", "b", "c", "d"].map((name) => call(name, "unknown_tool"));
  expect(told("other.gguf", made)).toMatch(/ \(a, b, c and 1 more\):\n--show has what/);
});

test("a slip now and then is nothing to tell", () => {
  expect(told("tiny.gguf", [wrong], [call("weather", "ok")], [])).toBeUndefined();
  expect(told("tiny.gguf", [], [])).toBeUndefined();
});
