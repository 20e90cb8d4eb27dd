/** Metrics of the server in Prometheus' text format. */
import { isLocal } from "../core/engine/engine.js";
import type { ServedModel } from "./model.js";

/** Counters since the server started. */
export class Counts {
  readonly #requests = new Map<string, number>();
  /** Requests whose client disconnected before the response. */
  cancelled = 0;

  request(route: string, status: number): void {
    const labels = `{route="${route}",status="${status}"}`;
    this.#requests.set(labels, (this.#requests.get(labels) ?? 0) + 1);
  }

  get requests(): ReadonlyMap<string, number> {
    return this.#requests;
  }
}

type Rows = Iterable<readonly [labels: string, value: number]>;

function metric(name: string, type: "counter" | "gauge", help: string, rows: Rows): string[] {
  return [
    `# HELP ${name} ${help}`,
    `# TYPE ${name} ${type}`,
    ...[...rows].map(([labels, value]) => `${name}${labels} ${value}`),
  ];
}

/** Quotes a label's value. */
const quoted = (value: string) => `"${value.replace(/\\/g, "\\\\").replace(/"/g, '\\"').replace(/\n/g, "\\n")}"`;

export function metricsText(counts: Counts, models: readonly ServedModel[]): string {
  const of = (value: (model: ServedModel) => number): Rows =>
    models.map((model) => [`{model=${quoted(model.name)}}`, value(model)] as const);
  // Engines of this process count; servers have metrics of their own.
  const counted = (name: "decoded" | "prefilled" | "reused"): Rows =>
    models.flatMap(({ name: model, engine }) =>
      isLocal(engine) ? [[`{model=${quoted(model)}}`, engine.stats()[name]] as const] : [],
    );
  const { rss } = process.memoryUsage();
  const lines = [
    ...metric("hone_requests_total", "counter", "Requests by route and status.", counts.requests),
    ...metric("hone_requests_cancelled_total", "counter", "Requests whose client went away before the answer.", [
      ["", counts.cancelled],
    ]),
    ...metric(
      "hone_completions_running",
      "gauge",
      "Completions that are sampled now.",
      of((one) => one.seats.counts.running),
    ),
    ...metric(
      "hone_completions_waiting",
      "gauge",
      "Completions that wait for a sequence.",
      of((one) => one.seats.counts.waiting),
    ),
    ...metric(
      "hone_sequences_idle",
      "gauge",
      "Sequences kept for idle conversations.",
      of((one) => one.seats.counts.idle),
    ),
    ...metric(
      "hone_turns_recorded",
      "gauge",
      "Turns that are remembered.",
      of((one) => one.recorder.size.points),
    ),
    ...metric(
      "hone_tokens_recorded",
      "gauge",
      "Tokens of the turns that are remembered.",
      of((one) => one.recorder.size.tokens),
    ),
    ...metric(
      "hone_conversations_new_total",
      "counter",
      "Requests that began a conversation.",
      of((one) => one.counts.begun),
    ),
    ...metric(
      "hone_conversations_continued_total",
      "counter",
      "Requests that went on with a recorded conversation.",
      of((one) => one.counts.continued),
    ),
    ...metric(
      "hone_history_rewritten_total",
      "counter",
      "Turns of the model that clients sent back otherwise than they were sampled.",
      of((one) => one.counts.rewritten),
    ),
    ...metric("hone_tokens_sampled_total", "counter", "Tokens sampled.", counted("decoded")),
    ...metric(
      "hone_tokens_evaluated_total",
      "counter",
      "Tokens evaluated that were not sampled just before.",
      counted("prefilled"),
    ),
    ...metric(
      "hone_tokens_reused_total",
      "counter",
      "Tokens whose KV was taken from another sequence.",
      counted("reused"),
    ),
    ...metric("process_resident_memory_bytes", "gauge", "Resident memory of the process.", [["", rss]]),
  ];
  return `${lines.join("\n")}\n`;
}
