/** Merged files of every type against the engine that plays the adapter. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type ExportConfig, exportRun } from "../../src/machine/export/export.js";
import { checkNear, configIn, prepared, trainedRun } from "./support.js";

const home = mkdtempSync(join(tmpdir(), "hone-export-types-"));
let python: string;
beforeAll(async () => {
  python = await prepared();
  await trainedRun(home, "counted");
}, 900_000);
afterAll(() => rmSync(home, { recursive: true }));

const configOf = (given: Partial<ExportConfig>) => configIn(home, python, given);
const io = { log: () => undefined, update: () => undefined };

it.each(["f16", "bf16", "q8_0"] as const)(
  "a GGUF file with %s weights is the engine's model with its adapter",
  async (type) => {
    const { folder } = await exportRun(configOf({ to: "gguf", type, out: join(home, type) }), io);
    await checkNear(join(folder, `model-${type}.gguf`), type);
  },
  600_000,
);

it("a folder for Ollama has the model and a Modelfile that names it", async () => {
  const { folder, files } = await exportRun(configOf({ to: "ollama", type: "q8_0", out: join(home, "ollama") }), io);
  expect(files).toEqual(["Modelfile", "README.md", "model-q8_0.gguf", "hone-export.json"]);
  expect(readFileSync(join(folder, "Modelfile"), "utf8")).toContain("FROM ./model-q8_0.gguf\nTEMPLATE");
  await checkNear(join(folder, "model-q8_0.gguf"), "q8_0");
}, 600_000);
