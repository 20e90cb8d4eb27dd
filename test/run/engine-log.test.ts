import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { loadEngine } from "../../src/engine/index.js";
import { logEngine } from "../../src/run/engine-log.js";

it("llama.cpp's complaints stand in the file until the log is closed", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "hone-log-")), "engine.log");
  const broken = { model: import.meta.filename, gpu: false, sequences: 1, contextPerSequence: 64 } as const;
  const close = await logEngine(file, false);
  await expect(loadEngine(broken)).rejects.toThrow();
  await vi.waitFor(() =>
    expect(existsSync(file) && readFileSync(file, "utf8")).toMatch(
      /^error: .*magic[\s\S]*^error: .*failed to load model$/m,
    ),
  );
  await close();
  const before = readFileSync(file, "utf8");
  await expect(loadEngine(broken)).rejects.toThrow();
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(readFileSync(file, "utf8")).toBe(before);
});
