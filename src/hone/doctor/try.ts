/** Runs the trial and turns its results into checks. */
import { mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { spawnTied } from "../../core/util/tied.js";
import { type Check, none, note, ok, wrong } from "./check.js";
import {
  type AdapterTrial,
  type EngineTrial,
  LEARNER_LOG,
  type LearnerTrial,
  type TrialMessage,
  type TrialRequest,
} from "./trial-words.js";

/** Seconds for the whole trial: compiling kernels may take minutes when a card is used for the first time. */
const LIMIT = 900;
/** The engine must be nearer to the learner after the update than to the one before, unless the adapter is not in use. */
const FAR = 3;

export interface TrialOutcome {
  engine?: EngineTrial;
  learner?: LearnerTrial;
  adapter?: AdapterTrial;
  failed?: string;
}

function runTrial(request: TrialRequest, signal: AbortSignal, log: (text: string) => void): Promise<TrialOutcome> {
  const outcome: TrialOutcome = {};
  return new Promise((resolve) => {
    const trial = fileURLToPath(new URL("./trial.js", import.meta.url));
    const { process: child, kill } = spawnTied(process.execPath, [...process.execArgv, trial], {
      stdio: ["ignore", "ignore", "pipe", "ipc"],
      ownGroup: true,
    });
    let last = "";
    const late = setTimeout(() => end(`no end after ${LIMIT} s`), LIMIT * 1000);
    const end = (why: string) => {
      outcome.failed ??= why;
      kill();
    };
    const interrupted = () => end("interrupted");
    signal.addEventListener("abort", interrupted, { once: true });
    if (signal.aborted) interrupted();
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      last = text.trim().split("\n").at(-1) || last;
    });
    child.on("message", (message: TrialMessage) => {
      if (message.kind === "say") log(message.text);
      else if (message.kind === "failed") outcome.failed = message.message;
      else Object.assign(outcome, { [message.kind]: message.result });
    });
    child.once("error", (error) => end(error.message));
    child.once("close", (code, by) => {
      clearTimeout(late);
      signal.removeEventListener("abort", interrupted);
      if (code !== 0)
        outcome.failed ??= `the process ended ${by ? `by ${by}` : `with exit code ${code}`}${last && `: ${last}`}`;
      resolve(outcome);
    });
    child.send(request);
  });
}

const nats = (value: number) => `${value.toFixed(4)} nats`;
const seconds = (value: number) => `${value.toFixed(1)} s`;

function engineCheck({ engine, failed }: TrialOutcome): Check {
  if (!engine) return wrong("rollouts", "no rollout could be played", failed ?? "no reason was given");
  const { words, rollouts, tokens, tokensPerSecond, loadSeconds } = engine;
  const played = `${rollouts} short rollouts of the tiny model, ${tokens} tokens, ${tokensPerSecond.toFixed(0)} tokens/s`;
  return ok("rollouts", `${words}; loaded in ${seconds(loadSeconds)}; ${played}`, { ...engine });
}

export function updateCheck({ engine, learner, failed }: TrialOutcome, python: string | null): Check {
  if (!engine) return none("update", "not tried: there were no rollouts to learn from");
  if (python === null) return none("update", "not tried: there is no Python that could learn");
  if (!learner) return wrong("update", "no update could be made", failed ?? "no reason was given");
  const { backend, device, precision, loadSeconds, updateSeconds, peak, mismatch, limit, notes } = learner;
  const by = backend === "unsloth" ? ", Unsloth" : "";
  const words = `${device}, ${precision}${by}; loaded in ${seconds(loadSeconds)}, updated in ${seconds(updateSeconds)}, at most ${(peak / 1e9).toFixed(1)} GB; ${nats(mismatch)} from the engine`;
  if (mismatch > limit) {
    return wrong("update", words, `engine and learner must be one model: the limit is ${nats(limit)}`, { ...learner });
  }
  // Right, but slower than it could be.
  return notes.length > 0
    ? note("update", words, notes.join("; "), { ...learner })
    : ok("update", words, { ...learner });
}

export function adapterCheck({ learner, adapter, failed }: TrialOutcome): Check {
  if (!learner) return none("adapter", "not tried: there is no new adapter");
  if (!adapter) return wrong("adapter", "the new adapter could not be loaded back", failed ?? "no reason was given");
  const { after, before } = adapter;
  const words = `on the engine after sleep and wake: ${nats(after)} from the learner, ${nats(before)} from the policy before`;
  if (after * FAR <= before) return ok("adapter", words, { ...adapter });
  return wrong("adapter", words, "the engine does not play the adapter that it was given", { ...adapter });
}

export async function checkTrial(
  request: Omit<TrialRequest, "folder">,
  signal: AbortSignal,
  log: (text: string) => void,
): Promise<readonly Check[]> {
  const folder = mkdtempSync(join(tmpdir(), "hone-doctor-"));
  let named = false;
  try {
    const outcome = await runTrial({ ...request, folder }, signal, log);
    signal.throwIfAborted();
    // An error of the learner's names its log, which must then still be there.
    named = outcome.failed?.includes(join(folder, LEARNER_LOG)) ?? false;
    return [engineCheck(outcome), updateCheck(outcome, request.python), adapterCheck(outcome)];
  } finally {
    const all = named ? readdirSync(folder).filter((name) => name !== LEARNER_LOG) : [""];
    for (const name of all) rmSync(join(folder, name), { recursive: true, force: true });
  }
}
