/** A rollout of several sequences on the page: an agent's. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { STORE_FILE } from "../../src/core/run/run.js";
import { RunStore } from "../../src/core/run/store.js";
import { conversationText } from "../../src/insight/report/conversation.js";
import { writeReport } from "../../src/insight/view/report-file.js";
import { bodyOf } from "../../src/insight/view/rows.js";
import { openRuns } from "../../src/insight/view/runs.js";
import { RunReader } from "../../src/machine/runs/reader.js";
import { lack, openPage } from "./support/browser.js";
import { makeRun } from "./support/run.js";

const home = mkdtempSync(join(tmpdir(), "hone-page-agent-"));
const folder = makeRun(home, "agents", { steps: 1 });
const store = RunStore.open(join(folder, STORE_FILE));
const [first] = store.rollouts("train", 1);
if (!first?.tokens) throw new Error("there is no rollout");
const branch = {
  messages: [
    { role: "user" as const, content: "And in short?" },
    { role: "assistant" as const, content: "Karen did." },
  ],
  tokens: first.tokens,
};
/** Two turns in the first sequence; the second again, and a conversation of another kind that was called for beside it. */
const tree = [
  { parent: null, sequence: 0, message: 2, given: 3, sampled: 2 },
  { parent: 0, sequence: 0, message: 4, given: 1, sampled: 2 },
  { parent: null, sequence: 1, message: 1, given: 4, sampled: 4 },
  { parent: 2, sequence: 2, message: 3, given: 2, sampled: 3 },
  { parent: 2, sequence: 1, message: 3, given: 2, sampled: 3, again: 3 },
];
const more = [
  { role: "user" as const, content: "In one word?" },
  { role: "assistant" as const, content: "Karen." },
];
const branches = [
  { ...branch, messages: [...branch.messages, ...more] },
  { ...branch, messages: [...branch.messages, ...more] },
];
const base = { base_calls: 7, base_prompt_tokens: 1234, base_completion_tokens: 56 };
const agent = { completions: 5, sequences: 3, ...base };
store.saveRollout("train", 1, { ...first, branches, tree, agent, output: "looking for Karen" });
store.close();

it("has its sequences and what the agent wrote", () => {
  const reader = RunReader.open(folder);
  const [seen] = [...reader.rollouts({ phase: "train" })].filter(({ trajectory }) => trajectory.branches);
  reader.close();
  const body = bodyOf(seen as NonNullable<typeof seen>, 10);
  expect(body.output).toContain("looking fo … (7 more characters)");
  expect(body.branches).toEqual([
    {
      calls: [],
      messages: expect.arrayContaining([
        expect.objectContaining({ content: "And in sho … (3 more characters)" }),
        branch.messages[1],
      ]),
      tokens: body.tokens,
    },
    expect.anything(),
  ]);
  expect(body.tree).toEqual(tree);
  expect(body.base).toEqual({ calls: 7, promptTokens: 1234, tokens: 56 });
});

it("says in a terminal, too, what the frozen base was asked beside it", () => {
  expect(conversationText({ ...first, agent }, false)).toContain(
    "not trained: 7 turns of the frozen base, which read 1234 tokens and wrote 56",
  );
  expect(conversationText({ ...first, agent: { completions: 5, sequences: 3 } }, false)).not.toContain("frozen");
});

it.skipIf(lack)(`shows them as a tree, and one after the other${lack}`, async () => {
  const [run] = openRuns({ home, project: undefined }, ["agents"]);
  const file = join(home, "report.html");
  await writeReport([run as NonNullable<typeof run>], file, 2000);
  run?.close();
  const at = `group?run=0&phase=train&step=1&scenario=${first.scenario.id}&show=${first.index}`;
  const { page, clean } = await openPage(`${pathToFileURL(file).href}#/${at}`);
  const column = page.getByRole("article").first();
  await column.getByRole("heading", { name: "sequence 2" }).waitFor();
  const text = await column.innerText();
  expect(text).toContain("And in short?");
  const shown = page.getByRole("region", { name: "Sequences" }).first();
  const turns = await shown.innerText();
  expect(turns).toContain("3 sequences, 5 turns");
  expect(turns).toMatch(/turn 1\s[\s\S]*sequence 1 · 2 tokens sampled · 3 given[\s\S]*turn 2/);
  expect(turns).toMatch(/begins anew, with other instructions\s+turn 3\s+Karen did\./);
  expect(turns).toMatch(/goes on in another way\s+turn 4/);
  expect(turns).toMatch(/turn 4 again: another sample of the same request\s+turn 5/);
  // What turns 4 and 5 share is trained once: in sequence 2, which has turn 3 as its own.
  expect(await column.getByText("assistant, given here").count()).toBe(1);
  await shown.getByRole("button", { name: "turn 5" }).click();
  if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT, fullPage: true });
  expect(text).toContain("not trained: 7 turns of the frozen base, which read 1,234 tokens and wrote 56");
  expect(text).toContain("the agent's output");
  clean("file://");
});
