// `yarn bench:card`: builds the null card (test/null-card) and the models without weights, and counts on it (bench/card/main.ts, whose
// options are --shapes, --types, --traffic, --sequences, --decoders, --card, --learner, --out).
import { developmentPython, run, tool } from "./test-ground.mjs";

const args = process.argv.slice(2);
if ((await tool("typescript/bin/tsc", ["-p", "tsconfig.build.json"])) !== 0) process.exit(1);
if (!args.includes("--help")) {
  const { ensureTestModels } = await import("../dist/bench/models.js");
  const { buildNullCard } = await import("../test/null-card/build.mjs");
  try {
    const notBuilt = await buildNullCard(await developmentPython(false));
    if (notBuilt !== undefined) throw new Error(`there is no null card: ${notBuilt}`);
    await ensureTestModels(["card"], console.error);
  } catch (error) {
    console.error(`bench:card: ${error.message}`);
    process.exit(1);
  }
}
process.exit(await run(process.execPath, ["dist/bench/card/main.js", ...args]));
