/** Free answers that are compared by wording are said to be when training begins; short and exact ones are not. */
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { buildMailDatabase } from "../../src/email/building/build.js";
import { planRun } from "../../src/trainer/run.js";
import type { TrainRunOptions } from "../../src/trainer/train-options.js";
import { databaseOf, mail, scenario, temporaryFolder } from "../support/mails.js";

const folder = temporaryFolder();
afterAll(() => folder.remove());

/** The warnings of `yarn train` before anything is loaded. */
async function warnings(db: string, more: TrainRunOptions = {}): Promise<string[]> {
  const given = { home: folder.path, db, model: "tiny", groupsPerStep: 1, gpu: "off", ...more } as const;
  const said: string[] = [];
  await planRun(given, { log: (text) => said.push(text) });
  return said.filter((text) => text.startsWith("warning"));
}

describe("on real mail", () => {
  const db = join(folder.path, "real.db");
  const mails = [mail({ messageId: "<1@x>" }), mail({ messageId: "<2@x>" })];
  databaseOf(db, mails, [scenario(), scenario({ id: "2", split: "test", message_ids: ["<2@x>"] })]).close();
  const judge = { judgeUrl: "http://127.0.0.1:9/v1", judgeModel: "judge" };

  it("--reward task is warned of once, with the options that use a judge", async () => {
    const [warning, ...others] = await warnings(db);
    expect(others).toEqual([]);
    expect(warning).toMatch(
      /^warning: --reward task compares answers by their wording.* --reward shaped or --reward ruler; --accuracy judge for held-out answers$/,
    );
    const [half] = await warnings(db, { ...judge, accuracy: "judge" });
    expect(half).toMatch(/--reward shaped or --reward ruler$/);
  });

  it.each(["shaped", "ruler"])("--reward %s is not", async (reward) => {
    expect(await warnings(db, { ...judge, reward })).toEqual([]);
  });
});

it("the synthetic mailbox is not warned of", async () => {
  const db = join(folder.path, "synthetic.db");
  await buildMailDatabase({ db, source: { kind: "synthetic", seed: 4, mailboxes: 12 } });
  expect(await warnings(db)).toEqual([]);
});
