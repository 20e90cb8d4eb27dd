import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { emailTask } from "../../src/email/email-task.js";
import { withAbsolutePaths } from "../../src/machine/models/absolute-paths.js";
import { modelOf } from "../../src/trainer/settings.js";
import { openedTask } from "../../src/trainer/task.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hone-given-"));
});

describe("what a run is begun with", () => {
  it("names files by their whole path, and hone's own models and tasks by name", () => {
    const model = join(home, "m.gguf");
    writeFileSync(model, "");
    expect(withAbsolutePaths({ model: "tiny", task: "email", seed: 3 })).toEqual({
      model: "tiny",
      task: "email",
      seed: 3,
    });
    expect(withAbsolutePaths({ model }).model).toBe(model);
    expect(withAbsolutePaths({ model: "Qwen/Qwen2.5-0.5B-Instruct" }).model).toBe("Qwen/Qwen2.5-0.5B-Instruct");
  });

  it("keeps a short name of the catalogue, and a task of hone's, where a folder is called like it", () => {
    const before = process.cwd();
    mkdirSync(join(home, "qwen2.5-0.5b"));
    mkdirSync(join(home, "email"));
    writeFileSync(join(home, "openenv"), "");
    // Its index.ts is the task's file.
    mkdirSync(join(home, "folder"));
    writeFileSync(join(home, "task.ts"), "");
    process.chdir(home);
    try {
      expect(withAbsolutePaths({ model: "qwen2.5-0.5b" }).model).toBe("qwen2.5-0.5b");
      expect(withAbsolutePaths({ model: "./qwen2.5-0.5b" }).model).toBe(resolve("qwen2.5-0.5b"));
      expect(withAbsolutePaths({ task: "email" }).task).toBe("email");
      expect(withAbsolutePaths({ task: "openenv" }).task).toBe("openenv");
      expect(withAbsolutePaths({ task: "folder" }).task).toBe(resolve("folder"));
      expect(withAbsolutePaths({ task: "task.ts" }).task).toBe(resolve("task.ts"));
      const opened = { task: emailTask, options: { seed: 1, home }, scenarios: [], mcp: undefined, servers: undefined };
      expect(openedTask({ ...opened, reference: "email" }).reference).toBe("email");
      expect(openedTask({ ...opened, reference: "task.ts" }).reference).toBe(resolve("task.ts"));
    } finally {
      process.chdir(before);
    }
  });

  it("is the given model, else the recorded one, else hone's own", () => {
    expect(modelOf({ model: "a.gguf" }, "b.gguf")).toBe("a.gguf");
    expect(modelOf({}, "b.gguf")).toBe("b.gguf");
    expect(modelOf({}, undefined)).toBe("tiny");
  });
});
