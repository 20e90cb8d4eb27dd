/** A folder that hone exports in Hugging Face form is a model that hone loads: with --model, as any folder. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readGgufFileInfo } from "node-llama-cpp";
import { afterAll, beforeAll, expect, it } from "vitest";
import { exportRun } from "../../src/machine/export/export.js";
import { resolveModel } from "../../src/machine/models/resolve.js";
import { checkNear, configIn, modelOf, prepared, trainedRun } from "./support.js";

const home = mkdtempSync(join(tmpdir(), "hone-export-round-trip-"));
let python: string;
beforeAll(async () => {
  python = await prepared();
  await trainedRun(home, "counted");
}, 900_000);
afterAll(() => rmSync(home, { recursive: true }));

const io = { log: () => undefined, update: () => undefined };

it("a model with a vocabulary of its own is exported as safetensors, and loaded with the same tokens and template", async () => {
  const config = configIn(home, python, { to: "safetensors", out: join(home, "exported") });
  const { folder } = await exportRun(config, io);
  const file = await resolveModel(folder, { ...config, weights: "f16" }, io);
  await checkNear(file, "f16");
  const tokenizerOf = async (model: string) => {
    const { tokenizer } = (await readGgufFileInfo(model, { readTensorInfo: false, logWarnings: false })).metadata;
    const { model: kind, pre, tokens, token_type: types, merges, eos_token_id: eos } = tokenizer.ggml;
    return { kind, pre, tokens, types, merges, eos, template: tokenizer.chat_template };
  };
  expect(await tokenizerOf(file)).toEqual(await tokenizerOf(modelOf()));
});
