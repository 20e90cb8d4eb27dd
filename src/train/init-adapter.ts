/** `--init-adapter`: starts a run from an adapter which another program trained. */
import { basename, join } from "node:path";
import type { Config } from "../config/index.js";
import type { ModelShape } from "../engine/index.js";
import {
  ADOPTED_FILES,
  adopted,
  checkBelongs,
  checkSettings,
  linesTo,
  type PeftAdapter,
  readPeft,
} from "../models/index.js";
import { type RunRecord, type RunSettings, RunStore, STORE_FILE, sealCheckpoint } from "../run/index.js";
import { UsageError } from "../util/index.js";

const FLAG = "--init-adapter";

/**
 * The initial adapter, if one was given.
 * @throws UsageError when the folder holds no adapter, or one of another shape than the run's
 * @throws HoneError when it belongs to another model
 */
export function initialAdapter(
  { initAdapter, fork }: Pick<Config, "initAdapter" | "fork">,
  { loraRank: rank, loraAlpha: alpha, loraTargets: targets }: RunSettings,
  shape: ModelShape,
): PeftAdapter | undefined {
  if (initAdapter === undefined) return undefined;
  if (fork !== undefined)
    throw new UsageError(`--fork and ${FLAG} both say what the run starts from; give one of them`);
  const adapter = readPeft(initAdapter, FLAG);
  const named = `${FLAG} ${initAdapter}`;
  checkBelongs(adapter, shape, named);
  checkSettings(adapter, { rank, alpha, targets }, named);
  return adapter;
}

interface Starting {
  readonly folder: string;
  readonly model: string;
  readonly settings: RunSettings;
  readonly contents: RunRecord["contents"];
  readonly initial: PeftAdapter | undefined;
}

/** A checkpoint folder with the initial adapter for a new run; undefined for one that continues. */
export async function firstCheckpoint(
  { folder, model, settings, contents, initial }: Starting,
  config: Pick<Config, "home" | "python" | "torchIndex">,
  io: { readonly log: (text: string) => void; readonly signal: AbortSignal },
): Promise<string | undefined> {
  if (initial === undefined || hasBegun(folder)) return undefined;
  const into = await adopted(initial, model, config, linesTo(io.log, io.signal));
  const lora = { rank: settings.loraRank, alpha: settings.loraAlpha, targets: [...settings.loraTargets] };
  const about = { run: basename(initial.folder), step: 0, model: contents.model as string, lora };
  await sealCheckpoint(into, about, ADOPTED_FILES);
  return into;
}

function hasBegun(folder: string): boolean {
  const file = join(folder, STORE_FILE);
  if (!RunStore.recordIn(file)) return false;
  const store = RunStore.read(file);
  try {
    const { step, checkpoint } = store.lastStep();
    return step > 0 || checkpoint !== null;
  } finally {
    store.close();
  }
}
