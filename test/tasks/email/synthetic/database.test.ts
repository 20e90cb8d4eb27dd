import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { buildMailDatabase } from "../../../../src/email/building/build.js";
import { openMailDatabase } from "../../../../src/email/reader.js";
import { syntheticWorld } from "../../../../src/email/synthetic/world.js";
import { type Added, openMailDatabaseWriter } from "../../../../src/email/writer.js";

describe("a database of the synthetic world", () => {
  it("takes every mail and every scenario: none is a duplicate of another", () => {
    const writer = openMailDatabaseWriter(join(mkdtempSync(join(tmpdir(), "hone-synthetic-")), "mail.db"));
    const taken: Record<Added, number> = { imported: 0, duplicate: 0, id_taken: 0 };
    for (const { mails, scenarios } of syntheticWorld({ seed: 1, mailboxes: 300 })) {
      for (const mail of mails) taken[writer.add(mail)]++;
      writer.addScenarios(scenarios);
    }
    writer.finish();
    expect(taken).toEqual({ imported: expect.any(Number), duplicate: 0, id_taken: 0 });
    expect(taken.imported).toBeGreaterThan(7_500);
  });

  it("is what yarn build-db makes, with default or with reserved names", async () => {
    const db = join(mkdtempSync(join(tmpdir(), "hone-synthetic-")), "mail.db");
    const questions = async (names: "default" | "reserved") => {
      await buildMailDatabase({ db, source: { kind: "synthetic", seed: 4, mailboxes: 3, names } });
      const mail = openMailDatabase(db);
      const scenarios = mail.scenarios();
      mail.close();
      return scenarios;
    };
    for (const names of ["default", "reserved"] as const) {
      const expected = [...syntheticWorld({ seed: 4, mailboxes: 3, names })].flatMap(({ scenarios }) => scenarios);
      expect(await questions(names)).toEqual(expected);
    }
  });
});
