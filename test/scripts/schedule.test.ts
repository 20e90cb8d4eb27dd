/** How `.ci/run` runs its parts and what it says of those that fail. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

interface Part {
  name: string;
  command: string[];
  after: string[];
  waits?: boolean;
  beside?: string;
  optional?: boolean;
  tests?: string;
}

const { runParts } = await import(join(packageRoot, "scripts/schedule.mjs"));

let folder: string;
let said: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-schedule-"));
  said = [];
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const part = (name: string, script: string, after: string[] = [], more: Partial<Part> = {}): Part => ({
  name,
  after,
  command: ["sh", "-c", script],
  ...more,
});
const run = (...parts: Part[]): Promise<{ passed: number; failed: number }> =>
  runParts(parts, { root: folder, reports: folder, say: (text: string) => said.push(...text.split("\n")) });
const report = (name: string, passed: number, failed: number) =>
  `echo '{"passed": ${passed}, "failed": ${failed}}' > ${name}.json`;

it("sums up the tests of all parts", async () => {
  const [gpu, all] = [report("gpu", 3, 0), report("test", 20, 1)];
  expect(
    await run(part("test:gpu", gpu, [], { tests: "a GPU" }), part("test", all, [], { tests: "the tests" })),
  ).toEqual({
    passed: 23,
    failed: 1,
  });
  expect(said).toEqual(expect.arrayContaining(["a GPU: 3 passed, 0 failed", "the tests: 20 passed, 1 failed"]));
});

it("repeats the last lines of a part that failed after everything else, and begins nothing that needs it", async () => {
  const failing = part("types", "seq 100; echo not assignable; exit 2");
  const sum = await run(failing, part("after", "touch begun", ["types"]), part("beside", "echo well"));
  expect(sum).toEqual({ passed: 0, failed: 2 });
  expect(existsSync(join(folder, "begun"))).toBe(false);
  const end = said.slice(said.lastIndexOf("well") + 1).join("\n");
  expect(end).toMatch(
    /^===== types failed; its last lines \(all are in .*ci-types\.log\):\n62\n(.*\n)*100\nnot assignable$/m,
  );
  expect(end).toContain("===== after did not begin");
});

it("goes on without an optional part", async () => {
  const sum = await run(part("GPU", "exit 1", [], { optional: true }), part("lint", "touch begun", ["GPU"]));
  expect(sum).toEqual({ passed: 0, failed: 0 });
  expect(existsSync(join(folder, "begun"))).toBe(true);
});

it("runs what computes one after the other, and beside it what waits, or shares the cores with it", async () => {
  // These three end once all have begun; the second may begin only after the first.
  const meet = (name: string) => `touch ${name}; until [ -e a ] && [ -e w ] && [ -e b ]; do sleep 0.02; done`;
  const sum = await run(
    part("a", `${meet("a")}; touch a-is-over`),
    part("second", "test -e a-is-over"),
    part("w", meet("w"), [], { waits: true }),
    part("b", meet("b"), [], { beside: "a" }),
  );
  expect(sum).toEqual({ passed: 0, failed: 0 });
});

it("runs two parts that share the cores at once, whichever can begin first", async () => {
  const meet = (name: string) => `touch ${name}; until [ -e a ] && [ -e b ]; do sleep 0.02; done`;
  const sum = await run(
    part("made", "until [ -e b ]; do sleep 0.02; done", [], { waits: true }),
    part("a", meet("a"), ["made"]),
    part("b", meet("b"), [], { beside: "a" }),
  );
  expect(sum).toEqual({ passed: 0, failed: 0 });
});

it("counts a part of tests that leaves no report as failed", async () => {
  expect(await run(part("test:vllm", "exit 1", [], { tests: "vLLM" }))).toEqual({ passed: 0, failed: 1 });
});
