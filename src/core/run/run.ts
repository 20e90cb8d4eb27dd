/**
 * A run: its directory, opened by the one process that owns it. Opening restores the last complete step: checkpoints that no
 * committed step names are set aside, and files derived from the store are written anew.
 */
import { appendFileSync, existsSync, mkdirSync } from "node:fs";
import { basename, join } from "node:path";
import { HoneError, UsageError } from "../util/errors.js";
import { writeDurably } from "../util/files.js";
import { shellWord } from "../util/text.js";
import { ADAPTER_FILE, Checkpoints, verifyCheckpoint } from "./checkpoints.js";
import { lockRun, type Owner, type RunLock } from "./lock.js";
import {
  type Adapter,
  type Device,
  type MetricsLine,
  metricsLine,
  type RunRecord,
  type StepRow,
  type ValidationRow,
} from "./records.js";
import { RunStore } from "./store.js";

export const STORE_FILE = "run.sqlite";
/** The batch of a run's latest update. */
export const BATCH_FILE = "batch.safetensors";

/** The model and shape that an adapter of this run fits. */
export interface AdapterShape {
  /** Fingerprint of the base model's file. */
  readonly model: string;
  readonly lora: { readonly rank: number; readonly alpha: number; readonly targets: readonly string[] };
}

export interface OpenRun {
  readonly folder: string;
  readonly record: Omit<RunRecord, "created" | "name">;
  readonly shape: AdapterShape;
  /** Checkpoint folder of another run to start from. */
  readonly fork: string | undefined;
  /** Compares with the recorded settings. Throws UsageError when the options would make it another run. */
  readonly agree: (recorded: RunRecord) => void;
}

/**
 * The best validated state by mean reward; the first of equals. Undefined before the first validation that has a mean: one whose
 * rollouts all failed, or got no verdict, has none.
 */
export function bestOf(validations: readonly ValidationRow[]): ValidationRow | undefined {
  const measured = validations.filter(({ result }) => result.n > 0);
  return measured.reduce<ValidationRow | undefined>(
    (best, row) => (best && best.result.reward >= row.result.reward ? best : row),
    undefined,
  );
}

function agrees(agree: OpenRun["agree"], recorded: RunRecord): boolean {
  try {
    agree(recorded);
    return true;
  } catch (error) {
    if (!(error instanceof UsageError)) throw error;
    return false;
  }
}

function sameShape(a: AdapterShape, b: AdapterShape): boolean {
  const key = ({ model, lora }: AdapterShape) =>
    JSON.stringify([model, lora.rank, lora.alpha, [...lora.targets].sort()]);
  return key(a) === key(b);
}

interface Fork {
  /** Of the checkpoint that the run starts from. */
  readonly folder: string;
  /** Its adapter's SHA-256, as the store has it; null where the checkpoint has none. */
  readonly adapter: string | null;
}

/**
 * @param store of the run that starts from it. One that has begun has a copy: what it began from may be gone, as its own run deletes
 * old checkpoints
 * @throws HoneError when the checkpoint is damaged, or does not fit the run that is to start from it
 */
async function checkFork(fork: string, shape: AdapterShape, store: string): Promise<Fork> {
  const copied = existsSync(fork) ? undefined : RunStore.stepsIn(store)[0]?.adapter;
  if (copied) return { folder: fork, adapter: copied };
  const source = await verifyCheckpoint(fork);
  if (sameShape(source, shape)) return { folder: fork, adapter: source.files[ADAPTER_FILE]?.sha256 ?? null };
  const { rank, alpha, targets } = source.lora;
  throw new HoneError(
    source.model === shape.model
      ? `--fork ${fork}: its adapter has another shape (rank ${rank}, alpha ${alpha}, on ${targets.join(",")}); give --lora-rank, --lora-alpha and --lora-targets to match`
      : `--fork ${fork}: it belongs to another base model`,
  );
}

/**
 * A folder with checkpoints and without their history: the run must not begin anew over them. A fork's first checkpoint is
 * written after the store's tables, so that a process killed in between leaves those.
 *
 * @throws HoneError when the store was lost
 */
function requireStore(folder: string): void {
  const file = join(folder, STORE_FILE);
  const steps = new Checkpoints(join(folder, "checkpoints")).list();
  const last = steps.at(-1);
  if (last === undefined || !RunStore.isNone(file)) return;
  const what = existsSync(file) ? "is empty" : "is missing";
  throw new HoneError(
    `${file} ${what}, though the run has the checkpoint ${last}.\nBring it back from a copy, start another run from the checkpoint with --run NAME --fork ${shellWord(join(folder, "checkpoints", String(last).padStart(4, "0")))}, or remove ${folder} to begin anew`,
  );
}

export class Run {
  readonly folder: string;
  readonly store: RunStore;
  readonly checkpoints: Checkpoints;
  /** The previous owner, if it was killed. */
  readonly previousOwner: Owner | undefined;
  /** The run had been begun with other options and had no step yet. */
  begunAnew = false;
  readonly #lock: RunLock;
  readonly #shape: AdapterShape;

  private constructor(folder: string, lock: RunLock, store: RunStore, shape: AdapterShape) {
    this.folder = folder;
    this.#lock = lock;
    this.previousOwner = lock.previous;
    this.store = store;
    this.checkpoints = new Checkpoints(join(folder, "checkpoints"));
    this.#shape = shape;
  }

