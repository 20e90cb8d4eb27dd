/** The overview: what stands out, success and reward, and under "Diagnostics" everything else. */
import { useMemo, useState } from "preact/hooks";
import type { RunView } from "../../src/insight/view/wire.js";
import { Chart, colourOf, type Zoom } from "./chart.js";
import { type Run, useData } from "./data.js";
import { findingsOf, isTrainedByOther } from "./diagnose.js";
import { clock, gigabytes, mean, meanOf, number, percent, seconds, shareOf, stepsText } from "./format.js";
import { Plain } from "./parts.js";
import { type Problem, problemsOf } from "./problems.js";
import { link } from "./route.js";
import { type ChartSpec, charts, hasValues } from "./series.js";

function Standing({
  problem,
  run,
  several,
}: {
  readonly problem: Problem;
  readonly run: RunView;
  readonly several: boolean;
}) {
  const { steps, level, text, cause, next = [] } = problem;
  return (
    <li class={level}>
      <p>
        {(several || steps.length === 0) && <b>{run.name} </b>}
        {steps.length > 0 && <a href={link("steps", { run: run.id, step: steps[0] })}>{stepsText(steps)}</a>} {text}
      </p>
      {cause && <p class="cause">{cause}</p>}
      {next.length > 0 && <pre class="next">{next.join("\n")}</pre>}
    </li>
  );
}

/** Runs whose steps all taught something: what was unusual in some is shown with the steps. */
function Calm({ runs }: { readonly runs: readonly Run[] }) {
  const steps = runs.flatMap(({ view }) => view.steps.filter(({ metrics }) => metrics !== null));
  const taught = steps.length === 1 ? "the step taught something" : "every step taught something";
  const odd = runs.flatMap(({ view }) => {
    const of = view.steps.filter((step) => findingsOf(step, view).some(({ level }) => level !== "note"));
    return of.length > 0 ? [{ view, steps: of.map(({ step }) => step) }] : [];
  });
  if (odd.length === 0) return <p class="well">Nothing stands out: {taught}.</p>;
  return (
    <p class="well">
      {taught.replace(/^./, (letter) => letter.toUpperCase())}; unusual:{" "}
      {odd.map(({ view, steps: of }, i) => (
        <span key={view.id}>
          {i > 0 ? ", " : ""}
          <a href={link("steps", { run: view.id })}>
            {runs.length > 1 ? `${view.name} ` : ""}
            {stepsText(of)}
          </a>
        </span>
      ))}
    </p>
  );
}

function Problems({ runs }: { readonly runs: readonly Run[] }) {
  const problems = useMemo(
    () =>
      runs.flatMap((run) =>
        problemsOf(run.view, run.complete ? run.rows : []).map((problem) => ({ problem, run: run.view })),
      ),
    [runs],
  );
  if (problems.length === 0) return <Calm runs={runs} />;
  return (
    <section class="problems" aria-label="What stands out">
      <h2>What stands out</h2>
      <ul>
        {problems.map(({ problem, run }) => (
          <Standing
            key={`${run.id} ${problem.steps[0]} ${problem.text}`}
            problem={problem}
            run={run}
            several={runs.length > 1}
          />
        ))}
      </ul>
    </section>
  );
}

interface Figure {
  readonly title: string;
  readonly value: string;
  readonly about?: string | undefined;
  readonly large?: boolean;
}

type Result = RunView["validations"][number]["result"];
const intervalText = ({ low, high, n }: Pick<Result, "low" | "high" | "n">) =>
  n > 0 ? `${percent(low)} to ${percent(high)}, n=${n}` : "n=0";

/** Held-out success and the reward that trained are large; what there is none of is left out. */
function figuresOf(view: RunView): Figure[] {
  const trained = view.steps.flatMap(({ step, metrics }) => (metrics ? [{ step, ...metrics }] : []));
  const last = trained.at(-1);
  const [before, ...later] = view.validations;
  const after = later.at(-1);
  const figures: Figure[] = [];
  const add = (title: string, value: string, about?: string, large = true) =>
    figures.push({ title, value, about, large });
  if (before)
    add(
      before.step === 0 ? "held-out success before" : `held-out success, step ${before.step}`,
      shareOf(before.result.success, before.result.n),
      intervalText(before.result),
    );
  if (after)
    add(
      `held-out success, step ${after.step}`,
      shareOf(after.result.success, after.result.n),
      intervalText(after.result),
    );
  if (last && !after) {
    const { success_low: low, success_high: high, rollouts: n } = last;
    add(`success in training, step ${last.step}`, shareOf(last.success, n), intervalText({ low, high, n }));
  }
  if (last) {
    const other = isTrainedByOther(view);
    if (other) add(`reward that trained, step ${last.step}`, number(last.training_reward), `n=${last.training_n}`);
    add(
      other ? "the task's own reward" : `reward, step ${last.step}`,
      meanOf(last.reward, last.rollouts),
      `n=${last.rollouts}`,
      !other,
    );
  }
  return figures;
}

