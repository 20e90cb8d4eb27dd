/** The runs of the page as they come in: metrics first, then rollouts, then what a running one adds. */
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Row, RunView } from "../../src/view/index.js";
import { visible } from "./format.js";
import type { Source } from "./source.js";

export interface Run {
  readonly view: RunView;
  readonly rows: readonly Row[];
  readonly questions: Readonly<Record<string, string>>;
  /** All rows are here. */
  readonly complete: boolean;
}

export interface Data {
  readonly source: Source;
  readonly runs: readonly Run[];
  /** One line where nothing can be shown. */
  readonly failure: string | null;
  /** The live page has lost its server. */
  readonly lost: boolean;
}

/** Milliseconds between two looks at a running run. */
const EVERY = 2000;

export const DataContext = createContext<Data | null>(null);

export function useData(): Data {
  const data = useContext(DataContext);
  if (!data) throw new Error("no data");
  return data;
}

const lastStep = (view: RunView) => view.steps.at(-1)?.step ?? 0;

/** Rows of steps before it are as they were; a run that was begun anew, or took a step back, has none such. */
const unchangedUntil = (old: RunView, view: RunView) =>
  old.created === view.created && lastStep(old) <= lastStep(view) ? lastStep(old) : 0;

/** Follows the source. What a step was told is known when it is committed, so the rows of the last step come again. */
class Follower {
  #data: Data;
  readonly #show: (data: Data) => void;
  #ended = false;

  constructor(source: Source, show: (data: Data) => void) {
    this.#data = { source, runs: [], failure: null, lost: false };
    this.#show = show;
  }

  async start(): Promise<void> {
    try {
      const views = await this.#data.source.runs();
      this.#set({ runs: views.map((view) => ({ view, rows: [], questions: {}, complete: false })) });
      await Promise.all(views.map(({ id }) => this.#load(id, 0)));
    } catch (error) {
      this.#set({ failure: error instanceof Error ? error.message : String(error) });
      return;
    }
    if (this.#data.source.about === null) setTimeout(() => this.#follow(), EVERY);
  }

  end(): void {
    this.#ended = true;
  }

  async #load(run: number, from: number): Promise<void> {
    for (let next: number | null = from; next !== null && !this.#ended; ) {
      const start: number = next;
      const { rows, questions, next: then } = await this.#data.source.rows(run, start);
      next = then;
      this.#change(run, (old) => ({
        ...old,
        rows: [...old.rows.filter(({ step }) => step < start), ...rows],
        questions: {
          ...old.questions,
          ...Object.fromEntries(Object.entries(questions).map(([scenario, text]) => [scenario, visible(text)])),
        },
        complete: then === null,
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
          this.#change(i, (run) => ({ ...run, view }));
          // Validations after the last step, and what that step was told, are new.
          if (old && old.revision !== view.revision) await this.#load(i, unchangedUntil(old, view));
        }
      }
      if (this.#data.lost) this.#set({ lost: false });
    } catch {
      // The program was ended; the page keeps what it has, and says so.
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

export function useSource(source: Source): Data {
  const [data, show] = useState<Data>({ source, runs: [], failure: null, lost: false });
  useEffect(() => {
    const follower = new Follower(source, show);
    void follower.start();
    return () => follower.end();
  }, [source]);
  return data;
}

/** Rows of each group of a step, in order; groups are of one phase. */
export function groupsOf(rows: readonly Row[]): { scenario: string; rows: Row[] }[] {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const group = groups.get(row.scenario);
    if (group) group.push(row);
    else groups.set(row.scenario, [row]);
  }
  return [...groups].map(([scenario, of]) => ({ scenario, rows: of }));
}
