/** All rollouts of a run, filtered and sorted; only the visible rows are rendered. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Row } from "../../src/insight/view/wire.js";
import { type Run, useData } from "./data.js";
import { counts, number, seconds, signed, words } from "./format.js";
import { byExcess, isJudged } from "./order.js";
import { EndBadge, Solved } from "./parts.js";
import { change, go } from "./route.js";
import { RunPicker, runOf } from "./steps.js";

const HEIGHT = 34;
/** Number of rows rendered above and below the visible ones. */
const BESIDE = 10;

type Column =
  | "step"
  | "scenario"
  | "reward"
  | "trained"
  | "advantage"
  | "end"
  | "turns"
  | "tokens"
  | "seconds"
  | "errors";

const columns: readonly {
  readonly name: Column;
  readonly title: string;
  readonly value: (row: Row) => number | string;
}[] = [
  { name: "step", title: "step", value: ({ step, phase }) => step + (phase === "validation" ? 0.5 : 0) },
  {
    name: "scenario",
    title: "rollout",
    value: ({ scenario, member }) => `${scenario}/${String(member).padStart(4, "0")}`,
  },
  { name: "reward", title: "reward", value: ({ reward }) => reward },
  { name: "trained", title: "trained", value: ({ trained }) => trained ?? Number.NEGATIVE_INFINITY },
  { name: "advantage", title: "advantage", value: ({ advantage }) => advantage ?? Number.NEGATIVE_INFINITY },
  { name: "end", title: "end", value: ({ end }) => end },
  { name: "turns", title: "turns", value: ({ turns }) => turns },
  { name: "tokens", title: "tokens", value: ({ tokens }) => tokens },
  { name: "seconds", title: "time", value: (row) => row.seconds },
  {
    name: "errors",
    title: "calls not run",
    value: ({ errors }) => Object.values(errors).reduce((sum, n) => sum + n, 0),
  },
];

/** "7", "3-9" or "": steps from and to. */
function stepsIn(text: string): [number, number] {
  const [, from, to] = text.match(/^\s*(\d*)\s*(?:[-–]\s*(\d*))?\s*$/) ?? [];
  if (from === undefined) return [0, Number.POSITIVE_INFINITY];
  const low = from === "" ? 0 : Number(from);
  if (/[-–]/.test(text)) return [low, to ? Number(to) : Number.POSITIVE_INFINITY];
  return from === "" ? [0, Number.POSITIVE_INFINITY] : [low, low];
}

export function filtered(run: Pick<Run, "rows" | "questions" | "view">, params: URLSearchParams): Row[] {
  const get = (name: string) => params.get(name) ?? "";
  const [from, to] = stepsIn(get("step"));
  const text = get("text").toLowerCase();
  const low = get("min") === "" ? Number.NEGATIVE_INFINITY : Number(get("min"));
  const high = get("max") === "" ? Number.POSITIVE_INFINITY : Number(get("max"));
  const [phase, kind, end, success, error] = [get("phase"), get("kind"), get("end"), get("success"), get("error")];
  const rows = run.rows.filter(
    (row) =>
      row.step >= from &&
      row.step <= to &&
      (phase === "" || row.phase === phase) &&
      (kind === "" || row.kind === kind) &&
      (end === "" || row.end === end) &&
      (success === "" || row.success === (success === "yes")) &&
      (error === "" ||
        (error === "any"
          ? Object.keys(row.errors).length > 0
          : error === "none"
            ? Object.keys(row.errors).length === 0
            : (row.errors[error] ?? 0) > 0)) &&
      row.reward >= low &&
      row.reward <= high &&
      (text === "" ||
        row.scenario.toLowerCase().includes(text) ||
        (run.questions[row.scenario] ?? "").toLowerCase().includes(text)),
  );
  const column = columns.find(({ name }) => name === get("sort"));
  if (!column) return isJudged(run.view) ? byExcess(rows) : rows;
  const sign = get("order") === "down" ? -1 : 1;
  return rows.sort((a, b) => {
    const [one, other] = [column.value(a), column.value(b)];
    return sign * (one < other ? -1 : one > other ? 1 : 0);
  });
}

