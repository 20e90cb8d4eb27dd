import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { defineConfig } from "vitest/config";
import { longestFirst } from "./test/support/longest-first.js";

/** Slower tests: `yarn test --full` has them, too. */
const full = process.env.TEST_FULL ? "" : ",full";
const exclude = [`test/**/*.{gpu,card,vllm,long${full}}.test.ts`];

/**
 * In the text of a test file: it replaces modules, changes what its whole process has (variables, folder, globals, handlers, clocks), or loads
 * llama.cpp by node-llama-cpp, which takes the log from which hone's engine counts; or the file says that it needs one for another reason.
 */
const changesItsProcess =
  /\bvi\.(mock|doMock|resetModules|stubEnv|stubGlobal|useFakeTimers)\(|\bprocess\.(chdir|on|once|emit)\(|\bdelete process\.env\b|\bprocess\.env(\.\w+|\[\w+\]) = |\b(getLlama|loadVocabulary)\(|^\/\/ Needs a process of its own:/m;

/** Of the slower tests that guard the step. */
const FIRST = ["stale-adapter", "huggingface", "replay", "kinds", "learner", "ahead-steps", "fork-of-sft", "ends"];

const root = fileURLToPath(new URL(".", import.meta.url));
const files = readdirSync(join(root, "test"), { recursive: true, encoding: "utf8" })
  .filter((name) => name.endsWith(".test.ts"))
  .map((name) => join("test", name));
const alone = files.filter((file) => changesItsProcess.test(readFileSync(join(root, file), "utf8")));

export default defineConfig({
  test: {
    // Once for all projects: these read it from their environment.
    globalSetup: ["test/support/temporary-folder.ts"],
    // Beside Vitest itself, which waits. Tests wait for processes and clocks half of their time, too.
    maxWorkers: "100%",
    sequence: { sequencer: longestFirst(FIRST.map((name) => `${name}.full`)) },
    projects: [
      {
        test: { name: "alone", include: alone, isolate: true },
      },
      {
        // A worker keeps what it has loaded for its next file: importing the same modules 200 times took a quarter of the time.
        test: { name: "shared", include: ["test/**/*.test.ts"], isolate: false },
      },
    ].map(({ test }) => ({
      test: {
        ...test,
        exclude: test.isolate ? exclude : [...exclude, ...alone],
        setupFiles: ["test/support/environment.ts"],
        // For what hangs. A slow or busy machine is no failure: nothing that is timed is a test.
        testTimeout: 600_000,
        hookTimeout: 900_000,
        expect: { poll: { timeout: 300_000 } },
      },
    })),
  },
});
