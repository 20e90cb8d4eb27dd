/** What workers.test.ts does to 20 workers, to 200. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/util/paths.js";
import { options, ROUNDING } from "./support.js";

it("200 workers that are terminated in mid-decode do no harm to the others", async () => {
  const job = { door: join(packageRoot, "dist/src/engine/index.js"), workers: 200, engine: options({ sequences: 6 }) };
  const script = join(packageRoot, "test/engine/termination.mjs");
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify(job)]);
  const { stops, worst, sequences } = JSON.parse(stdout);
  expect(stops).toEqual(["length"]);
  expect(worst).toBeLessThan(ROUNDING);
  expect(sequences).toEqual({ open: 0, running: 0, queued: 0 });
});
