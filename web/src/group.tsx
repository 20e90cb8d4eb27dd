/**
 * A group side by side: rewards, advantages, the judge's explanation, the conversations; and one scenario before and
 * after.
 */
import { useMemo, useState } from "preact/hooks";
import type { Row } from "../../src/insight/view/wire.js";
import { Conversation } from "./conversation.js";
import { groupState } from "./credit.js";
import { missingRows, type Run, useData } from "./data.js";
import { number, seconds, signed, visible } from "./format.js";
import { Beside, EndBadge, Signed, Solved } from "./parts.js";
import { failedText } from "./problems.js";
import { change, link } from "./route.js";
import { runOf } from "./steps.js";

const phaseText = ({ phase, step }: Row) => {
  if (phase === "train") return step === 0 ? "difficulty, before training" : `step ${step}`;
  return step === 0 ? "held out, before training" : `held out, after step ${step}`;
};

function Members({
  rows,
  shown,
  onToggle,
}: {
  readonly rows: readonly Row[];
  readonly shown: readonly number[];
  readonly onToggle: (member: number) => void;
}) {
  const most = Math.max(0, ...rows.map(({ advantage }) => Math.abs(advantage ?? 0)));
  const other = rows.some(({ trained, reward }) => trained !== null && trained !== reward);
  return (
    <div class="scroll">
      <table class="members">
        <thead>
          <tr>
            <th>show</th>
            <th>rollout</th>
            <th>solved</th>
            <th title="the task's own">reward</th>
            {other && <th title="the reward that the update used">trained with</th>}
            <th colSpan={2} title="what the update used: above 0 makes the rollout likelier">
              advantage
            </th>
            <th>how it ended</th>
            <th>turns</th>
            <th title="that the model wrote">tokens</th>
            <th>time</th>
            <th>failed calls</th>
          </tr>
        </thead>
        <tbody>
          {rows.map((row) => (
            <tr key={row.id} class={shown.includes(row.member) ? "shown" : ""}>
              <td>
                <input
                  type="checkbox"
                  aria-label={`show rollout ${row.member}`}
                  checked={shown.includes(row.member)}
                  onChange={() => onToggle(row.member)}
                />
              </td>
              <td class="n">{row.member}</td>
              <td>
                <Solved success={row.success} />
              </td>
              <td class="n reward">{number(row.reward)}</td>
              {other && <td class="n">{number(row.trained)}</td>}
              <td class={`n advantage ${(row.advantage ?? 0) < 0 ? "minus" : (row.advantage ?? 0) > 0 ? "plus" : ""}`}>
                {signed(row.advantage)}
              </td>
              <td>
                <Signed value={row.advantage} most={most} />
              </td>
              <td>
                <EndBadge end={row.end} />
              </td>
              <td class="n">{row.turns}</td>
              <td class="n">{number(row.tokens)}</td>
              <td class="n">{seconds(row.seconds)}</td>
              <td>{failedText([row])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

function Columns({
  run,
  rows,
  titled,
}: {
  readonly run: Run;
  readonly rows: readonly Row[];
  readonly titled: (row: Row) => string;
}) {
  return (
    <div class="side-by-side" style={{ "--columns": String(Math.max(1, rows.length)) }}>
      {rows.map((row) => (
        <article key={row.id} aria-label={titled(row)}>
          <header>
            <b>{titled(row)}</b> <Solved success={row.success} /> reward <b>{number(row.reward)}</b>
            {row.advantage !== null && (
              <>
                {" "}
                advantage <b class={row.advantage < 0 ? "minus" : "plus"}>{signed(row.advantage)}</b>
              </>
            )}
          </header>
          <Conversation run={run} row={row} />
        </article>
      ))}
    </div>
  );
}

export function Group({ params }: { readonly params: URLSearchParams }) {
  const { runs } = useData();
  const run = runOf(runs, params);
  const scenario = params.get("scenario") ?? "";
  const phase = params.get("phase") ?? "train";
  const step = Number(params.get("step"));
  const rows = useMemo(
    () => run?.rows.filter((row) => row.step === step && row.phase === phase && row.scenario === scenario) ?? [],
    [run, step, phase, scenario],
  );
  const siblings = useMemo(
    () => [...new Set(run?.rows.filter((row) => row.step === step && row.phase === phase).map((row) => row.scenario))],
    [run, step, phase],
  );
  if (!run) return <p class="nothing">There is no run to show.</p>;
  if (rows.length === 0) return <p class="nothing">{missingRows(run) ?? "The run keeps no such rollout."}</p>;
  const asked = params.get("show");
  const best = [...rows].sort((a, b) => b.reward - a.reward);
  const shown =
    asked === null
      ? [...new Set([best[0], best.at(-1)].flatMap((row) => row?.member ?? []))]
      : asked.split(",").filter(Boolean).map(Number);
  const toggle = (member: number) =>
    change({
      show:
        (shown.includes(member)
          ? shown.filter((one) => one !== member)
          : [...shown, member].sort((a, b) => a - b)
        ).join(",") || ",",
    });
  const at = siblings.indexOf(scenario);
  const to = (i: number) =>
    siblings[i] === undefined ? undefined : link("group", { run: run.view.id, phase, step, scenario: siblings[i] });
  const state = groupState(rows, run.view);
  const appearances = new Set(
    run.rows.filter((row) => row.scenario === scenario).map((row) => `${row.phase} ${row.step}`),
  ).size;
  return (
    <>
      <nav class="beside">
        <a href={link("steps", { run: run.view.id, step: Math.max(1, step) })}>step {step}</a>
        <Beside to={to(at - 1)} rel="prev">
          ← group before
        </Beside>
        <Beside to={to(at + 1)} rel="next">
          next group →
        </Beside>
        {appearances > 1 && (
          <a href={link("compare", { run: run.view.id, scenario })}>before and after of this scenario</a>
        )}
      </nav>
      <h2>
        {visible(scenario)} <small>{rows[0] && phaseText(rows[0])}</small>
      </h2>
      <p class="asked">{visible(run.questions[scenario] ?? "")}</p>
      {state && (
        <p class="banner">
          This group taught nothing: {state.name}, {state.why}.
        </p>
      )}
      <Members rows={rows} shown={shown} onToggle={toggle} />
      <Columns
        run={run}
        rows={rows.filter(({ member }) => shown.includes(member))}
        titled={(row) => `rollout ${row.member}`}
      />
    </>
  );
}

export function Compare({ params }: { readonly params: URLSearchParams }) {
  const { runs } = useData();
  const run = runOf(runs, params);
  const scenario = params.get("scenario") ?? "";
  const rows = useMemo(() => run?.rows.filter((row) => row.scenario === scenario) ?? [], [run, scenario]);
  const [chosen, setChosen] = useState<readonly [number | null, number | null]>([null, null]);
  if (!run) return <p class="nothing">There is no run to show.</p>;
  if (rows.length === 0)
    return <p class="nothing">{missingRows(run) ?? "The run keeps no rollout of this scenario."}</p>;
  const left = rows.find(({ id }) => id === chosen[0]) ?? rows[0];
  // The last time it was played, in the same phase if it was played twice in it.
  const again = rows.filter(({ phase, step }) => phase === left?.phase && step !== left.step);
  const right = rows.find(({ id }) => id === chosen[1]) ?? again.at(-1) ?? rows.at(-1);
  const titled = (row: Row) => `${phaseText(row)}, rollout ${row.member}`;
  const pick = (side: 0 | 1, value: number | undefined) => (
    <select
      aria-label={side === 0 ? "before" : "after"}
      value={value}
      onChange={(event) =>
        setChosen(
          side === 0 ? [Number(event.currentTarget.value), chosen[1]] : [chosen[0], Number(event.currentTarget.value)],
        )
      }
    >
      {rows.map((row) => (
        <option key={row.id} value={row.id}>{`${titled(row)}: reward ${number(row.reward)}`}</option>
      ))}
    </select>
  );
  return (
    <>
      <h2>
        Before and after <small>{visible(scenario)}</small>
      </h2>
      <p class="asked">{visible(run.questions[scenario] ?? "")}</p>
      <div class="controls">
        {pick(0, left?.id)} {pick(1, right?.id)}
      </div>
      <Columns
        run={run}
        rows={[left, right].flatMap((row, i, both) => (row && (i === 0 || row !== both[0]) ? [row] : []))}
        titled={titled}
      />
    </>
  );
}
