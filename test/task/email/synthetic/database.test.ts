import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { openMailDatabaseWriter } from "../../../../src/task/email/database.js";
import { syntheticWorld } from "../../../../src/task/email/synthetic/index.js";

describe("a database of the synthetic world", () => {
  it("takes every mail and every scenario: none is a duplicate of another", () => {
    const writer = openMailDatabaseWriter(join(mkdtempSync(join(tmpdir(), "hone-synthetic-")), "mail.db"));
    const taken = { imported: 0, duplicate: 0, id_taken: 0 };
    for (const { mails, scenarios } of syntheticWorld({ seed: 1, mailboxes: 300 })) {
      for (const mail of mails) taken[writer.add(mail)]++;
      writer.addScenarios(scenarios);
    }
    writer.finish();
    expect([taken.duplicate, taken.id_taken]).toEqual([0, 0]);
    expect(taken.imported).toBeGreaterThan(7_500);
  });
});
