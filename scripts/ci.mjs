// `.ci/run`: everything a change must pass, on a clean checkout. Nothing is imported from node_modules: the first part installs them.
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { runParts } from "./schedule.mjs";

const root = fileURLToPath(new URL("..", import.meta.url));
const yarn = (...args) => ["npx", "--yes", "yarn@1.22.22", "-s", ...args];
const node = (...args) => [process.execPath, ...args];

/** @type {readonly import("./schedule.mjs").Part[]} Those whose turn it is begin in this order. */
const PARTS = [
  { name: "install", command: yarn("install", "--frozen-lockfile"), after: [] },
  { name: "GPU", command: ["bash", "scripts/software-gpu.sh"], after: [], waits: true, optional: true },
  // One apt at a time.
  { name: "Chromium", command: ["bash", "scripts/chromium.sh"], after: ["GPU"], waits: true, optional: true },
  { name: "prepare", command: node("scripts/prepare.mjs"), after: ["install"], waits: true },
  { name: "lock", command: node("scripts/lock.mjs", "--check"), after: ["install"], waits: true },
  { name: "lint", command: yarn("lint"), after: ["install"] },
  { name: "types", command: yarn("typecheck"), after: ["install"] },
  { name: "card", command: node("scripts/prepare.mjs", "card"), after: ["prepare"], waits: true, optional: true },
  { name: "vLLM", command: node("scripts/prepare.mjs", "vllm"), after: ["prepare"], waits: true, optional: true },
  {
    name: "test",
    command: node("scripts/test.mjs", "--prepared"),
    after: ["prepare", "Chromium"],
    tests: "the tests",
  },
  {
    name: "test:guards",
    command: node("scripts/test.mjs", "--guards", "--prepared"),
    after: ["prepare"],
    tests: "the slower tests of the step",
  },
  {
    name: "test:gpu",
    command: node("scripts/test-gpu.mjs", "--prepared"),
    after: ["prepare", "GPU"],
    tests: "the tests on a GPU",
  },
  {
    name: "test:card",
    command: node("scripts/test-card.mjs", "--prepared"),
    after: ["card"],
    tests: "the tests on a null card",
  },
  {
    name: "test:vllm",
    command: node("scripts/test-vllm.mjs", "--prepared"),
    after: ["vLLM"],
    beside: "test:card",
    tests: "the tests on vLLM",
  },
];

const { passed, failed } = await runParts(PARTS, { root, reports: join(root, "build/reports"), say: console.log });
console.log(`${passed} passed, ${failed} failed`);
process.exit(failed === 0 && passed > 0 ? 0 : 1);
