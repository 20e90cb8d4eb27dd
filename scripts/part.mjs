// A part of the tests that has a command of its own (`yarn test:gpu`, `test:card`, `test:vllm`): its vitest configuration is
// vitest.NAME.config.ts, its figures are left in build/reports/NAME.json, which scripts/ci.mjs reads.
// Exit status 0: all passed; 1: a test failed; 3: nothing was run, and a line says why.
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { failures, figures, leftOut, prepare, root, takeFlag, tool } from "./test-ground.mjs";

const NOT_RUN = 3;

export class Part {
  /** Arguments for vitest. */
  only = process.argv.slice(2);
  #prepared = takeFlag(this.only, "--prepared");
  #name;
  #what;
  #vitest;

  /**
   * @param {string} name
   * @param {string} what the tests run on, in words
   */
  constructor(name, what) {
    this.#name = name;
    this.#what = what;
    this.#vitest = `build/reports/vitest-${name}.json`;
    mkdirSync(join(root, "build/reports"), { recursive: true });
    for (const report of [this.#vitest, this.#report]) rmSync(join(root, report), { force: true });
  }

  get #report() {
    return `build/reports/${this.#name}.json`;
  }

  #write(result) {
    writeFileSync(join(root, this.#report), `${JSON.stringify(result, null, 2)}\n`);
  }

  /** As `prepare` of test-ground.mjs; ends the process where something cannot be had. Until the end one test counts as failed. */
  async prepare(about = {}) {
    this.#write({ ...about, passed: 0, failed: 1 });
    try {
      return await prepare({ full: false, prepared: this.#prepared });
    } catch (error) {
      console.error(`hone: ${error.message}`);
      console.log("0 passed, 1 failed");
      process.exit(1);
    }
  }

  /** Ends the process: nothing can be run here, which is no failure. */
  notRun(reason, about = {}) {
    this.#write({ ...about, notRun: reason, passed: 0, failed: 0 });
    console.log(`not run: the tests on ${this.#what}: ${reason}`);
    process.exit(NOT_RUN);
  }

  /**
   * Runs the tests and ends the process.
   *
   * @param {object} about what the report says besides
   */
  async run(about = {}, env = {}) {
    const result = { ...about, passed: 0, failed: 1, seconds: 0 };
    this.#write(result);
    const began = performance.now();
    const reporters = ["--reporter=verbose", "--reporter=json", `--outputFile.json=${this.#vitest}`];
    const args = ["run", `--config=vitest.${this.#name}.config.ts`, ...reporters, ...this.only];
    const status = await tool("vitest/vitest.mjs", args, { ...process.env, ...env });
    result.seconds = (performance.now() - began) / 1000;
    if (existsSync(join(root, this.#vitest))) {
      const report = JSON.parse(readFileSync(join(root, this.#vitest), "utf8"));
      Object.assign(result, figures(report, status), { failures: failures(report) });
      for (const { line, failed } of this.only.length === 0 ? leftOut(report) : []) {
        console.log(line);
        if (failed) result.failed += 1;
      }
    }
    this.#write(result);
    console.log(`${result.passed} passed, ${result.failed} failed`);
    process.exit(result.failed === 0 && result.passed > 0 ? 0 : 1);
  }
}
