/**
 * Loads the runs of a source: metrics first, then rollouts, then the additions of a running one. Independent of the
 * browser.
 */
import type { BodyAnswer, ReportAbout, Row, Rows, RunView } from "../../src/insight/view/wire.js";
import { visible } from "./format.js";

/** Source of the page's data. */
export interface Source {
  /** Facts about the report; null on the live page. */
  readonly about: ReportAbout | null;
  runs(): Promise<RunView[]>;
  /** A text for each run that differs after each change. */
  revisions(): Promise<string[]>;
  rows(run: number, from: number): Promise<Rows>;
  /** null if the file does not contain it. */
  rollout(run: number, id: number): Promise<BodyAnswer | null>;
}

export interface Run {
  readonly view: RunView;
  readonly rows: readonly Row[];
  readonly questions: Readonly<Record<string, string>>;
  /** Whether all rows are loaded. */
  readonly complete: boolean;
  /** Why requested rows are missing; null if none failed. */
  readonly failure: string | null;
}

export interface Data {
  readonly source: Source;
  readonly runs: readonly Run[];
  /** One line if nothing can be shown. */
  readonly failure: string | null;
  /** Whether the live page has lost its server. */
  readonly lost: boolean;
}

/** Milliseconds between two polls of a running run. */
export const EVERY = 2000;

const textOf = (error: unknown) => (error instanceof Error ? error.message : String(error));

const lastStep = (view: RunView) => view.steps.at(-1)?.step ?? 0;

/**
 * The step before which all rows are unchanged. Credit is written when a step is committed, so the rows of the last
 * step are loaded again, and those of any step with other rollouts than before: a validation is played after its step's
 * commit. A run that was restarted, or went back a step, keeps no rows.
 */
function unchangedUntil(old: RunView, view: RunView): number {
  if (old.created !== view.created || lastStep(old) > lastStep(view)) return 0;
  const countsOf = ({ counts }: RunView) => new Map(counts.map(({ phase, step, n }) => [`${phase} ${step}`, n]));
  const [before, now] = [countsOf(old), countsOf(view)];
  const changed = [...old.counts, ...view.counts]
    .filter(({ phase, step }) => before.get(`${phase} ${step}`) !== now.get(`${phase} ${step}`))
    .map(({ step }) => step);
  return changed.reduce((lowest, step) => Math.min(lowest, step), lastStep(old));
}

export class Follower {
  #data: Data;
  readonly #show: (data: Data) => void;
  /** For each run the first step whose rows are still to be loaded; null if all are here. */
  readonly #unread: (number | null)[] = [];
  #ended = false;

  constructor(source: Source, show: (data: Data) => void) {
    this.#data = { source, runs: [], failure: null, lost: false };
    this.#show = show;
  }

  async start(): Promise<void> {
    try {
      const views = await this.#data.source.runs();
      this.#unread.push(...views.map(() => 0));
      this.#set({ runs: views.map((view) => ({ view, rows: [], questions: {}, complete: false, failure: null })) });
    } catch (error) {
      this.#set({ failure: textOf(error) });
      return;
    }
    await this.#readAll();
    if (this.#data.source.about === null) setTimeout(() => this.#follow(), EVERY);
  }

  end(): void {
    this.#ended = true;
  }

  /** Loads the missing rows. Rows that fail stay missing and are requested again at the next poll. */
  async #readAll(): Promise<void> {
    await Promise.all(
      this.#unread.map((from, run) =>
        from === null
          ? undefined
          : this.#read(run, from).catch((error: unknown) =>
              this.#change(run, (old) => ({ ...old, complete: false, failure: textOf(error) })),
            ),
      ),
    );
  }

  async #read(run: number, from: number): Promise<void> {
    for (let next: number | null = from; next !== null && !this.#ended; ) {
      const start: number = next;
      const { rows, questions, next: then } = await this.#data.source.rows(run, start);
      next = then;
      this.#unread[run] = then;
      this.#change(run, (old) => ({
        ...old,
        rows: [...old.rows.filter(({ step }) => step < start), ...rows],
        questions: {
          ...old.questions,
          ...Object.fromEntries(Object.entries(questions).map(([scenario, text]) => [scenario, visible(text)])),
        },
        complete: then === null,
        failure: null,
      }));
    }
  }

  async #follow(): Promise<void> {
    if (this.#ended) return;
    try {
      const revisions = await this.#data.source.revisions();
      const running = this.#data.runs.some(({ view }) => view.running);
      if (running || revisions.some((revision, i) => revision !== this.#data.runs[i]?.view.revision)) {
        const views = await this.#data.source.runs();
        for (const [i, view] of views.entries()) {
          const old = this.#data.runs[i]?.view;
          if (old && old.revision !== view.revision) {
            this.#unread[i] = Math.min(this.#unread[i] ?? Number.POSITIVE_INFINITY, unchangedUntil(old, view));
          }
          // Keep the identity of the list of steps if nothing was written, so that cached findings stay valid.
          const same = old && old.revision === view.revision;
          this.#change(i, (run) => ({ ...run, view: same ? { ...view, steps: run.view.steps } : view }));
        }
      }
      if (this.#data.lost) this.#set({ lost: false });
      await this.#readAll();
    } catch {
      // The program has ended; the page keeps its data and shows that the server is gone.
      this.#set({ lost: true });
    }
    setTimeout(() => this.#follow(), EVERY);
  }

  #change(run: number, change: (run: Run) => Run): void {
    this.#set({ runs: this.#data.runs.map((one, i) => (i === run ? change(one) : one)) });
  }

  #set(change: Partial<Data>): void {
    this.#data = { ...this.#data, ...change };
    if (!this.#ended) this.#show(this.#data);
  }
}
