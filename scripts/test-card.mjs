// `yarn test:card`: the tests on a null card (test/**/*.card.test.ts), which test/null-card/build.mjs builds. `--full` adds the
// slower ones (*.full.card.test.ts, and more pairs of cards and types). Other arguments are handed to vitest. part.mjs says how it ends.
import { Part } from "./part.mjs";
import { takeFlag } from "./test-ground.mjs";

const part = new Part("card", "a null card");
const full = takeFlag(part.only, "--full");
const about = { device: { backend: "CUDA's path", name: "null card", driver: "nothing computed" } };
const python = await part.prepare(about);
const { buildNullCard } = await import("../test/null-card/build.mjs");
const notRun = await buildNullCard(python);
if (notRun !== undefined) part.notRun(notRun, about);
await part.run(about, { TEST_FULL: full ? "1" : "" });
