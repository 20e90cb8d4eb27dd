/** The objectives that the learner's tests compare with TRL are those that hone sends. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { expect, it } from "vitest";
import { objectives } from "../../src/core/learn/objectives.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { ensureLearnerPython } from "../support/python.js";

it("every objective is compared, with its own bounds", async () => {
  const python = await ensureLearnerPython();
  const folders = ["native", "native/learner/tests"].map((path) => join(packageRoot, path));
  const script = `import json, sys; sys.path[:0] = ${JSON.stringify(folders)}; import batches; print(json.dumps(batches.OBJECTIVES))`;
  const sent = Object.entries(objectives).map(([name, { about: _, paper: __, advantages: ___, ...objective }]) => [
    name,
    objective,
  ]);
  expect(JSON.parse(execFileSync(python, ["-c", script], { encoding: "utf8" }))).toEqual(Object.fromEntries(sent));
});
