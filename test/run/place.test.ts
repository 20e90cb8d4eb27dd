import { existsSync, mkdirSync, mkdtempSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { STORE_FILE } from "../../src/core/run/run.js";
import { RunStore } from "../../src/core/run/store.js";
import { UsageError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { findRun, findRuns } from "../../src/machine/runs/place.js";
import { placeOf } from "../../src/trainer/plan-run.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hone-place-"));
});

/** @param age seconds since its last change */
function makeRun(project: string, name: string, age: number): string {
  const folder = join(home, project, "models", name);
  mkdirSync(folder, { recursive: true });
  const file = join(folder, STORE_FILE);
  writeFileSync(file, "");
  const when = Date.now() / 1000 - age;
  utimesSync(file, when, when);
  return folder;
}

describe("the folder of a run", () => {
  const place = (more: Partial<Parameters<typeof placeOf>[0]>) =>
    placeOf({ home, project: undefined, run: undefined, model: undefined, task: "email", ...more });

  it("is named after the task and the model", async () => {
    expect(await place({})).toBe(join(home, "email/models/tiny"));
    expect(await place({ model: "/somewhere/Qwen2.5-0.5B-f16.gguf" })).toBe(
      join(home, "email/models/Qwen2.5-0.5B-f16"),
    );
    for (const model of ["Qwen/Qwen2.5-0.5B-Instruct", "Qwen/Qwen2.5-0.5B-Instruct@v1.0"]) {
      expect(await place({ model })).toBe(join(home, "email/models/Qwen2.5-0.5B-Instruct"));
    }
    for (const model of ["hf:Qwen/Some-GGUF:some-q8_0.gguf", "hf:Qwen/Some-GGUF@v1:sub/some-q8_0.gguf"]) {
      expect(await place({ model })).toBe(join(home, "email/models/some-q8_0"));
    }
    const task = join(packageRoot, "examples/arithmetic.ts");
    expect(await place({ task })).toBe(join(home, "arithmetic/models/tiny"));
  });

  it("has the names that are given", async () => {
    expect(await place({ project: "mine", run: "second" })).toBe(join(home, "mine/models/second"));
  });

  it.each(["../up", "a/b", "", ".hidden", "two words"])("refuses the name %j", async (name) => {
    await expect(place({ run: name })).rejects.toThrow(`--run ${name}: use letters`);
    await expect(place({ project: name })).rejects.toThrow(`--project ${name}: use letters`);
  });
});

describe("a run that is meant", () => {
  it("is the newest that has finished a step, for those who need a trained one", () => {
    const trained = (project?: string, run?: string, task?: string) =>
      findRun({ home, project, run }, { trained: true, given: task ? { task } : {} }).name;
    const begun = (name: string, steps: number, age: number, task = "email") => {
      const file = join(makeRun("sums", name, age), STORE_FILE);
      const store = RunStore.open(file);
      store.begin(
        { name, created: "2031-01-01T00:00:00Z", options: { task }, contents: {} },
        { checkpoint: null, adapter: null },
      );
      const row = { checkpoint: 1, adapter: "ab", metrics: null, timing: null };
      for (let step = 1; step <= steps; step++) store.commitStep({ ...row, step }, []);
      store.close();
      utimesSync(file, Date.now() / 1000 - age, Date.now() / 1000 - age);
    };
    begun("failed", 0, 100);
    makeRun("sums", "never-begun", 50);
    expect(() => trained()).toThrow(
      `no run in ${home} has finished a step yet (sums/never-begun, sums/failed); \`yarn train\` goes on with one, and a run that you name is taken as it is`,
    );
    begun("oldest", 2, 300);
    begun("trained", 1, 200);
    expect(trained()).toBe("trained");
    expect(trained(undefined, "failed")).toBe("failed");
    begun("of-another-task", 1, 100, "/somewhere/shout.ts");
    expect(trained()).toBe("of-another-task");
    expect(trained(undefined, undefined, "email")).toBe("trained");
    expect(trained(undefined, undefined, "/nobody/has.ts")).toBe("of-another-task");
    expect(findRun({ home, project: undefined, run: undefined }).name).toBe("never-begun");
    // One that cannot be read may have steps: whoever opens it says what is wrong.
    writeFileSync(join(makeRun("sums", "damaged", 0), STORE_FILE), "no database, but long enough for a header of one");
    expect(trained()).toBe("damaged");
  });

  it("is the newest one, of a project, or the one of that name", () => {
    makeRun("email", "old", 300);
    makeRun("sums", "newest", 100);
    makeRun("email", "newer", 200);
    const find = (project?: string, run?: string) => {
      const found = findRun({ home, project, run });
      return `${found.project}/${found.name}`;
    };
    expect(find()).toBe("sums/newest");
    expect(find("email")).toBe("email/newer");
    expect(find(undefined, "old")).toBe("email/old");
    expect(find("email", "old")).toBe("email/old");
    // As runs are listed.
    expect(find(undefined, "email/old")).toBe("email/old");
    expect(() => find(undefined, "email/newest")).toThrow("there is no run email/newest");
    expect(findRuns(home).map(({ name }) => name)).toEqual(["newest", "newer", "old"]);
  });

  it("counts what a running one has written last", () => {
    const folder = makeRun("email", "running", 300);
    makeRun("email", "done", 100);
    writeFileSync(join(folder, `${STORE_FILE}-wal`), "a write");
    expect(findRun({ home, project: undefined, run: undefined }).name).toBe("running");
  });

  it("is still the newest one after somebody has looked at an older", () => {
    const file = join(makeRun("email", "older", 300), STORE_FILE);
    makeRun("email", "newest", 100);
    RunStore.open(file).close();
    utimesSync(file, Date.now() / 1000 - 300, Date.now() / 1000 - 300);
    RunStore.read(file).close();
    expect(existsSync(`${file}-wal`)).toBe(true);
    expect(findRun({ home, project: undefined, run: undefined }).name).toBe("newest");
  });

  it("is missed in one line that names those there are", () => {
    expect(() => findRun({ home, project: undefined, run: undefined })).toThrow(/there are no runs in .*yarn train/);
    makeRun("email", "tiny", 0);
    expect(() => findRun({ home, project: undefined, run: "tony" })).toThrow(
      `there is no run tony in ${home}; there are email/tiny`,
    );
    expect(() => findRun({ home, project: "sums", run: "tiny" })).toThrow("there is no run sums/tiny");
  });

  it("is not looked for in a file: one line says so", () => {
    const file = join(home, "file");
    writeFileSync(file, "");
    expect(() => findRuns(file)).toThrow(new UsageError(`--home ${file} is a file; give the folder of the runs`));
    // Where a project has a file of that name, it has no runs.
    mkdirSync(join(home, "email"));
    writeFileSync(join(home, "email/models"), "");
    expect(findRuns(home)).toEqual([]);
  });

  it("is not a folder without a store", () => {
    mkdirSync(join(home, "email/models/empty"), { recursive: true });
    expect(findRuns(home)).toEqual([]);
    expect(findRuns(join(home, "nowhere"))).toEqual([]);
  });
});
