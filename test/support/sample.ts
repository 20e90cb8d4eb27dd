/** The sample of real mail, if it is beside the repository. */
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";
import { buildMailDatabase } from "../../src/email/building/build.js";

const folder = join(packageRoot, "../shared/data/enron-sample");

/** Builds a database of all of its mail and the questions that this mail can answer. */
export async function buildSample(db: string): Promise<void> {
  await buildMailDatabase({
    db,
    source: {
      kind: "mail",
      paths: ["maildir-3-owners.tar.gz", "mbox-kaminski-and-6-others.tar.gz"].map((name) => join(folder, name)),
      questions: [join(folder, "questions-covered.jsonl")],
      rules: { maxBody: 0, maxRecipients: 0, oneEvidence: false, dropKnownBad: false },
    },
  });
}
