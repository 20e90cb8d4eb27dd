/** Runs the trial (trial.ts) in a process of its own, which sends its checks. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Config } from "../../core/config/config.js";
import type { LearnerInfo } from "../../core/learn/types.js";
import type { ProbeReading } from "../../core/run/records.js";
import { onAbort } from "../../core/util/signals.js";
import { spawnTied } from "../../core/util/tied.js";
import { type Check, none, note, ok, wrong } from "./check.js";

/** Name of the learner's log in the folder of a trial. */
export const LEARNER_LOG = "learner.log";
/** Seconds for the whole trial: compiling kernels may take minutes when a card is used for the first time. */
const LIMIT = 900;
/** The engine must be nearer to the learner after the update than to the one before, unless the adapter is not in use. */
const FAR = 3;

export interface TrialRequest extends Pick<Config, "gpu" | "device" | "threads" | "learner"> {
  /** A GGUF file. */
  readonly model: string;
  /** Interpreter of the learner; null tries no update. */
  readonly python: string | null;
  /** An empty folder. */
  readonly folder: string;
  /** Seconds of rollouts. */
  readonly seconds: number;
}

export type TrialMessage =
  | { readonly kind: "say"; readonly text: string }
  | { readonly kind: "check"; readonly check: Check }
  | { readonly kind: "failed"; readonly message: string };

export interface TriedUpdate extends Pick<LearnerInfo, "backend" | "device" | "precision"> {
  readonly loadSeconds: number;
  readonly updateSeconds: number;
  /** Bytes. */
  readonly peak: number;
  /** Mean distance between the engine's and the learner's log-probabilities of the sampled tokens, nats. */
  readonly mismatch: number;
  /** Its limit for these weights. */
  readonly limit: number;
  /** The learner's own: which of its faster ways it goes without, and why. */
  readonly notes: readonly string[];
}

interface Outcome {
  /** By their names: rollouts, update and adapter, as far as it came. */
  readonly checks: ReadonlyMap<string, Check>;
  readonly failed: string | undefined;
}

function runTrial(request: TrialRequest, signal: AbortSignal, log: (text: string) => void): Promise<Outcome> {
  const checks = new Map<string, Check>();
  let failed: string | undefined;
  return new Promise((resolve) => {
    const trial = fileURLToPath(new URL("./trial.js", import.meta.url));
    const { process: child, kill } = spawnTied(process.execPath, [...process.execArgv, trial], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      ownGroup: true,
    });
    let last = "";
    const late = setTimeout(() => end(`no end after ${LIMIT} s`), LIMIT * 1000);
    const end = (why: string) => {
      failed ??= why;
      kill();
    };
    const interrupting = onAbort(signal, () => end("interrupted"));
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      last = text.trim().split("\n").at(-1) || last;
    });
    child.on("message", (message: TrialMessage) => {
      if (message.kind === "say") log(message.text);
      else if (message.kind === "failed") failed = message.message;
      else checks.set(message.check.name, message.check);
    });
    child.once("error", (error) => end(error.message));
    child.once("close", (code, by) => {
      clearTimeout(late);
      interrupting[Symbol.dispose]();
      if (code !== 0)
        failed ??= `the process ended ${by ? `by ${by}` : `with exit code ${code}`}${last && `: ${last}`}`;
      resolve({ checks, failed });
    });
    child.send(request);
  });
}

const nats = (value: number) => `${value.toFixed(4)} nats`;
export const secondsText = (value: number) => `${value.toFixed(1)} s`;

export function updateCheck(made: TriedUpdate): Check {
  const { backend, device, precision, loadSeconds, updateSeconds, peak, mismatch, limit, notes } = made;
  const by = backend === "unsloth" ? ", Unsloth" : "";
  const words = `${device}, ${precision}${by}; loaded in ${secondsText(loadSeconds)}, updated in ${secondsText(updateSeconds)}, at most ${(peak / 1e9).toFixed(1)} GB; ${nats(mismatch)} from the engine`;
  if (mismatch > limit) {
    return wrong("update", words, `engine and learner must be one model: the limit is ${nats(limit)}`, { ...made });
  }
  // Right, but slower than it could be.
  return notes.length > 0 ? note("update", words, notes.join("; "), { ...made }) : ok("update", words, { ...made });
}

/** @param reading distances of the engine with the new adapter to the learner after the update, and before it */
export function adapterCheck(reading: Pick<ProbeReading, "after" | "before">): Check {
  const { after, before } = reading;
  const words = `on the engine after sleep and wake: ${nats(after)} from the learner, ${nats(before)} from the policy before`;
  if (after * FAR <= before) return ok("adapter", words, { after, before });
  return wrong("adapter", words, "the engine does not play the adapter that it was given", { after, before });
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
    const [rollouts, update, adapter] = ["rollouts", "update", "adapter"].map((name) => checks.get(name));
    const untried = !rollouts
      ? "not tried: there were no rollouts to learn from"
      : request.python === null && "not tried: there is no Python that could learn";
    return [
      rollouts ?? wrong("rollouts", "no rollout could be played", why),
      update ?? (untried ? none("update", untried) : wrong("update", "no update could be made", why)),
      adapter ??
        (update
          ? wrong("adapter", "the new adapter could not be loaded back", why)
          : none("adapter", "not tried: there is no new adapter")),
    ];
  } finally {
    const all = named ? readdirSync(folder).filter((name) => name !== LEARNER_LOG) : [""];
    for (const name of all) rmSync(join(folder, name), { recursive: true, force: true });
  }
}
