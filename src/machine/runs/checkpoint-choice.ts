/** A run's checkpoints by the names people use: latest, best, base, or a number. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Config, type GivenOptions, givenOf } from "../../core/config/config.js";
import { chatOptions } from "../../core/rollout/conversation.js";
import { ADAPTER_FILE, Checkpoints, verifyCheckpoint } from "../../core/run/checkpoints.js";
import { type Adapter, mismatchesOf, type RunRecord } from "../../core/run/records.js";
import { bestOf } from "../../core/run/run.js";
import { type RunSettings, settingsOf } from "../../core/run/settings.js";
import { UsageError } from "../../core/util/errors.js";
import { hone } from "../../core/util/program.js";
import { modelFingerprint } from "../../engine/models.js";
import { type FoundRun, findRun } from "./place.js";
import { RunReader } from "./reader.js";

/** The player, how it is written to, and its MCP servers. */
const PLAYING = ["model", "weights", "adapter", "task", ...chatOptions, "mcp", "mcpAllow", "mcpDeny"] as const;

export interface ChosenCheckpoint {
  /** The name as the user gave it. */
  readonly checkpoint: string;
  /** Step whose update it holds; null is the base model. */
  readonly step: number | null;
  readonly adapter: Adapter | null;
}

/**
 * @throws UsageError when there is no such checkpoint
 * @throws HoneError when it is damaged
 */
async function chooseCheckpoint(
  { folder, name: run }: Pick<FoundRun, "folder" | "name">,
  reader: RunReader,
  name: string,
): Promise<ChosenCheckpoint> {
  const checkpoints = new Checkpoints(join(folder, "checkpoints"));
  const step = stepOf(reader, name, checkpoints, run);
  if (step === null) return { checkpoint: name, step, adapter: null };
  const path = checkpoints.pathOf(step);
  if (!existsSync(path)) throw noSuch(name, checkpoints, run);
  const manifest = await verifyCheckpoint(path);
  const sha256 = manifest.files[ADAPTER_FILE]?.sha256 as string;
  return { checkpoint: name, step, adapter: { path: join(path, ADAPTER_FILE), sha256 } };
}

function stepOf(reader: RunReader, name: string, checkpoints: Checkpoints, run: string): number | null {
  if (name === "base") return null;
  const best = bestOf(reader.validations());
  // Without a validation none is known to be better.
  if (name === "latest" || (name === "best" && !best)) return reader.steps().at(-1)?.checkpoint ?? null;
  if (name === "best") return best?.checkpoint ?? null;
  if (/^\d+$/.test(name)) return Number(name);
  throw noSuch(name, checkpoints, run);
}

function noSuch(name: string, checkpoints: Checkpoints, run: string): UsageError {
  const there = ["latest", "best", "base", ...checkpoints.list()].join(", ");
  return new UsageError(`--checkpoint ${name}: the run ${run} has none; give one of ${there}`);
}

export interface OpenCheckpoints {
  readonly folder: string;
  /** The run's name. */
  readonly name: string;
  readonly record: RunRecord;
  readonly chosen: readonly ChosenCheckpoint[];
  /** Highest mean distance between engine and learner in any step; 0 before the first update. */
  readonly highestMismatch: number;
}

/** Some checkpoints of a run. Throws as {@link chooseCheckpoint}. */
export async function openCheckpoints(
  { folder, name }: Pick<FoundRun, "folder" | "name">,
  names: readonly string[],
): Promise<OpenCheckpoints> {
  using reader = RunReader.open(folder);
  const record = reader.record();
  const chosen: ChosenCheckpoint[] = [];
  for (const asked of names) chosen.push(await chooseCheckpoint({ folder, name }, reader, asked));
  const highestMismatch = Math.max(0, ...mismatchesOf(reader.steps()).map(({ mean }) => mean));
  return { folder, name, record, chosen, highestMismatch };
}

/** @throws UsageError where a file is not the model that a run was trained from */
export function checkTrainedFrom(file: string, { name, record }: Pick<OpenCheckpoints, "name" | "record">): void {
  if (modelFingerprint(file) === record.contents.model) return;
  throw new UsageError(`${file} is not the model that the run ${name} was trained from; give that one with --model`);
}

/**
 * Options of `yarn rollout` that the checkpoint's run determines: the player and the settings it was trained with.
 * @param given its task is that of the run that is meant, where several are there
 */
export async function optionsOfCheckpoint(
  where: Pick<Config, "home" | "project" | "run">,
  names: readonly string[],
  given: GivenOptions = {},
): Promise<Partial<Config> & Pick<RunSettings, "set" | "seed">> {
  if (names.length > 1)
    throw new UsageError(`rollout plays with one --checkpoint; \`${hone("eval")}\` compares several`);
  const place = findRun(where, { trained: true, given });
  const { record, chosen } = await openCheckpoints(place, names);
  const settings = settingsOf(record);
  const { set, seed } = settings;
  const adapter = chosen[0]?.adapter?.path;
  // Settings that were left unset are not recorded, and must not override.
  return { ...givenOf({ ...settings, adapter }, PLAYING), set, seed };
}
