/** Loads the page's data: from the server, or from the file that contains the page. */
import type {
  Body,
  BodyAnswer,
  ReportAbout,
  ReportRun,
  Rows,
  RunView,
  SeenMatrix,
} from "../../src/insight/view/wire.js";
import type { Source } from "./follow.js";

/** The data is in elements that browsers do not run as scripts. */
const textOf = (id: string): string | undefined => document.getElementById(id)?.textContent ?? undefined;

async function inflate<T>(id: string): Promise<T> {
  const text = textOf(id);
  if (text === undefined) throw new Error(`this file has no part ${id}: it is not whole`);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i++) bytes[i] = binary.charCodeAt(i);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return (await new Response(stream).json()) as T;
}

/** A report file; each part is inflated when it is first needed. */
class FileSource implements Source {
  readonly about: ReportAbout;
  readonly #views: Promise<RunView[]>;
  readonly #runs = new Map<number, Promise<ReportRun>>();
  /** The most recently used chunks; all of them inflated would take hundreds of megabytes. */
  readonly #chunks = new Map<number, Promise<Body[]>>();

  constructor(about: ReportAbout) {
    this.about = about;
    this.#views = Promise.all(Array.from({ length: about.runs }, (_, i) => inflate<RunView>(`view-${i}`)));
  }

  async runs(): Promise<RunView[]> {
    return this.#views;
  }

  async revisions(): Promise<string[]> {
    return (await this.runs()).map(({ revision }) => revision);
  }

  async rows(run: number, from: number): Promise<Rows> {
    const { rows } = await this.#run(run);
    return from === 0 ? rows : { ...rows, rows: rows.rows.filter(({ step }) => step >= from) };
  }

  async rollout(run: number, id: number): Promise<BodyAnswer | null> {
    const { chunks, pieces } = await this.#run(run);
    const chunk = chunks[id];
    if (chunk === undefined) return null;
    const bodies = this.#chunks.get(chunk) ?? inflate<Body[]>(`chunk-${chunk}`);
    this.#chunks.delete(chunk);
    this.#chunks.set(chunk, bodies);
    if (this.#chunks.size > 8) this.#chunks.delete([...this.#chunks.keys()][0] as number);
    const body = (await bodies).find((one) => one.id === id);
    return body ? { body, pieces } : null;
  }

  #run(run: number): Promise<ReportRun> {
    const found = this.#runs.get(run) ?? inflate<ReportRun>(`run-${run}`);
    this.#runs.set(run, found);
    return found;
  }
}

async function get<T>(path: string): Promise<T> {
  const response = await fetch(path);
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
  return (await response.json()) as T;
}

class LiveSource implements Source {
  readonly about = null;
  runs = () => get<RunView[]>("/api/runs");
  revisions = () => get<string[]>("/api/revisions");
  rows = (run: number, from: number) => get<Rows>(`/api/rows?run=${run}&from=${from}`);
  rollout = (run: number, id: number) => get<BodyAnswer>(`/api/rollout?run=${run}&id=${id}`);
}

export function openSource(): Source {
  const about = textOf("about");
  return about === undefined ? new LiveSource() : new FileSource(JSON.parse(about) as ReportAbout);
}

/** The output of `yarn eval --page`, on the page of an evaluation. */
export function embeddedEvaluation(): SeenMatrix | undefined {
  const text = textOf("evaluation");
  return text === undefined ? undefined : (JSON.parse(text) as SeenMatrix);
}

/** What `yarn hone scenarios review` looks over, on its page. */
export function embeddedReview(): { readonly file: string } | undefined {
  const text = textOf("review");
  return text === undefined ? undefined : (JSON.parse(text) as { readonly file: string });
}
