/** `--fork` of a folder in PEFT's format: starts a run from an adapter which another program trained. */
import { basename, join } from "node:path";
import type { Config } from "../core/config/config.js";
import { sealCheckpoint } from "../core/run/checkpoints.js";
import type { RunRecord } from "../core/run/records.js";
import { STORE_FILE } from "../core/run/run.js";
import type { RunSettings } from "../core/run/settings.js";
import { RunStore } from "../core/run/store.js";
import type { ModelShape } from "../engine/models.js";
import {
  ADOPTED_FILES,
  adopted,
  checkBelongs,
  checkSettings,
  isPeft,
  type PeftAdapter,
  readPeft,
} from "../machine/models/adapter.js";

const FLAG = "--fork";

/**
 * The initial adapter, where `fork` is one and no checkpoint of a run.
 * @throws UsageError when it has another shape than the run's
 * @throws HoneError when it belongs to another model
 */
export function initialAdapter(
  { fork }: Pick<Config, "fork">,
  { loraRank: rank, loraAlpha: alpha, loraTargets: targets }: RunSettings,
  shape: ModelShape,
): PeftAdapter | undefined {
  if (fork === undefined || !isPeft(fork)) return undefined;
  const adapter = readPeft(fork, FLAG);
  const named = `${FLAG} ${fork}`;
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
  if (initial === undefined || RunStore.hasBegun(join(folder, STORE_FILE))) return undefined;
  const into = await adopted(initial, model, config, io);
  const lora = { rank: settings.loraRank, alpha: settings.loraAlpha, targets: [...settings.loraTargets] };
  const about = { run: basename(initial.folder), step: 0, model: contents.model as string, lora };
  await sealCheckpoint(into, about, ADOPTED_FILES);
  return into;
}
