/** The overview: problems, the run's state, its curves. */
import { useMemo, useState } from "preact/hooks";
import { Chart, colourOf, type Zoom } from "./chart.js";
import { type Run, useData } from "./data.js";
import { problemsOf } from "./diagnose.js";
import { number, percent, seconds } from "./format.js";
import { Plain } from "./parts.js";
import { link } from "./route.js";
import { charts } from "./series.js";

/** Number of problems shown before "all of them". */
const FIRST = 6;

function Problems({ runs }: { readonly runs: readonly Run[] }) {
  const [all, setAll] = useState(false);
  const problems = useMemo(() => runs.flatMap(({ view }) => problemsOf(view)), [runs]);
  if (problems.length === 0) return <p class="well">Nothing stands out: every step taught something.</p>;
  const shown = all ? problems : problems.slice(0, FIRST);
  return (
    <section class="problems" aria-label="What stands out">
      <h2>What stands out</h2>
      <ul>
        {shown.map(({ run, step, finding }) => (
          <li key={`${run} ${step} ${finding.text}`} class={finding.level}>
            {step === null ? (
              <b>{runs.find(({ view }) => view.id === run)?.view.name}</b>
            ) : (
              <a href={link("steps", { run, step })}>
                {runs.length > 1 ? `${runs.find(({ view }) => view.id === run)?.view.name} ` : ""}step {step}
              </a>
            )}
            <span>{finding.text}</span>
          </li>
        ))}
      </ul>
      {problems.length > FIRST && (
        <button type="button" onClick={() => setAll(!all)}>
          {all ? "fewer" : `all ${problems.length}`}
        </button>
      )}
    </section>
  );
}

function Card({ run, several }: { readonly run: Run; readonly several: boolean }) {
  const { view } = run;
  const last = view.steps.at(-1);
  const total = view.options.steps;
  const first = view.validations[0];
  const latest = view.validations.at(-1);
  const time = view.steps.reduce((sum, { timing }) => sum + (timing?.seconds.total ?? 0), 0);
  if (view.problem !== null) return null;
  return (
    <dl class="card" style={several ? { borderTopColor: colourOf(view.id) } : {}}>
      <div>
        <dt>run</dt>
        <dd>
          {view.name} {view.running && <span class="live">running</span>}
        </dd>
      </div>
      <div>
        <dt>steps</dt>
        <dd>
          {last?.step ?? 0}
          {typeof total === "number" ? ` of ${total}` : ""}
        </dd>
      </div>
      <div>
        <dt>held out, before</dt>
        <dd>
          {percent(first?.result.success)}
          {first && (
            <small>{` ${percent(first.result.low)} to ${percent(first.result.high)}, n=${first.result.n}`}</small>
          )}
        </dd>
      </div>
      <div>
        <dt>held out, {latest && latest !== first ? `after step ${latest.step}` : "after"}</dt>
        <dd>
          {latest === first ? "–" : percent(latest?.result.success)}
          {latest && latest !== first && (
            <small>{` ${percent(latest.result.low)} to ${percent(latest.result.high)}, n=${latest.result.n}`}</small>
          )}
        </dd>
      </div>
      <div>
        <dt>reward, last step</dt>
        <dd>
          {number(last?.metrics?.reward)}
          {last?.metrics && <small>{` n=${last.metrics.rollouts}`}</small>}
        </dd>
      </div>
      <div>
        <dt>time</dt>
        <dd>{time > 0 ? seconds(time) : "–"}</dd>
      </div>
    </dl>
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
  return (
    <>
      <Problems runs={runs} />
      <div class="cards">
        {runs.map((run) => (
          <Card key={run.view.id} run={run} several={runs.length > 1} />
        ))}
      </div>
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
        <output class={smoothing > 0 ? "smoothed" : "exact"}>
          {smoothing > 0
            ? `smoothed: exponential mean, weight ${smoothing.toFixed(2)}; the thin lines are the values`
            : "not smoothed"}
        </output>
        {zoom ? (
          <button type="button" onClick={() => setZoom(null)}>
            steps {zoom.from} to {zoom.to} ✕
          </button>
        ) : (
          <span class="hint">drag to zoom, click to open a step</span>
        )}
      </div>
      <div class="charts">
        {charts.map((spec) => (
          <Chart
            key={spec.id}
            spec={spec}
            runs={drawn}
            smoothing={smoothing}
            zoom={zoom}
            onZoom={setZoom}
            theme={theme}
          />
        ))}
      </div>
      {readable.some(({ view }) => view.logs.length > 0) && <Logs runs={readable} />}
    </>
  );
}

function Logs({ runs }: { readonly runs: readonly Run[] }) {
  return (
    <details class="logs">
      <summary>Logs of engine and learner, their last lines</summary>
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
