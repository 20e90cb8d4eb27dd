// Needs a process of its own: a note is told once in a process.
/** What `yarn hone check` finds in a task that its own code plays. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { MALFORMED } from "../../src/agent/ending.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import type { RolloutEnd } from "../../src/core/task/task.js";
import { modelFile } from "../../src/engine/models.js";
import { agentFindings } from "../../src/hone/check/agent.js";
import { checkTask } from "../../src/hone/check/check.js";
import type { Finding } from "../../src/hone/check/findings.js";
import { loadTask } from "../../src/scenarios/load.js";

const folder = mkdtempSync(join(tmpdir(), "hone-check-agent-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const task = `
import { defineTask } from "@hone-rl/hone";

const user = (content) => ({ role: "user", content });

export default defineTask({
  name: "careless",
  scenarios: () => ["one", "two", "bad"].map((id) => ({ id, split: id === "two" ? "test" : "train", question: id })),
  rollout: async ({ scenario, baseUrl, apiKey }) => {
    if (scenario.id === "bad") throw new Error("the agent's own defect");
    const ask = async (messages, more) => {
      const body = JSON.stringify({ model: "any", messages, max_tokens: 8, ...more });
      const headers = { authorization: "Bearer " + apiKey };
      return (await fetch(baseUrl + "/chat/completions", { method: "POST", headers, body })).json();
    };
    await ask([user("Hello")], { top_p: 0.9 });
    await ask([user("Hello")]);
    await ask([user("Hello"), { role: "assistant", content: "Another answer" }, user("And?")]);
    return 0.5;
  },
});
`;

const said = ({ level, kind, message }: Finding) => `${level} ${kind}: ${message}`;

async function checked(name: string, text: string) {
  const file = join(folder, name);
  writeFileSync(file, text);
  return checkTask({
    task: await loadTask(file),
    reference: file,
    taskOptions: {},
    n: 3,
    seed: 1,
    maxTurns: 4,
    toolSeconds: 10,
    model: modelFile("tiny"),
    context: 512,
    signal: new AbortController().signal,
  });
}

test("a defect of its code, rewritten turns, refused options and equal rewards", async () => {
  const { findings, played, longest_prompt } = await checked("careless.ts", task);
  expect(played).toBe(3);
  expect(longest_prompt).toBeGreaterThan(3);
  expect(findings.map(said)).toEqual([
    "error task_throws: the agent failed in 1 of 3 rollouts (bad/0): the agent's own defect",
    expect.stringMatching(/^warning history_rewritten: the agent sends back 2 turns otherwise/),
    expect.stringMatching(/^warning option_refused: the agent asks for top_p, which is refused/),
    expect.stringMatching(/^warning reward_constant: every rollout of a small model earned 0.5/),
  ]);
});

test("errors that are taken for mistakes of the model", async () => {
  const error = `Object.assign(new Error("there is no tool look"), { name: "ModelBehaviorError" })`;
  const { findings } = await checked("mistaken.ts", task.replace("return 0.5;", `throw ${error};`));
  expect(findings.map(said)).toContain(
    "warning model_mistake: in 2 of 3 rollouts an error of the agent is taken for a mistake of the model (one/0): there is no tool look\nSuch rollouts are trained with 0: see that it is no fault of the agent",
  );
});

test("an agent that returned has made no error, whatever the model's last turn was", () => {
  const malformed = `${MALFORMED}: the tool call is not valid JSON`;
  const ended = ([end, reason]: readonly [RolloutEnd, string | undefined], reward: number) =>
    ({ id: `${end}/0`, end, reason, reward: { reward }, calls: [], player: {} }) as unknown as Trajectory;
  const found = (...ends: (readonly [RolloutEnd, string | undefined])[]) =>
    [...agentFindings({ trajectories: ends.map(ended), failures: [], notes: [] }, 512)].map(said);
  expect(found(["bad_call", malformed], ["token_limit", undefined])).toEqual([]);
  expect(found(["bad_call", malformed], ["bad_call", `the model's mistake: ${malformed}; no answer`])).toEqual([
    expect.stringContaining(
      "in 1 of 2 rollouts an error of the agent is taken for a mistake of the model (bad_call/0)",
    ),
  ]);
});

/** An agent that asks once, and does something with the `answer`. */
const asksOnce = (headers: string, use: string) => `
import { defineTask } from "@hone-rl/hone";

export default defineTask({
  name: "once",
  scenarios: () => ["train", "test"].map((split) => ({ id: split, split, question: split })),
  rollout: async ({ baseUrl, apiKey }) => {
    const body = JSON.stringify({ model: "any", messages: [{ role: "user", content: "Hello" }], top_p: 0.5 });
    const headers = ${headers};
    const answer = await (await fetch(baseUrl + "/chat/completions", { method: "POST", headers, body })).json();
    ${use}
  },
});
`;
const WITH_KEY = '{ authorization: "Bearer " + apiKey }';

const failuresOf = (findings: readonly Finding[]) =>
  findings.map(said).filter((line) => line.includes("the agent failed"));

test.each([
  ["without its key", "{}", "a request came without the rollout's key: send `apiKey` as a bearer token"],
  ["refused", WITH_KEY, "its last request was answered with: 'top_p' is refused"],
])("a request %s, whose answer the agent did not look at, is said beside its own error", async (name, headers, why) => {
  const agent = asksOnce(headers, "return answer.choices[0].message.content ? 1 : 0;");
  const { findings } = await checked(`${name.replaceAll(" ", "-")}.ts`, agent);
  expect(failuresOf(findings)).toEqual([
    expect.stringContaining(`Cannot read properties of undefined (reading '0'); ${why}`),
  ]);
});

test("a refusal that the agent's own error quotes is said once", async () => {
  const { findings } = await checked("quoting.ts", asksOnce(WITH_KEY, "throw new Error(answer.error.message);"));
  const [failed = ""] = failuresOf(findings);
  expect(failed.match(/'top_p' is refused/g)).toHaveLength(1);
});
