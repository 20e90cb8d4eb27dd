import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { beforeEach, describe, expect, it } from "vitest";
import { modelOf, withAbsolutePaths } from "../../src/train/given.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "hone-given-"));
});

describe("what a run is begun with", () => {
  it("names files by their whole path, and hone's own models and tasks by name", () => {
    const model = join(home, "m.gguf");
    writeFileSync(model, "");
    expect(withAbsolutePaths({ model: "tiny", task: "email", db: "mail.db", seed: 3 })).toEqual({
      model: "tiny",
      task: "email",
      db: resolve("mail.db"),
      seed: 3,
    });
    expect(withAbsolutePaths({ model }).model).toBe(model);
  });

  it("is the given model, else the recorded one, else hone's own", () => {
    expect(modelOf({ model: "a.gguf" }, "b.gguf")).toBe("a.gguf");
    expect(modelOf({}, "b.gguf")).toBe("b.gguf");
    expect(modelOf({}, undefined)).toBe("tiny");
  });
});