  /**
   * Begins the run, or opens it to continue.
   * @throws HoneError when another process owns it, when the options would make it another run, or when its checkpoint is
   * damaged
   */
  static async open({ folder, record, shape, fork, agree }: OpenRun): Promise<Run> {
    // Checked before anything is created: a refused fork must leave no run behind.
    const from = fork === undefined ? undefined : await checkFork(fork, shape, join(folder, STORE_FILE));
    mkdirSync(join(folder, "logs"), { recursive: true });
    const lock = lockRun(folder);
    try {
      requireStore(folder);
      const run = new Run(folder, lock, RunStore.open(join(folder, STORE_FILE)), shape);
      try {
        if (run.#goingOn(agree, from)) run.store.updateOptions(record.options);
        else await run.#begin(record, fork);
        await run.#recover();
        return run;
      } catch (error) {
        run.store.close();
        throw error;
      }
    } catch (error) {
      lock.release();
      throw error;
    }
  }

  get name(): string {
    return basename(this.folder);
  }

  get batchFile(): string {
    return join(this.folder, BATCH_FILE);
  }

  logFile(name: string): string {
    return join(this.folder, "logs", name);
  }

  /** Folder of the checkpoint in force after a step; undefined for the base model. */
  checkpointOf({ checkpoint }: Pick<StepRow, "checkpoint">): string | undefined {
    return checkpoint === null ? undefined : this.checkpoints.pathOf(checkpoint);
  }

  adapterOf({ checkpoint, adapter }: Pick<StepRow, "checkpoint" | "adapter">): Adapter | null {
    if (checkpoint === null || adapter === null) return null;
    return { path: this.checkpoints.adapterOf(checkpoint), sha256: adapter };
  }

  /** Turns the draft of a step into a checkpoint. It counts once the step is committed. */
  async publish(step: number): Promise<{ checkpoint: number; adapter: string }> {
    const { model, lora } = this.#shape;
    const about = { run: this.name, model, lora: { ...lora, targets: [...lora.targets] } };
    return { checkpoint: step, adapter: (await this.checkpoints.publish(step, about)).adapter };
  }

  /** Records a device: run.json lists it with the time of its first use. */
  saw(part: Device["part"], facts: Readonly<Record<string, unknown>>): void {
    if (this.store.noteDevice({ ...facts, part, seen: new Date().toISOString() })) this.#writeAbout();
  }

  /** Appends the line of a settled step. */
  appendMetrics(line: MetricsLine): void {
    appendFileSync(this.#metricsFile, `${JSON.stringify(line)}\n`);
  }

  /**
   * Deletes checkpoints except the newest `keep` of the run's steps, among which the one in force always is, the best, a fork's
   * start, and `compared`. That of a step that was taken back stays until the step is made again.
   * @param compared those that the next step is compared with; null is the base model
   */
  prune(keep: number, compared: readonly (number | null)[] = []): void {
    const best = bestOf(this.store.validations())?.checkpoint;
    // A fork's own start: evaluations compare with it, and more scenarios may have to be measured with it when the run goes on
    // for more steps.
    const start = this.store.firstStep().checkpoint;
    const last = this.store.lastStep().step;
    const made = new Set(this.store.steps().map(({ checkpoint }) => checkpoint));
    const present = this.checkpoints.list();
    const newest = present.filter((number) => made.has(number)).slice(-keep);
    const takenBack = present.filter((number) => number > last);
    const others = [best, start, ...compared].filter((number) => typeof number === "number");
    this.checkpoints.prune(new Set([...newest, ...takenBack, ...others]));
  }

  close(): void {
    this.store.close();
    this.#lock.release();
  }

  /**
   * The recorded settings, when the run is to continue. A run without any update has nothing to lose: other options then
   * begin it anew.
   */
  #goingOn(agree: OpenRun["agree"], fork: Fork | undefined): RunRecord | undefined {
    const recorded = this.store.record();
    if (!recorded) return undefined;
    const { step, checkpoint } = this.store.lastStep();
    if (step > 0 || checkpoint !== null) {
      // The command that began it is also the one that goes on with it.
      if (fork !== undefined && this.store.firstStep().adapter !== fork.adapter) {
        throw new HoneError(
          `the run ${this.folder} has begun already, and not from ${fork.folder}; give the fork a name of its own with --run`,
        );
      }
      agree(recorded);
      return recorded;
    }
    if (fork === undefined && agrees(agree, recorded)) return recorded;
    this.store.forget();
    this.begunAnew = true;
    return undefined;
  }

  get #metricsFile(): string {
    return join(this.folder, "metrics.jsonl");
  }

  async #begin(record: OpenRun["record"], fork: string | undefined): Promise<void> {
    const begun = { ...record, name: this.name, created: new Date().toISOString() };
    if (fork === undefined) {
      this.store.begin(begun, { checkpoint: null, adapter: null });
      return;
    }
    this.checkpoints.setAside(new Set());
    const { adapter } = await this.checkpoints.adopt(fork, this.name);
    this.store.begin(begun, { checkpoint: 0, adapter });
  }

  async #recover(): Promise<void> {
    const steps = this.store.steps();
    this.checkpoints.setAside(new Set(steps.flatMap(({ checkpoint }) => checkpoint ?? [])));
    const inForce = this.checkpointOf(this.store.lastStep());
    if (inForce !== undefined) {
      if (!existsSync(inForce)) throw new HoneError(`the checkpoint ${inForce} is gone, the run cannot go on from it`);
      await verifyCheckpoint(inForce);
    }
    this.#writeAbout();
    // A step that is not settled gets its line when it is.
    const unsettled = this.store.unsettledStep()?.step ?? Number.POSITIVE_INFINITY;
    const lines = steps
      .filter(({ step }) => step > 0 && step < unsettled)
      .map((row) => `${JSON.stringify(metricsLine(row))}\n`);
    writeDurably(this.#metricsFile, lines.join(""));
  }

  #writeAbout(): void {
    const about = { ...this.store.record(), devices: this.store.devices() };
    writeDurably(join(this.folder, "run.json"), `${JSON.stringify(about, null, 2)}\n`);
  }
}
