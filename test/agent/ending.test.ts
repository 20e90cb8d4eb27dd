/** How a rollout ended whose code returned: `answered` is what answered. */
import { expect, test } from "vitest";
import { endingOf } from "../../src/agent/ending.js";
import type { PlayedTurn, RolloutModel } from "../../src/agent/rollout-model.js";
import { defineTask } from "../../src/core/task/task.js";

type Written = PlayedTurn["answer"]["read"]["calls"][number];

const tools = ["search", "submit"].map((name) => ({
  type: "function",
  function: { name, description: "", parameters: { type: "object", properties: {}, required: ["of"] } },
}));
const call = (name: string, args = { of: "mail" }): Written => ({ kind: "call", call: { name, arguments: args } });

interface Said {
  readonly said?: string;
  readonly calls?: Written[];
  readonly cut?: boolean;
  readonly stop?: string;
  readonly demanded?: string;
}

const turns = (...said: Said[]) =>
  said.map(({ said = "It is Karen.", calls = [], cut = false, stop = "stop", demanded }, number) => {
    return {
      number,
      asked: { tools },
      answer: { stop, read: { said, calls } },
      cut,
      demanded,
    } as unknown as PlayedTurn;
  });

const ending = (said: Said, finalTools?: string[]) => endingOf({ limit: undefined, turns: turns(said) }, finalTools);
const behind = (name: string) => ({
  end: "open_call",
  reason: `the agent ended behind a call of ${name}, whose result the model was not given`,
});

test("a text has answered, and none has not", () => {
  expect(ending({})).toEqual({ end: "answered" });
  expect(ending({ said: " \n" })).toEqual({ end: "no_tool_call" });
});

test("a call whose result the model was not given is open, unless it is the answer by the task's word or the request's", () => {
  const submits = { calls: [call("submit")] };
  const answered = { end: "answered", answer: { of: "mail" } };
  expect(ending(submits)).toEqual(behind("submit"));
  expect(ending({ calls: [call("search"), call("serch")] }, ["submit"])).toEqual(behind("search, serch"));
  expect(ending(submits, ["submit"])).toEqual(answered);
  expect(ending({ calls: [call("search"), call("submit")] }, ["submit"])).toEqual(answered);
  expect(ending({ ...submits, demanded: "submit" })).toEqual(answered);
  // One that cannot run is no answer.
  expect(ending({ calls: [call("submit", {} as { of: string })] }, ["submit"])).toEqual(behind("submit"));
});

test("a malformed call, which the code saw as a text, is no answer", () => {
  const malformed: Written = { kind: "malformed", text: "{", reason: "it is not JSON" };
  const bad = { end: "bad_call", reason: "its last call was malformed: it is not JSON" };
  expect(ending({ calls: [malformed] })).toEqual(bad);
  expect(ending({ calls: [malformed, call("search")] })).toEqual(behind("search"));
});

test("a last turn that hone's limits cut has not answered", () => {
  expect(ending({ cut: true, stop: "length" })).toEqual({ end: "token_limit" });
  expect(ending({ cut: true, stop: "context" })).toEqual({ end: "context_limit" });
});

test("a limit ends the rollout unless the model had a turn after it", () => {
  const limit: RolloutModel["limit"] = { end: "context_limit", turn: 2 };
  expect(endingOf({ limit, turns: turns({}, {}) })).toEqual({ end: "context_limit" });
  // The code went on with a shorter history.
  expect(endingOf({ limit, turns: turns({}, {}, {}) })).toEqual({ end: "answered" });
});

test("the turn that began last counts, whichever ended last", () => {
  const [first, last] = turns({ calls: [call("search")] }, {});
  expect(endingOf({ limit: undefined, turns: [last, first] as PlayedTurn[] })).toEqual({ end: "answered" });
});

test("a task that hone plays has no such list", () => {
  const task = { name: "t", scenarios: () => [], prompt: () => [], finalTools: ["x"], reward: () => 0 };
  expect(() => defineTask(task as never)).toThrow(
    "task t: finalTools is for a task with rollout; a tool is final itself",
  );
});
