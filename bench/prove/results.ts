/** Where the results of `yarn prove` lie: one file, whose rows are replaced. */
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";

export const PROVE_RESULTS = join(packageRoot, "bench/results/prove.json");
