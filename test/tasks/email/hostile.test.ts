/** Hostile calls to the tools, on synthetic mail. On real mail: import/sample.test.ts. */
import { afterAll, expect, it } from "vitest";
import { buildMailDatabase } from "../../../src/email/building/build.js";
import { openMailDatabase } from "../../../src/email/reader.js";
import { expectTeeth, MANY, playHostileCalls } from "../../support/hostile-calls.js";
import { temporaryFolder } from "../../support/mails.js";

const folder = temporaryFolder();
afterAll(() => folder.remove());

it("hostile calls get a short error, an empty list, or mail that may be seen", async () => {
  const db = `${folder.path}/synthetic.db`;
  await buildMailDatabase({ db, source: { kind: "synthetic", seed: 1, mailboxes: 5 } });
  const mail = openMailDatabase(db);
  const askers = mail.scenarios().filter((_, index) => index % 7 === 0);
  mail.close();
  expect(askers.length).toBeGreaterThan(3);
  expectTeeth(playHostileCalls(db, askers, MANY, "date"));
  expectTeeth(playHostileCalls(db, askers, MANY / 10, "bm25"));
});
