// `yarn test:card`: the tests on a null card (test/**/*.card.test.ts), which test/null-card/build.mjs builds. Arguments are handed
// to vitest. part.mjs says how it ends.
import { Part } from "./part.mjs";

const part = new Part("card", "a null card");
const about = { device: { backend: "CUDA's path", name: "null card", driver: "nothing computed" } };
const python = await part.prepare(about);
const { buildNullCard } = await import("../test/null-card/build.mjs");
const notRun = await buildNullCard(python);
if (notRun !== undefined) part.notRun(notRun, about);
await part.run(about);
