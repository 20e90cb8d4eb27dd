/** A rollout of several sequences on the page: an agent's. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { STORE_FILE } from "../../src/run/index.js";
import { RunReader } from "../../src/run/reader.js";
import { RunStore } from "../../src/run/store.js";
import { writeReport } from "../../src/view/report-file.js";
import { bodyOf } from "../../src/view/rows.js";
import { openRuns } from "../../src/view/runs.js";
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
store.saveRollout("train", 1, { ...first, branches: [branch], output: "looking for Karen" });
store.close();

it("has its sequences and what the agent wrote", () => {
  const reader = RunReader.open(folder);
  const [seen] = [...reader.rollouts({ phase: "train" })].filter(({ trajectory }) => trajectory.branches);
  reader.close();
  const body = bodyOf(seen as NonNullable<typeof seen>, 10);
  expect(body.output).toContain("looking fo … (7 more characters)");
  expect(body.branches).toEqual([
    {
      messages: [expect.objectContaining({ content: "And in sho … (3 more characters)" }), branch.messages[1]],
      tokens: body.tokens,
    },
  ]);
});

it.skipIf(lack)(`shows them one after the other${lack}`, async () => {
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
  expect(text).toContain("the agent's output");
  clean("file://");
});
