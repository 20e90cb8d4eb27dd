/** All rollouts of a run, filtered and sorted; only the visible rows are rendered. */
import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Row } from "../../src/insight/view/wire.js";
import { type Run, useData } from "./data.js";
import { isTrainedByOther } from "./diagnose.js";
import { number, refused, seconds, signed, visible, words } from "./format.js";
import { byExcess, isJudged } from "./order.js";
import { EndBadge, Solved } from "./parts.js";
import { failedText } from "./problems.js";
import { change, go } from "./route.js";
import { RunPicker, runOf } from "./steps.js";

const HEIGHT = 34;
/** Number of rows rendered above and below the visible ones. */
const BESIDE = 10;

interface Column {
  readonly name: string;
  readonly title: string;
  /** What the title does not say. */
  readonly about?: string;
  /** Left out on a page that is narrower than "wide", or than "middle". */
  readonly from?: "middle" | "wide";
  readonly value: (row: Row) => number | string;
  readonly cell: (row: Row, run: Run) => ComponentChildren;
}

const columns: readonly Column[] = [
  {
    name: "step",
    title: "step",
    about: "◦: held out, played after it",
    value: ({ step, phase }) => step + (phase === "validation" ? 0.5 : 0),
    cell: ({ step, phase }) => (phase === "validation" ? `${step} ◦` : step),
  },
  {
    name: "scenario",
    title: "scenario and rollout",
    value: ({ scenario, member }) => `${scenario}/${String(member).padStart(4, "0")}`,
    cell: ({ scenario, member }, { questions }) => (
      <>
        <b>{visible(`${scenario}/${member}`)}</b> {questions[scenario]}
      </>
    ),
  },
  {
    name: "success",
    title: "solved",
    value: ({ success }) => Number(success),
    cell: ({ success }) => <Solved success={success} />,
  },
  {
    name: "reward",
    title: "reward",
    about: "the task's own",
    value: ({ reward }) => reward,
    cell: ({ reward }) => number(reward),
  },
  {
    name: "trained",
    title: "trained with",
    about: "the reward that the update used",
    from: "wide",
    value: ({ trained }) => trained ?? Number.NEGATIVE_INFINITY,
    cell: ({ trained }) => number(trained),
  },
  {
    name: "advantage",
    title: "advantage",
    about: "what the update used: above 0 makes the rollout likelier",
    from: "middle",
    value: ({ advantage }) => advantage ?? Number.NEGATIVE_INFINITY,
    cell: ({ advantage }) => (
      <b class={(advantage ?? 0) < 0 ? "minus" : (advantage ?? 0) > 0 ? "plus" : ""}>{signed(advantage)}</b>
    ),
  },
  {
    name: "end",
    title: "how it ended",
    from: "middle",
    value: ({ end }) => end,
    cell: ({ end }) => <EndBadge end={end} />,
  },
  {
    name: "turns",
    title: "turns",
    about: "of the model",
    from: "wide",
    value: ({ turns }) => turns,
    cell: ({ turns }) => turns,
  },
  {
    name: "tokens",
    title: "tokens",
    about: "that the model wrote",
    from: "wide",
    value: ({ tokens }) => tokens,
    cell: ({ tokens }) => number(tokens),
  },
  {
    name: "seconds",
    title: "time",
    from: "wide",
    value: (row) => row.seconds,
    cell: (row) => seconds(row.seconds),
  },
  {
    name: "errors",
    title: "failed calls",
    about: "calls that did not run",
    from: "wide",
    value: ({ failed }) => failed.length,
    cell: (row) => failedText([row]),
  },
];

/** The reward that trained has a column where it is not the task's. */
const columnsOf = (run: Pick<Run, "view">) =>
  isTrainedByOther(run.view) ? columns : columns.filter(({ name }) => name !== "trained");

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
  const [phase, kind, end, success] = [get("phase"), get("kind"), get("end"), get("success")];
  const [error, call] = [get("error"), get("call")];
  // One call that is both.
  const fits = ([name, outcome]: Row["failed"][number]) =>
    (error === "" || error === "any" || outcome === error) && (call === "" || name === call);
  const rows = run.rows.filter(
    (row) =>
      row.step >= from &&
      row.step <= to &&
      (phase === "" || row.phase === phase) &&
      (kind === "" || row.kind === kind) &&
      (end === "" || row.end === end) &&
      (success === "" || row.success === (success === "yes")) &&
      (error === "none" ? row.failed.length === 0 : (error === "" && call === "") || row.failed.some(fits)) &&
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
  const errors = useMemo(
    () => distinct(run.rows.flatMap(({ failed }) => failed.map(([, outcome]) => outcome))),
    [run.rows],
  );
  const calls = useMemo(
    () => distinct(run.rows.flatMap(({ failed }) => failed.flatMap(([name]) => name || []))),
    [run.rows],
  );
  const named = (values: readonly string[]) => values.map((one) => [one, visible(words(one))] as const);
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
        title="failed calls"
        params={params}
        values={[["any", "any"], ["none", "none"], ...errors.map((one) => [one, refused(one)] as const)]}
      />
      {calls.length > 0 && (
        <Choice name="call" title="call" params={params} values={calls.map((one) => [one, visible(one)] as const)} />
      )}
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
      {columnsOf(run).map(({ name, from = "", cell }) => (
        <span key={name} role="gridcell" class={name === "scenario" ? "who" : from}>
          {cell(row, run)}
        </span>
      ))}
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
      <div
        class={isTrainedByOther(run.view) ? "table other" : "table"}
        role="grid"
        aria-label="Rollouts"
        aria-rowcount={rows.length}
      >
        <div class="line head" role="row">
          {columnsOf(run).map(({ name, title, about, from = "" }) => (
            <span
              key={name}
              role="columnheader"
              class={from}
              title={about}
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
