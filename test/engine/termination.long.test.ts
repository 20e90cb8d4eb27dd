/** What workers.test.ts does to 20 workers, to 200. */
import { it } from "vitest";
import { crowd, outlivesItsWorkers } from "./behaviours.js";
import { options, ROUNDING } from "./support.js";

it("200 workers that are terminated in mid-decode do no harm to the others", () =>
  outlivesItsWorkers({ workers: 200, ...crowd }, options({ sequences: 6 }), ROUNDING));
