/** What `yarn hone check` finds in a task that its own code plays. */
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { checkTask } from "../../src/check/index.js";
import { modelFile } from "../../src/engine/index.js";
import { loadTask } from "../../src/tasks/index.js";

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

test("a defect of its code, rewritten turns, refused options and equal rewards", async () => {
  const file = join(folder, "careless.ts");
  writeFileSync(file, task);
  const { findings, played, longest_prompt } = await checkTask({
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
  expect(played).toBe(3);
  expect(longest_prompt).toBeGreaterThan(3);
  expect(findings.map(({ level, kind, message }) => `${level} ${kind}: ${message}`)).toEqual([
    "error task_throws: the agent failed in 1 of 3 rollouts (bad/0): the agent's own defect",
    expect.stringMatching(/^warning history_rewritten: the agent sends 2 turns back otherwise/),
    expect.stringMatching(/^warning option_refused: the agent asks for top_p, which is refused/),
    expect.stringMatching(/^warning reward_constant: every rollout of a small model earned 0.5/),
  ]);
});
