/**
 * Whether hone's own graph plays a model (`--decoder own`). It is compared with llama.cpp's when it is first to play a file on a
 * device, and what that showed is kept in the user's cache.
 */
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, statSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { addonFile } from "../core/util/binaries.js";
import { messageOf } from "../core/util/errors.js";
import { writeDurably } from "../core/util/files.js";
import { cacheHome } from "../core/util/paths.js";
import type { Addon, Difference, NativeSettings, OwnTrial } from "./addon.js";

/**
 * llama.cpp's log-probabilities move when its passes are cut otherwise: not at all with some weights, by 0.03 nats a token with
 * weights of 4 bits. So much hone's own graph may differ too, and a little more: the largest of some thousand differences varies.
 */
const SHARE = { mean: 1.5, most: 2 };
/** Where llama.cpp does not move. Rounding is below it; another sequence's cells, or another position, are far above. */
const LEAST = { mean: 1e-3, most: 1e-2 };

type Tried = Pick<NativeSettings, "model" | "useGpu" | "steadyShapes" | "threads">;

/** Over all kinds of passes. */
function overall(kinds: OwnTrial["kinds"], of: "own" | "llama"): Difference {
  const rows = kinds.reduce((sum, kind) => sum + kind.rows, 0);
  const mean = kinds.reduce((sum, kind) => sum + kind.rows * kind[of].mean, 0) / rows;
  return { mean, most: Math.max(...kinds.map((kind) => kind[of].most)) };
}

/** Why llama.cpp's graph is to play, as a clause; "" where hone's own may. */
export function verdictOf({ whyNot, kinds }: OwnTrial): string {
  if (whyNot !== "") return whyNot;
  const [own, llama] = [overall(kinds, "own"), overall(kinds, "llama")];
  const limit = {
    mean: LEAST.mean + SHARE.mean * llama.mean,
    most: LEAST.most + SHARE.most * llama.most,
  };
  // Not numbers are no agreement.
  if (own.mean <= limit.mean && own.most <= limit.most) return "";
  const nats = (number: number) => number.toPrecision(2);
  return `its log-probabilities differ from llama.cpp's by ${nats(own.mean)} nats on average and ${nats(own.most)} at most; ${nats(limit.mean)} and ${nats(limit.most)} are rounding on this model`;
}

/** What the verdict follows from. */
function keptIn(addon: Addon, { model, useGpu, steadyShapes, threads }: Tried): string {
  const file = (path: string) => {
    const { size, mtimeMs } = statSync(path);
    return [path, size, mtimeMs];
  };
  const device = addon.devices().find(({ isGpu }) => isGpu === useGpu)?.description;
  const facts = [file(model), file(addonFile()), addon.llamaVersion(), device, steadyShapes, threads > 1];
  const name = createHash("sha256").update(JSON.stringify(facts)).digest("hex").slice(0, 16);
  return join(cacheHome(), "hone", "own-decoder", `${name}.json`);
}

/**
 * Why llama.cpp's graph is to play, as a clause; "" where hone's own may.
 *
 * @param log says that both are compared, which takes seconds
 */
export async function whyLlama(addon: Addon, settings: Tried, log?: (line: string) => void): Promise<string> {
  const kept = keptIn(addon, settings);
  try {
    return (JSON.parse(readFileSync(kept, "utf8")) as { whyLlama: string }).whyLlama;
  } catch {
    // Not compared yet, or the record is damaged.
  }
  log?.(`comparing hone's own graph with llama.cpp's on ${basename(settings.model)}, once`);
  const { model, useGpu, steadyShapes, threads } = settings;
  const trial = await addon.tryOwnDecoder({ model, adapter: "", useGpu, steadyShapes, threads });
  const why = verdictOf(trial);
  try {
    mkdirSync(dirname(kept), { recursive: true });
    writeDurably(kept, `${JSON.stringify({ whyLlama: why, ...trial })}\n`);
  } catch (error) {
    log?.(`both are compared again next time: ${messageOf(error)}`);
  }
  return why;
}
