/** Writes a checkpoint of a run in a format that other programs load. */
import { copyFileSync, existsSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { Config, OptionOf } from "../../core/config/config.js";
import { settingsOf } from "../../core/run/settings.js";
import { UsageError } from "../../core/util/errors.js";
import { aboutPackage } from "../../core/util/paths.js";
import { chatTemplatesOf, type ModelShape, modelShape } from "../../engine/models.js";
import { quantizeModel } from "../../engine/quantize.js";
import { hubOptionsOf } from "../hub/hub-options.js";
import { writeModel } from "../models/folder.js";
import type { ModelIo } from "../models/io.js";
import { converterPython } from "../models/program.js";
import { resolveWithSource } from "../models/resolve.js";
import { filesOf, unchangedFiles } from "../models/source.js";
import { needDisk } from "../plan/machine.js";
import { checkTrainedFrom, type OpenCheckpoints, openCheckpoints } from "../runs/checkpoint-choice.js";
import { namedRun } from "../runs/place.js";
import { RunReader } from "../runs/reader.js";
import { type Base, baseOf, peftBaseName } from "./base.js";
import { cardText } from "./card.js";
import { bytesNeeded, checkType, type Form, isAdapter, modelFileName, type WeightType } from "./form.js";
import { modelfileText, ollamaTemplate } from "./modelfile.js";
import { checkPlace, OUT_ELSEWHERE, writeFolder } from "./place.js";
import { checkPush, push } from "./push.js";

export type ExportConfig = Omit<Config<OptionOf<"export">>, "to"> & { readonly to: Form };

export interface Exported {
  readonly run: string;
  readonly step: number;
  readonly form: Form;
  /** Type of the model's weights; null for an adapter alone. */
  readonly type: WeightType | null;
  readonly folder: string;
  readonly files: readonly string[];
  /** Repository that it was pushed to. */
  readonly repository: string | null;
}

interface Chosen {
  readonly opened: OpenCheckpoints;
  readonly step: number;
  /** Folder of the checkpoint. */
  readonly folder: string;
}

/** @param log told where no name was given and the best checkpoint is the base model, so that the latest is taken */
async function chosenCheckpoint(
  { home, project, run, checkpoint }: Pick<ExportConfig, "home" | "project" | "run" | "checkpoint">,
  log: (line: string) => void,
): Promise<Chosen> {
  const [name, more] = checkpoint ?? ["best", undefined];
  if (name === undefined || more !== undefined) throw new UsageError("export takes one --checkpoint");
  const place = namedRun({ home, project }, run, { trained: true });
  let opened = await openCheckpoints(place, [name]);
  let [chosen] = opened.chosen;
  if (checkpoint === undefined && !chosen?.adapter) {
    opened = await openCheckpoints(place, ["latest"]);
    [chosen] = opened.chosen;
    if (chosen?.adapter)
      log(`no checkpoint of ${opened.name} did better than its base in a validation: the latest is taken`);
  }
  if (chosen?.adapter && chosen.step !== null) {
    return { opened, step: chosen.step, folder: dirname(chosen.adapter.path) };
  }
  throw new UsageError(
    `--checkpoint ${name}: the run ${opened.name} has no adapter there, but its base model; give a number, or another run with --run`,
  );
}

/**
 * @throws UsageError for invalid options, before anything is written
 * @throws HoneError when it cannot be written; nothing is left behind
 */
export async function exportRun(config: ExportConfig, io: ModelIo): Promise<Exported> {
  const { to: form, home, force } = config;
  const hub = hubOptionsOf(config);
  checkPush(config.push, hub);
  checkType(form, config.type);
  const chosen = await chosenCheckpoint(config, io.log);
  const { opened, step } = chosen;
  const settings = settingsOf(opened.record);
  const base = baseOf(settings.model, config.baseName);
  const out = resolve(config.out ?? join(home, "exports", `${opened.name}-${step}-${form}`));
  checkPlace(out, force);
  const needsPython = config.push !== undefined || !isAdapter(form);
  const interpreter = needsPython ? await converterPython(config, io) : "";
  const model = isAdapter(form) ? undefined : await modelOf(chosen, config, io);
  const type = model ? (config.type ?? (model.weightType === "BF16" ? "bf16" : "f16")) : null;
  const { version: hone } = aboutPackage();
  const about = { run: opened.name, step, form, type, base: base.repository ?? base.name, hone };
  const files = await writeFolder(out, force, async (draft) => {
    io.log(`writing ${opened.name}, step ${step}, as ${form}${type === null ? "" : ` (${type})`}`);
    let file: string | null = null;
    if (form === "peft") writePeft(chosen, base, settings.model, draft);
    if (form === "gguf-lora") {
      file = "adapter.gguf";
      copyFileSync(join(chosen.folder, file), join(draft, file));
    }
    if (model && type) file = await writeMerged(form, chosen, model, type, draft, interpreter, io);
    if (form === "ollama" && model && file) {
      const { chat = "", tools: tooled } = await chatTemplatesOf(model.file);
      const { template, tools } = ollamaTemplate(chat, model.file, tooled);
      if (!tools) {
        io.log("the model's template lists tools in a form of its own: in Ollama, name them in the system message");
      }
      const { temperature, context } = settings;
      writeFileSync(join(draft, "Modelfile"), modelfileText({ file, template, temperature, context }));
    }
    writeFileSync(join(draft, "README.md"), card(chosen, base, form, type, file));
    return about;
  });
  const message = `${opened.name}, step ${step} (hone)`;
  const repository = config.push === undefined ? null : await push(out, config.push, message, hub, interpreter, io);
  return { run: opened.name, step, form, type, folder: out, files, repository };
}

interface BaseModel extends Pick<ModelShape, "weightType" | "parameters"> {
  readonly file: string;
  readonly source: string | undefined;
}

/** The model file on which the adapter was trained. */
async function modelOf({ opened }: Chosen, config: ExportConfig, io: ModelIo): Promise<BaseModel> {
  const settings = settingsOf(opened.record);
  const reference = config.model ?? settings.model;
  const weights = config.weights ?? settings.weights;
  const { file, source } = await resolveWithSource(reference, { ...config, weights }, io);
  checkTrainedFrom(file, opened);
  const given = config.baseFolder === undefined ? undefined : resolve(config.baseFolder);
  if (given !== undefined && !existsSync(join(given, "config.json"))) {
    throw new UsageError(
      `--base-folder: there is no ${join(given, "config.json")}; give the model's Hugging Face folder`,
    );
  }
  return { ...(await modelShape(file)), file, source: given ?? source };
}

/** @returns the model's file, in formats with a single one */
async function writeMerged(
  form: Form,
  { folder }: Chosen,
  { file: model, source, parameters }: BaseModel,
  type: WeightType,
  draft: string,
  python: string,
  io: ModelIo,
): Promise<string | null> {
  needDisk(draft, bytesNeeded(parameters, type), "the export", OUT_ELSEWHERE);
  const files = source === undefined ? [] : unchangedFiles(filesOf(source));
  const request = { model, adapter: join(folder, "adapter"), source: source ?? null, files };
  if (form === "safetensors") {
    await writeModel({ ...request, form: "safetensors", type, into: draft }, python, io);
    return null;
  }
  const name = modelFileName(type);
  if (type === "f16" || type === "bf16") {
    await writeModel({ ...request, form: "gguf", type, into: join(draft, name) }, python, io);
    return name;
  }
  // Converted through f32, so that each weight is rounded once.
  const whole = join(draft, "model-f32.gguf");
  await writeModel({ ...request, form: "gguf", type: "f32", into: whole }, python, io);
  io.signal?.throwIfAborted();
  await quantizeModel(whole, join(draft, name), type);
  rmSync(whole);
  return name;
}

/** Copies the checkpoint's adapter; its configuration names the base model by its public name. */
function writePeft({ folder }: Chosen, base: Base, reference: string, draft: string): void {
  const adapter = join(folder, "adapter");
  const config = JSON.parse(readFileSync(join(adapter, "adapter_config.json"), "utf8"));
  const from = { base_model_name_or_path: peftBaseName(base, reference), revision: base.loading.revision ?? null };
  const named = { ...config, ...from, inference_mode: true };
  writeFileSync(join(draft, "adapter_config.json"), `${JSON.stringify(named, null, 2)}\n`);
  copyFileSync(join(adapter, "adapter_model.safetensors"), join(draft, "adapter_model.safetensors"));
}

function card({ opened, step }: Chosen, base: Base, form: Form, type: WeightType | null, file: string | null): string {
  using reader = RunReader.open(opened.folder);
  return cardText({
    form,
    type,
    file,
    base,
    step,
    record: opened.record,
    settings: settingsOf(opened.record),
    run: opened.name,
    validations: reader.validations(),
    devices: reader.devices(),
    mismatch: opened.highestMismatch,
    hone: aboutPackage().version,
  });
}
