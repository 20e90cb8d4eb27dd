import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { loadEngine } from "../../src/engine/factory.js";
import { logEngine } from "../../src/engine/load.js";
import { modelFile } from "../../src/engine/models.js";

it("llama.cpp's complaints stand in the file until the log is closed", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "hone-log-")), "engine.log");
  const broken = import.meta.filename;
  const engine = await loadEngine({ model: modelFile("tiny"), gpu: false, sequences: 1, contextPerSequence: 64 });
  const close = await logEngine(file, false);
  await expect(engine.useAdapter(broken)).rejects.toThrow();
  await expect.poll(() => (existsSync(file) ? readFileSync(file, "utf8") : "")).toMatch(/^error: .*magic/m);
  await close();
  const before = readFileSync(file, "utf8");
  await expect(engine.useAdapter(broken)).rejects.toThrow();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(readFileSync(file, "utf8")).toBe(before);
  await engine.close();
});
