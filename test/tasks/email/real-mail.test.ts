/** The tools on real mail: what can be found, and what must not be. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { measureSearchQuality } from "../../../bench/mail/search-quality.js";
import { describeSample } from "../../support/enron-sample.js";
import { expectTeeth, playHostileCalls } from "../../support/hostile-calls.js";
import { temporaryFolder } from "../../support/mails.js";
import { buildSample } from "../../support/sample.js";

describeSample("real mail", () => {
  const folder = temporaryFolder();
  const db = `${folder.path}/sample.db`;
  beforeAll(() => buildSample(db));
  afterAll(() => folder.remove());

  it("every question's evidence may be read, and good words find it", () => {
    const quality = measureSearchQuality(db);
    expect(quality).toMatchObject({ questions: 125, readable: 125 });
    // Measured with plain SQLite, before there were tools: 35, 123, 120.
    expect(quality.all_words).toBeGreaterThanOrEqual(35);
    expect(quality.best_words).toBeGreaterThanOrEqual(123);
    expect(quality.any_word_bm25).toBeGreaterThanOrEqual(120);
    expect(quality.any_word_newest).toBeGreaterThanOrEqual(4);
  });

  it("10,000 hostile calls show nothing that is foreign or later", () => {
    const askers = [
      { inbox_address: "vince.kaminski@enron.com", query_date: "2001-05-10" },
      { inbox_address: "vince.kaminski@enron.com", query_date: "2000-03-01" },
      { inbox_address: "john.arnold@enron.com", query_date: "2001-01-15" },
      { inbox_address: "phillip.allen@enron.com", query_date: "2002-12-31" },
      { inbox_address: "nobody@enron.com", query_date: "2002-12-31" },
    ];
    expectTeeth(playHostileCalls(db, askers, 10_000, "date"));
    expectTeeth(playHostileCalls(db, askers, 1000, "bm25"));
  });
});
