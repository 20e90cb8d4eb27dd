/** Runs the trial (trial.ts) in a process of its own, which sends its checks. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Config } from "../../core/config/config.js";
import type { LearnerInfo, StepMetrics } from "../../core/learn/types.js";
import type { ProbeReading } from "../../core/run/records.js";
import { lastLine } from "../../core/util/run.js";
import { onAbort } from "../../core/util/signals.js";
import { spawnTied } from "../../core/util/tied.js";
import { type Check, none, note, ok, wrong } from "./check.js";

/** Name of the learner's log in the folder of a trial. */
export const LEARNER_LOG = "learner.log";
/** Seconds for the whole trial: compiling kernels may take minutes when a card is used for the first time. */
const LIMIT = 900;
/** The engine must be nearer to the learner after the update than to the one before, unless the adapter is not in use. */
const FAR = 3;

/** What it does one after the other: each has one check, and is said to have failed, or not to have been tried, where it is lacking. */
export const STAGES = [
  { name: "rollouts", fails: "no rollout could be played", untried: "not tried" },
  { name: "update", fails: "no update could be made", untried: "not tried: there were no rollouts to learn from" },
  { name: "adapter", fails: "the new adapter could not be loaded back", untried: "not tried: there is no new adapter" },
] as const;

export interface TrialRequest extends Pick<Config, "gpu" | "device" | "threads" | "learner"> {
  /** Interpreter of the learner; null tries no update. */
  readonly python: string | null;
  /** An empty folder. */
  readonly folder: string;
}

/** `failed`: why it came no further. */
export type TrialMessage = { readonly say: string } | { readonly check: Check } | { readonly failed: string };

const nats = (value: number) => `${value.toFixed(4)} nats`;
export const secondsText = (value: number) => `${value.toFixed(1)} s`;

/** @param limit of the mean distance between the engine's and the learner's log-probabilities of the sampled tokens, nats */
export function updateCheck(
  { backend, device, precision }: Pick<LearnerInfo, "backend" | "device" | "precision">,
  { seconds, memory, mismatch, notes = [] }: Pick<StepMetrics, "seconds" | "memory" | "mismatch" | "notes">,
  { loadSeconds, limit }: { readonly loadSeconds: number; readonly limit: number },
): Check {
  const made = { updateSeconds: seconds.total, peak: memory.peak, mismatch: mismatch.mean, notes };
  const facts = { backend, device, precision, loadSeconds, limit, ...made };
  const by = backend === "unsloth" ? ", Unsloth" : "";
  const words = `${device}, ${precision}${by}; loaded in ${secondsText(loadSeconds)}, updated in ${secondsText(made.updateSeconds)}, at most ${(made.peak / 1e9).toFixed(1)} GB; ${nats(made.mismatch)} from the engine`;
  if (made.mismatch > limit)
    return wrong("update", words, `engine and learner must be one model: the limit is ${nats(limit)}`, facts);
  // Right, but slower than it could be.
  return notes.length > 0 ? note("update", words, notes.join("; "), facts) : ok("update", words, facts);
}

/** @param reading distances of the engine with the new adapter to the learner after the update, and before it */
export function adapterCheck({ after, before }: Pick<ProbeReading, "after" | "before">): Check {
  const words = `on the engine after sleep and wake: ${nats(after)} from the learner, ${nats(before)} from the policy before`;
  if (after * FAR <= before) return ok("adapter", words, { after, before });
  return wrong("adapter", words, "the engine does not play the adapter that it was given", { after, before });
}

/** @returns its checks, as far as it came, and why it came no further */
function runTrial(request: TrialRequest, signal: AbortSignal, log: (text: string) => void) {
  const checks: Check[] = [];
  let failed: string | undefined;
  return new Promise<{ checks: readonly Check[]; failed: string | undefined }>((resolve) => {
    const trial = fileURLToPath(new URL("./trial.js", import.meta.url));
    const { process: child, kill } = spawnTied(process.execPath, [...process.execArgv, trial], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      ownGroup: true,
    });
    const end = (why: string) => {
      failed ??= why;
      kill();
    };
    const late = setTimeout(() => end(`no end after ${LIMIT} s`), LIMIT * 1000);
    const interrupting = onAbort(signal, () => end("interrupted"));
    let last = "";
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      last = lastLine(text) || last;
    });
    child.on("message", (message: TrialMessage) => {
      if ("say" in message) log(message.say);
      else if ("check" in message) checks.push(message.check);
      else failed = message.failed;
    });
    child.once("error", (error) => end(error.message));
    child.once("close", (code, by) => {
      clearTimeout(late);
      interrupting[Symbol.dispose]();
      const ended = `the process ended ${by ? `by ${by}` : `with exit code ${code}`}`;
      if (code !== 0) failed ??= last ? `${ended}: ${last}` : ended;
      resolve({ checks, failed });
    });
    child.send(request);
  });
}

export async function checkTrial(
  request: Omit<TrialRequest, "folder">,
  signal: AbortSignal,
  log: (text: string) => void,
): Promise<readonly Check[]> {
  const folder = mkdtempSync(join(tmpdir(), "hone-doctor-"));
  let named = false;
  try {
    const { checks, failed } = await runTrial({ ...request, folder }, signal, log);
    signal.throwIfAborted();
    // An error of the learner's names its log, which must then still be there.
    named = failed?.includes(join(folder, LEARNER_LOG)) ?? false;
    const why = failed ?? "no reason was given";
    const lacking = STAGES.slice(checks.length).map(({ name, fails, untried }, index) =>
      index === 0 ? wrong(name, fails, why) : none(name, untried),
    );
    return [...checks, ...lacking];
  } finally {
    const all = named ? readdirSync(folder).filter((name) => name !== LEARNER_LOG) : [""];
    for (const name of all) rmSync(join(folder, name), { recursive: true, force: true });
  }
}
