/** Metrics of the server in Prometheus' text format. */
import { isLocal } from "../core/engine/engine.js";
import type { ServedModel } from "./model.js";

/** Counters since the server started. */
export class Counts {
  readonly requests = new Map<string, number>();
  /** Requests whose client disconnected before the response. */
  cancelled = 0;

  request(route: string, status: number): void {
    const labels = `{route="${route}",status="${status}"}`;
    this.requests.set(labels, (this.requests.get(labels) ?? 0) + 1);
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

/** Of each model. */
type Metric = readonly [name: string, type: "counter" | "gauge", help: string, value: (model: ServedModel) => number];

const OF_MODELS: readonly Metric[] = [
  ["hone_completions_running", "gauge", "Completions that are sampled now.", (one) => one.seats.counts.running],
  ["hone_completions_waiting", "gauge", "Completions that wait for a sequence.", (one) => one.seats.counts.waiting],
  ["hone_sequences_idle", "gauge", "Sequences kept for idle conversations.", (one) => one.seats.counts.idle],
  ["hone_turns_recorded", "gauge", "Turns that are remembered.", (one) => one.recorder.size.points],
  ["hone_tokens_recorded", "gauge", "Tokens of the turns that are remembered.", (one) => one.recorder.size.tokens],
  ["hone_conversations_new_total", "counter", "Requests that began a conversation.", (one) => one.counts.begun],
  [
    "hone_conversations_continued_total",
    "counter",
    "Requests that went on with a recorded conversation.",
    (one) => one.counts.continued,
  ],
  [
    "hone_history_rewritten_total",
    "counter",
    "Turns of the model that clients sent back otherwise than they were sampled.",
    (one) => one.counts.rewritten,
  ],
];

/** Of engines of this process; servers have metrics of their own. */
const OF_ENGINES = [
  ["hone_tokens_sampled_total", "Tokens sampled.", "decoded"],
  ["hone_tokens_evaluated_total", "Tokens evaluated that were not sampled just before.", "prefilled"],
  ["hone_tokens_reused_total", "Tokens whose KV was taken from another sequence.", "reused"],
] as const;

export function metricsText(counts: Counts, models: readonly ServedModel[]): string {
  const label = (model: string) => `{model=${quoted(model)}}`;
  const engines = models.flatMap(({ name, engine }) =>
    isLocal(engine) ? [{ labels: label(name), stats: engine.stats() }] : [],
  );
  const { rss } = process.memoryUsage();
  const lines = [
    ...metric("hone_requests_total", "counter", "Requests by route and status.", counts.requests),
    ...metric("hone_requests_cancelled_total", "counter", "Requests whose client went away before the answer.", [
      ["", counts.cancelled],
    ]),
    ...OF_MODELS.flatMap(([name, type, help, value]) => {
      const rows = models.map((model) => [label(model.name), value(model)] as const);
      return metric(name, type, help, rows);
    }),
    ...OF_ENGINES.flatMap(([name, help, figure]) => {
      const rows = engines.map(({ labels, stats }) => [labels, stats[figure]] as const);
      return metric(name, "counter", help, rows);
    }),
    ...metric("process_resident_memory_bytes", "gauge", "Resident memory of the process.", [["", rss]]),
  ];
  return `${lines.join("\n")}\n`;
}
