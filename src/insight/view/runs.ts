/** The runs of a page, open for reading. A run that cannot be read is listed with its error message. */

import { resolve } from "node:path";
import { options } from "../../core/config/config.js";
import { recordsOf } from "../../core/rollout/trajectory.js";
import { HoneError, refusalOf, UsageError } from "../../core/util/errors.js";
import { program } from "../../core/util/program.js";
import { modelFile } from "../../engine/models.js";
import { tokenBytes } from "../../engine/vocabulary.js";
import { type FoundRun, namedRun } from "../../machine/runs/place.js";
import { RunReader, type SeenRollout } from "../../machine/runs/reader.js";
import { typed } from "../typed.js";
import { givenIn } from "./given.js";
import { bodyOf, questionOf, rowOf } from "./rows.js";
import type { BodyAnswer, Pieces, Row, Rows, RunView } from "./wire.js";

/** Rollouts read for one answer, and the rest of their step: the server answers nothing else meanwhile. */
const AT_ONCE = 640;

/** What is wrong with a run that cannot be read. */
export const problemOf = (error: unknown): string => {
  const known = error instanceof HoneError ? error.message : refusalOf(error);
  if (known === undefined) throw error;
  return known;
};

/** " --home FOLDER" where commands that are typed here would look in another. */
const homeText = (home: string): string =>
  home === resolve(String(options.home.default)) ? "" : typed({ home }, ["home"]);

/** Where a run that was forked begins, so that the next one begins there too. Without an adapter no checkpoint has step 0. */
const forkOf = (reader: RunReader, folder: string): Record<string, string> =>
  reader.checkpointSteps()[0] === 0 ? { fork: typed({ fork: resolve(folder, "checkpoints/0000") }, ["fork"]) } : {};

/** A run as the page has it. */
export class SeenRun {
  readonly #id: number;
  readonly #found: FoundRun;
  #reader: RunReader | undefined;
  readonly problem: string | null = null;
  readonly name: string;
  #checkpoints: { state: string; seen: RunView["checkpoints"] } | undefined;
  #vocabulary: Promise<(id: number) => string | undefined> | undefined;

  constructor(id: number, found: FoundRun) {
    this.#id = id;
    this.#found = found;
    this.name = found.name;
    try {
      this.#reader = RunReader.open(found.folder);
      this.#reader.record();
    } catch (error) {
      this.problem = problemOf(error);
    }
  }

  /** @throws HoneError when the run was begun anew, and cannot be read yet */
  get reader(): RunReader | undefined {
    if (this.problem !== null) return undefined;
    if (this.#reader?.isReplaced()) {
      const now = RunReader.open(this.#found.folder);
      this.#reader.close();
      this.#reader = now;
      this.#checkpoints = undefined;
      this.#vocabulary = undefined;
    }
    return this.#reader;
  }

  async view(): Promise<RunView> {
    const { project, name, folder } = this.#found;
    const nothing: RunView = {
      id: this.#id,
      name,
      project,
      folder,
      problem: this.problem,
      created: "",
      options: {},
      given: {},
      program: program(),
      home: homeText(resolve(folder, "../../..")),
      contents: {},
      devices: [],
      steps: [],
      validations: [],
      checkpoints: [],
      running: false,
      logs: [],
      counts: [],
      revision: "",
    };
    try {
      const reader = this.reader;
      if (!reader) return nothing;
      const record = reader.record();
      // The revision is read first, so that a write in between is seen at the next request.
      const revision = reader.revision();
      const steps = reader.steps();
      const devices = reader.devices();
      return {
        ...nothing,
        created: record.created,
        options: record.options,
        contents: record.contents,
        given: { ...givenIn(record, devices), ...forkOf(reader, folder) },
        revision,
        devices,
        steps,
        validations: reader.validations(),
        running: reader.running(),
        logs: reader.logs(),
        counts: reader.counts(),
        // The last: while it is awaited the reader may be closed for another.
        checkpoints: await this.#checked(reader, steps.length),
      };
    } catch (error) {
      return { ...nothing, problem: problemOf(error) };
    }
  }

  /** Hashes the checkpoints once per state of the run; old ones are removed some time after a step's commit. */
  async #checked(reader: RunReader, steps: number): Promise<RunView["checkpoints"]> {
    const state = `${steps}: ${reader.checkpointSteps().join()}`;
    if (this.#checkpoints?.state !== state) this.#checkpoints = { state, seen: await reader.checkpoints() };
    return this.#checkpoints.seen;
  }

  /** Of a run that can no longer be read its error message: the page follows the others. */
  revision(): string {
    try {
      return this.reader?.revision() ?? "";
    } catch (error) {
      return problemOf(error);
    }
  }

  /** Rows of whole steps from this one on, until there are so many; all with no limit. */
  rows(from = 0, limit = AT_ONCE): Rows {
    const rows: Row[] = [];
    const questions: Record<string, string> = {};
    for (const seen of this.reader?.rollouts({ from }) ?? []) {
      if (rows.length >= limit && seen.step !== rows.at(-1)?.step) return { rows, questions, next: seen.step };
      rows.push(rowOf(seen));
      questions[seen.scenario] = questionOf(seen);
    }
    return { rows, questions, next: null };
  }

  async body(id: number): Promise<BodyAnswer | null> {
    const [seen] = this.reader?.rollouts({ ids: [id] }) ?? [];
    if (!seen) return null;
    const body = bodyOf(seen);
    return { body, pieces: await this.pieces([seen]) };
  }

  /** Bytes of the tokens of these rollouts; empty where the model file is missing. */
  async pieces(rollouts: readonly SeenRollout[]): Promise<Pieces> {
    const model = rollouts.find(({ trajectory }) => trajectory.tokens)?.trajectory.player.model;
    if (model === undefined) return {};
    this.#vocabulary ??= this.#vocabularyOf(model);
    const bytes = await this.#vocabulary;
    const ids = new Set(rollouts.flatMap(({ trajectory }) => recordsOf(trajectory)).flatMap((record) => record.ids));
    return Object.fromEntries([...ids].flatMap((id) => (bytes(id) === undefined ? [] : [[id, bytes(id) as string]])));
  }

  async #vocabularyOf(model: string): Promise<(id: number) => string | undefined> {
    try {
      return await tokenBytes(modelFile(model));
    } catch (error) {
      // A rollout can still be read without the text of its tokens.
      if (error instanceof HoneError) return () => undefined;
      throw error;
    }
  }

  close(): void {
    this.#reader?.close();
  }
}

/**
 * Opens runs by the words that name them; without one, the newest.
 * @throws UsageError when there is no such run
 */
export function openRuns(place: { home: string; project: string | undefined }, words: readonly string[]): SeenRun[] {
  const found = (words.length > 0 ? words : [undefined]).map((word) => namedRun(place, word));
  const folders = found.map(({ folder }) => folder);
  const twice = found.find(({ folder }, i) => folders.indexOf(folder) !== i);
  if (twice) throw new UsageError(`the run ${twice.name} is named twice`);
  return found.map((one, id) => new SeenRun(id, one));
}
