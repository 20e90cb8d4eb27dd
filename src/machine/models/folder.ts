/** A model file's weights and tokenizer in Hugging Face's form, for programs that read no GGUF. */
import { basename, resolve } from "node:path";
import { modelFingerprint, modelShape } from "../../engine/models.js";
import type { ModelIo } from "./io.js";
import { converterPython, type FolderOptions, runModule, writtenOnce } from "./program.js";

/** The type in which a file's weights are written: without rounding them, where they are not of 8 bits or less. */
const typeFor = (weightType: string) => ({ F16: "f16", BF16: "bf16" })[weightType] ?? "f32";

/**
 * The folder of a model file, written where it is missing.
 * @throws HoneError when it cannot be written
 */
export async function modelFolder(file: string, options: FolderOptions, io: ModelIo): Promise<string> {
  const target = resolve(options.home, "folders", modelFingerprint(file).slice(0, 12));
  return await writtenOnce(target, "writes a model in Hugging Face's form", io, async (into) => {
    const type = typeFor((await modelShape(file)).weightType);
    io.log(`writing ${basename(file)} in Hugging Face's form (${type})`);
    const model = { model: resolve(file), adapter: null, source: null, files: [] };
    await writeModel({ ...model, form: "safetensors", type, into }, await converterPython(options, io), io);
  });
}

/** As native/learner/export.py reads it. */
interface WriteRequest {
  readonly form: "gguf" | "safetensors";
  /** Of its weights: f16, bf16 or f32. */
  readonly type: string;
  readonly model: string;
  readonly adapter: string | null;
  readonly source: string | null;
  readonly files: readonly string[];
  readonly into: string;
}

/** Writes a model, with its adapter merged in where there is one. @throws HoneError when it cannot be written */
export async function writeModel(request: WriteRequest, python: string, io: ModelIo): Promise<void> {
  const failure = `${basename(request.model)} cannot be exported`;
  await runModule(python, ["learner.export", JSON.stringify(request)], io, failure);
}