function Choice({
  name,
  title,
  values,
  params,
}: {
  readonly name: string;
  readonly title: string;
  readonly values: readonly (readonly [string, string])[];
  readonly params: URLSearchParams;
}) {
  return (
    <label>
      {title}
      <select
        name={name}
        value={params.get(name) ?? ""}
        onChange={(event) => change({ [name]: event.currentTarget.value })}
      >
        <option value="">all</option>
        {values.map(([value, text]) => (
          <option key={value} value={value}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}

function Field({
  name,
  title,
  params,
  placeholder,
}: {
  readonly name: string;
  readonly title: string;
  readonly params: URLSearchParams;
  readonly placeholder: string;
}) {
  return (
    <label>
      {title}
      <input
        name={name}
        value={params.get(name) ?? ""}
        placeholder={placeholder}
        onInput={(event) => change({ [name]: event.currentTarget.value })}
      />
    </label>
  );
}

const distinct = (values: readonly (string | null)[]) => [...new Set(values.filter((one) => one !== null))].sort();

function Filters({ run, params }: { readonly run: Run; readonly params: URLSearchParams }) {
  const kinds = useMemo(() => distinct(run.rows.map(({ kind }) => kind)), [run.rows]);
  const ends = useMemo(() => distinct(run.rows.map(({ end }) => end)), [run.rows]);
  const errors = useMemo(() => distinct(run.rows.flatMap((row) => Object.keys(row.errors))), [run.rows]);
  const named = (values: readonly string[]) => values.map((one) => [one, words(one)] as const);
  return (
    <form class="filters" onSubmit={(event) => event.preventDefault()}>
      <Field name="step" title="step" params={params} placeholder="7 or 3-9" />
      <Choice
        name="phase"
        title="phase"
        params={params}
        values={[
          ["train", "train"],
          ["validation", "held out"],
        ]}
      />
      <Field name="text" title="scenario" params={params} placeholder="id or words" />
      {kinds.length > 0 && <Choice name="kind" title="kind" params={params} values={named(kinds)} />}
      <Choice name="end" title="end" params={params} values={named(ends)} />
      <Choice
        name="success"
        title="success"
        params={params}
        values={[
          ["yes", "solved"],
          ["no", "not solved"],
        ]}
      />
      <Choice
        name="error"
        title="calls not run"
        params={params}
        values={[["any", "any"], ["none", "none"], ...named(errors)]}
      />
      <Field name="min" title="reward from" params={params} placeholder="" />
      <Field name="max" title="to" params={params} placeholder="" />
      {[...params.keys()].some((name) => name !== "run") && (
        <button type="button" onClick={() => go("rollouts", { run: params.get("run") })}>
          clear
        </button>
      )}
    </form>
  );
}

function Line({ row, run, chosen }: { readonly row: Row; readonly run: Run; readonly chosen: boolean }) {
  return (
    <div
      role="row"
      class={chosen ? "line chosen" : "line"}
      aria-selected={chosen}
      style={{ height: `${HEIGHT}px` }}
      onClick={() => open(run, row)}
    >
      <span role="cell" class="n">
        {row.phase === "validation" ? `${row.step} ◦` : row.step}
      </span>
      <span role="cell" class="who">
        <b>{`${row.scenario}/${row.member}`}</b> {run.questions[row.scenario]}
      </span>
      <span role="cell" class="n">
        <Solved success={row.success} /> {number(row.reward)}
      </span>
      <span role="cell" class="n wide">
        {number(row.trained)}
      </span>
      <span role="cell" class={`n ${(row.advantage ?? 0) < 0 ? "minus" : (row.advantage ?? 0) > 0 ? "plus" : ""}`}>
        {signed(row.advantage)}
      </span>
      <span role="cell">
        <EndBadge end={row.end} />
      </span>
      <span role="cell" class="n wide">
        {row.turns}
      </span>
      <span role="cell" class="n wide">
        {number(row.tokens)}
      </span>
      <span role="cell" class="n wide">
        {seconds(row.seconds)}
      </span>
      <span role="cell" class="wide">
        {counts(row.errors)}
      </span>
    </div>
  );
}

const open = (run: Run, row: Row) =>
  go("group", { run: run.view.id, phase: row.phase, step: row.step, scenario: row.scenario, show: row.member });

export function Rollouts({ params }: { readonly params: URLSearchParams }) {
  const { runs } = useData();
  const run = runOf(runs, params);
  const query = params.toString();
  const rows = useMemo(() => (run ? filtered(run, new URLSearchParams(query)) : []), [run, query]);
  const list = useRef<HTMLDivElement>(null);
  const [top, setTop] = useState(0);
  const [height, setHeight] = useState(600);
  const [chosen, setChosen] = useState(0);
  useEffect(() => {
    const element = list.current;
    if (!element) return;
    const observer = new ResizeObserver(() => setHeight(element.clientHeight));
    observer.observe(element);
    return () => observer.disconnect();
  }, []);
  if (!run) return <p class="nothing">There is no run to show.</p>;
  const first = Math.max(0, Math.floor(top / HEIGHT) - BESIDE);
  const shown = rows.slice(first, first + Math.ceil(height / HEIGHT) + 2 * BESIDE);
  const onKey = (event: KeyboardEvent) => {
    const by = {
      ArrowDown: 1,
      j: 1,
      ArrowUp: -1,
      k: -1,
      PageDown: 15,
      PageUp: -15,
      End: rows.length,
      Home: -rows.length,
    }[event.key];
    const row = rows[chosen];
    if (event.key === "Enter" && row) open(run, row);
    if (by === undefined) return;
    event.preventDefault();
    const next = Math.min(rows.length - 1, Math.max(0, chosen + by));
    setChosen(next);
    const element = list.current;
    if (!element) return;
    if (next * HEIGHT < element.scrollTop) element.scrollTop = next * HEIGHT;
    else if ((next + 1) * HEIGHT > element.scrollTop + element.clientHeight)
      element.scrollTop = (next + 1) * HEIGHT - element.clientHeight;
  };
  const sort = params.get("sort");
  const down = params.get("order") === "down";
  return (
    <>
      <RunPicker run={run} runs={runs} />
      <Filters run={run} params={params} />
      <p class="count" aria-live="polite">
        {rows.length.toLocaleString("en-US")} of {run.rows.length.toLocaleString("en-US")} rollouts
        {run.complete ? "" : run.failure === null ? ", more are being read" : ", the others could not be read"}; ↑ ↓ and
        Enter open one
        {sort === null && isJudged(run.view) && (
          <>
            . First those whose judged reward is farthest above the task's own:{" "}
            <button type="button" class="more" onClick={() => change({ sort: "step" })}>
              in the order of steps
            </button>
          </>
        )}
      </p>
      <div class="table" role="table" aria-label="Rollouts" aria-rowcount={rows.length}>
        <div class="line head" role="row">
          {columns.map(({ name, title }) => (
            <span
              key={name}
              role="columnheader"
              class={["trained", "turns", "tokens", "seconds", "errors"].includes(name) ? "wide" : ""}
              aria-sort={sort === name ? (down ? "descending" : "ascending") : "none"}
            >
              <button
                type="button"
                onClick={() => change({ sort: name, order: sort === name && !down ? "down" : null })}
              >
                {title}
                {sort === name ? (down ? " ↓" : " ↑") : ""}
              </button>
            </span>
          ))}
        </div>
        <div
          ref={list}
          class="lines"
          role="rowgroup"
          tabIndex={0}
          onKeyDown={onKey}
          onScroll={(event) => setTop(event.currentTarget.scrollTop)}
        >
          <div style={{ height: `${rows.length * HEIGHT}px` }}>
            <div style={{ transform: `translateY(${first * HEIGHT}px)` }}>
              {shown.map((row, i) => (
                <Line key={row.id} row={row} run={run} chosen={first + i === chosen} />
              ))}
            </div>
          </div>
        </div>
      </div>
    </>
  );
}
