import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { modelFingerprint } from "../../src/engine/models.js";

it("a model file is told from another by its beginning, its end and its size", () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-fingerprint-"));
  const write = (name: string, text: string) => {
    const file = join(folder, name);
    writeFileSync(file, text);
    return modelFingerprint(file);
  };
  const one = write("a", "weights of a model");
  expect(write("copy", "weights of a model")).toBe(one);
  expect(new Set([one, write("b", "Weights of a model"), write("c", "weights of a modeL"), write("d", "w")]).size).toBe(
    4,
  );
});