function Card({ run, several }: { readonly run: Run; readonly several: boolean }) {
  const { view } = run;
  if (view.problem !== null) return null;
  const total = view.options.steps;
  const time = view.steps.reduce((sum, { timing }) => sum + (timing?.seconds.total ?? 0), 0);
  const done = view.steps.at(-1)?.step ?? 0;
  return (
    <section
      class={several ? "card coloured" : "card"}
      aria-label={view.name}
      style={several ? { borderTopColor: colourOf(view.id) } : {}}
    >
      <header>
        <h2>{view.name}</h2> {view.running && <span class="live">running</span>}
        <small>
          {done}
          {typeof total === "number" && total !== done ? ` of ${total}` : ""}{" "}
          {done === 1 && total === 1 ? "step" : "steps"}
          {time > 0 && `, ${clock(time)}`}
        </small>
      </header>
      <dl>
        {figuresOf(view).map(({ title, value, about, large }) => (
          <div key={title} class={large ? "large" : ""}>
            <dt>{title}</dt>
            <dd>
              {value} {about && <small>{about}</small>}
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

type Group = NonNullable<ChartSpec["group"]>;
const GROUPS: readonly Group[] = ["learning", "tokens", "time", "memory"];

/** Its latest figures, which are seen while it is folded. */
function lineOf(group: Group, { steps }: RunView): string {
  const last = steps.findLast(({ metrics }) => metrics)?.metrics;
  const timed = steps.flatMap(({ timing }) => timing?.seconds.total ?? []);
  if (!last) return "";
  if (group === "time") return timed.length > 0 ? `${seconds(mean(timed))} a step` : "";
  const peak = Math.max(...steps.map(({ timing }) => timing?.memory?.peak ?? 0));
  if (group === "memory") return peak > 0 ? gigabytes(peak) : "";
  if (group === "tokens") {
    const { completion_tokens: tokens, turns, rollouts: n } = last;
    return `${meanOf(tokens, n)} tokens and ${meanOf(turns, n)} turns a rollout`;
  }
  return `${last.groups_trainable} of ${last.groups} groups taught${last.entropy === null ? "" : `, entropy ${number(last.entropy)}`}`;
}

/** What did not happen, for charts that have nothing to draw. */
function missingText(specs: readonly ChartSpec[], runs: readonly Run[]): string {
  const running = runs.some(({ view }) => view.running);
  const updated = runs.some(({ view }) => view.steps.some(({ metrics }) => (metrics?.updates ?? 0) > 0));
  const texts = specs.map(
    ({ title, missing }) => missing ?? (updated ? `${title}: not measured` : "No update was made"),
  );
  return [...new Set(texts)].map((text) => `${text}${running ? " yet" : ""}.`).join(" ");
}

interface Drawing {
  readonly runs: readonly Run[];
  readonly smoothing: number;
  readonly zoom: Zoom | null;
  readonly onZoom: (zoom: Zoom | null) => void;
  readonly theme: string;
}

/** Findings shown with a group of charts. */
const NOTED = 3;

function Diagnostics({ group, ...drawing }: Drawing & { readonly group: Group }) {
  const { runs } = drawing;
  const specs = charts.filter((spec) => spec.group === group);
  const drawn = specs.filter((spec) => hasValues(spec, runs));
  const missing = missingText(
    specs.filter((spec) => !drawn.includes(spec)),
    runs,
  );
  const found = runs.flatMap(({ view }) =>
    view.steps.flatMap((step) =>
      findingsOf(step, view).flatMap(({ about, text }) => (about === group ? [{ view, step: step.step, text }] : [])),
    ),
  );
  const [open, setOpen] = useState<boolean | null>(null);
  const isOpen = open ?? found.length > 0;
  const line = runs.length === 1 && runs[0] ? lineOf(group, runs[0].view) : "";
  return (
    <details
      open={isOpen}
      onToggle={(event) => event.currentTarget.open !== isOpen && setOpen(event.currentTarget.open)}
    >
      <summary>
        <b>{group}</b> <span>{[line, missing].filter(Boolean).join(". ")}</span>
        {found.length > 0 && <em>{found.length === 1 ? "1 step stands out" : `${found.length} stand out`}</em>}
      </summary>
      {isOpen && (
        <>
          <ul class="findings">
            {found.slice(0, NOTED).map(({ view, step, text }) => (
              <li key={`${view.id} ${step} ${text}`} class="odd">
                <span>
                  <a href={link("steps", { run: view.id, step })}>
                    {runs.length > 1 ? `${view.name} ` : ""}step {step}
                  </a>{" "}
                  {text}
                </span>
              </li>
            ))}
          </ul>
          <div class="charts">
            {drawn.map((spec) => (
              <Chart key={spec.id} spec={spec} {...drawing} />
            ))}
          </div>
        </>
      )}
    </details>
  );
}

export function Overview({ theme }: { readonly theme: string }) {
  const { runs } = useData();
  const [hidden, setHidden] = useState<readonly number[]>([]);
  const [smoothing, setSmoothing] = useState(0);
  const [zoom, setZoom] = useState<Zoom | null>(null);
  const readable = useMemo(() => runs.filter(({ view }) => view.problem === null), [runs]);
  const shown = useMemo(() => readable.filter(({ view }) => !hidden.includes(view.id)), [readable, hidden]);
  const state = shown
    .map(({ view, rows, complete }) => `${view.id} ${view.revision} ${complete ? rows.length : ""}`)
    .join();
  // Redrawn when a run has changed, not with each batch of its rollouts: intervals need all of them.
  const drawn = useMemo(() => shown.map((run) => (run.complete ? run : { ...run, rows: [] })), [state]);
  const drawing: Drawing = { runs: drawn, smoothing, zoom, onZoom: setZoom, theme };
  const top = charts.filter((spec) => spec.group === undefined && hasValues(spec, drawn));
  const last = Math.max(0, ...readable.map(({ view }) => view.steps.at(-1)?.step ?? 0));
  return (
    <>
      <Problems runs={runs} />
      <div class="cards">
        {runs.map((run) => (
          <Card key={run.view.id} run={run} several={runs.length > 1} />
        ))}
      </div>
      {last > 0 && (
        <>
          <div class="controls">
            {readable.length > 1 &&
              readable.map(({ view }) => (
                <label key={view.id} class="chip">
                  <input
                    type="checkbox"
                    checked={!hidden.includes(view.id)}
                    onChange={() =>
                      setHidden(hidden.includes(view.id) ? hidden.filter((id) => id !== view.id) : [...hidden, view.id])
                    }
                  />
                  <i style={{ background: colourOf(view.id) }} />
                  {view.name}
                </label>
              ))}
            {last > 2 && (
              <label>
                smoothing{" "}
                <input
                  type="range"
                  min="0"
                  max="0.95"
                  step="0.05"
                  value={smoothing}
                  onInput={(event) => setSmoothing(Number(event.currentTarget.value))}
                />
              </label>
            )}
            {smoothing > 0 && (
              <output class="smoothed">
                smoothed: exponential mean, weight {smoothing.toFixed(2)}; the thin lines are the values
              </output>
            )}
            {zoom ? (
              <button type="button" onClick={() => setZoom(null)}>
                steps {zoom.from} to {zoom.to} ✕
              </button>
            ) : (
              <span class="hint">drag to zoom, click to open a step</span>
            )}
          </div>
          <div class="charts">
            {top.map((spec) => (
              <Chart key={spec.id} spec={spec} {...drawing} />
            ))}
          </div>
          <section class="diagnostics" aria-label="Diagnostics">
            <h2>Diagnostics</h2>
            {(drawn.length > 0 ? GROUPS : []).map((group) => (
              <Diagnostics key={group} group={group} {...drawing} />
            ))}
            {readable.some(({ view }) => view.logs.length > 0) && <Logs runs={readable} />}
          </section>
        </>
      )}
    </>
  );
}

function Logs({ runs }: { readonly runs: readonly Run[] }) {
  return (
    <details class="logs">
      <summary>
        <b>logs</b> <span>engine and learner, their last lines</span>
      </summary>
      {runs.flatMap(({ view }) =>
        view.logs.map(({ name, lines }) => (
          <figure key={`${view.id} ${name}`}>
            <figcaption>
              {view.name} {name}
            </figcaption>
            <Plain text={lines.join("\n")} />
          </figure>
        )),
      )}
    </details>
  );
}
