/** The page of an evaluation: players side by side, the paired differences, and the scenarios one by one. */
import { useMemo, useState } from "preact/hooks";
import type { SeenMatrix } from "../../src/insight/view/wire.js";
import "./evaluation.css";
import { counts, meanOf, number, percent, seconds, shareOf, signed, visible, words } from "./format.js";
import { THEME_HINT, useTheme } from "./theme.js";

type Column = SeenMatrix["columns"][number];
type Pair = SeenMatrix["pairs"][number];

/** Number of rows rendered at first. */
const FIRST = 200;

const dollars = (cost: number | null) => (cost === null ? "unknown" : `$${number(cost)}`);
const KINDS = { checkpoint: "checkpoint", model: "model", api: "API", expert: "script" } as const;

/** An interval and its estimate, on an axis of its own. */
function Span({
  low,
  high,
  at,
  axis,
}: {
  readonly low: number;
  readonly high: number;
  readonly at: number;
  readonly axis: readonly [number, number];
}) {
  const place = (value: number) => (100 * (value - axis[0])) / (axis[1] - axis[0]);
  const zero = axis[0] < 0 && axis[1] > 0;
  const sure = low > 0 || high < 0;
  return (
    <span class={zero && sure ? "span sure" : "span"} aria-hidden="true">
      {zero && <b style={{ left: `${place(0)}%` }} />}
      <i style={{ left: `${place(low)}%`, width: `${place(high) - place(low)}%` }} />
      <em style={{ left: `${place(at)}%` }} />
    </span>
  );
}

function Players({ columns }: { readonly columns: readonly Column[] }) {
  return (
    <div class="scroll">
      <table class="players">
        <thead>
          <tr>
            <th>player</th>
            <th colSpan={2}>success, 95 % interval</th>
            <th>reward</th>
            <th>turns</th>
            <th title="mean over rollouts">tokens written</th>
            <th title="mean over rollouts">tokens given</th>
            <th>cost</th>
            <th>seconds</th>
            <th>how rollouts ended</th>
          </tr>
        </thead>
        <tbody>
          {columns.map(({ name, title, kind, of, result, problem }) => (
            <tr key={name} class={result ? "" : "lost"}>
              <th title={visible(of)}>
                {visible(title)} <small>{KINDS[kind]}</small>
              </th>
              {result ? (
                <>
                  <td class="figure">{shareOf(result.figures.success, result.figures.n)}</td>
                  <td>
                    {result.figures.n > 0 ? (
                      <>
                        <Span {...result.figures} at={result.figures.success} axis={[0, 1]} />
                        <small>
                          {percent(result.figures.low)} to {percent(result.figures.high)}, n={result.figures.n}
                        </small>
                      </>
                    ) : (
                      <small>n=0</small>
                    )}
                  </td>
                  <td class="figure">{meanOf(result.figures.reward, result.figures.n)}</td>
                  <td class="figure">{meanOf(result.figures.turns, result.figures.n)}</td>
                  <td class="figure">{meanOf(result.figures.completion_tokens, result.figures.n)}</td>
                  <td class="figure">{number(result.effort.promptTokens / result.effort.rollouts)}</td>
                  <td class="figure">
                    {result.effort.cost === null && kind !== "api" ? "–" : dollars(result.effort.cost)}
                  </td>
                  <td class="figure">{seconds(result.effort.seconds)}</td>
                  <td>
                    <small>{counts(result.figures.ends)}</small>
                  </td>
                </>
              ) : (
                <td colSpan={9}>broke down: {visible(problem ?? "")}</td>
              )}
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** "+4.0": differences of shares in percentage points, to a tenth. */
function points(share: number): string {
  const tenths = (100 * share).toFixed(1);
  if (Number(tenths) === 0) return "0.0";
  return share > 0 ? `+${tenths}` : tenths.replace("-", "−");
}

function Differences({ pairs, titles }: { readonly pairs: readonly Pair[]; readonly titles: Map<string, string> }) {
  const most = Math.max(0.05, ...pairs.flatMap(({ success }) => [Math.abs(success.low), Math.abs(success.high)]));
  return (
    <div class="scroll">
      <table class="players">
        <thead>
          <tr>
            <th>second − first</th>
            <th colSpan={2}>success in points, 95 % interval</th>
            <th title="exact McNemar test, two-sided, of this pair alone">p</th>
            <th>solved by the second alone</th>
            <th>by the first alone</th>
            <th>reward, 95 % interval</th>
            <th>n</th>
          </tr>
        </thead>
        <tbody>
          {pairs.map(({ first, second, success, reward }) => (
            <tr key={`${first} ${second}`}>
              <th>
                {visible(titles.get(second) ?? second)} − {visible(titles.get(first) ?? first)}
              </th>
              <td class="figure">{points(success.difference)}</td>
              <td>
                <Span {...success} at={success.difference} axis={[-most, most]} />
                <small>
                  {points(success.low)} to {points(success.high)}
                </small>
              </td>
              <td class="figure">{success.p < 0.001 ? "<0.001" : success.p.toFixed(3)}</td>
              <td class="figure">{success.second}</td>
              <td class="figure">{success.first}</td>
              <td class="figure">
                {signed(reward.difference)}{" "}
                <small>{reward.low === null ? "all alike" : `${signed(reward.low)} to ${signed(reward.high)}`}</small>
              </td>
              <td class="figure">{success.n}</td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="hint">
        Every scenario is a pair. Success: Tango's score interval and the exact McNemar test; reward: percentile
        interval of the paired bootstrap. With many pairs of players some differ by chance: p is of each pair alone.
      </p>
    </div>
  );
}

function Scenarios({ matrix }: { readonly matrix: SeenMatrix }) {
  const [text, setText] = useState("");
  const [which, setWhich] = useState<"all" | "differ">("all");
  const [most, setMost] = useState(FIRST);
  const columns = matrix.columns.filter(({ result }) => result);
  const rows = useMemo(() => {
    const outcomes = columns.map(({ result }) => new Map(result?.outcomes.map((one) => [one.scenario, one])));
    return matrix.scenarios.map((scenario) => ({ scenario, of: outcomes.map((by) => by.get(scenario.id)) }));
  }, [matrix]);
  const wanted = text.toLowerCase();
  const shown = rows.filter(
    ({ scenario, of }) =>
      (which === "all" || new Set(of.flatMap((one) => (one ? [one.success] : []))).size > 1) &&
      `${scenario.id} ${scenario.question} ${scenario.kind ?? ""}`.toLowerCase().includes(wanted),
  );
  return (
    <section>
      <h2>Scenarios</h2>
      <div class="switch compared" role="group" aria-label="Show">
        {(["all", "differ"] as const).map((one) => (
          <button key={one} type="button" aria-pressed={which === one} onClick={() => setWhich(one)}>
            {one === "all" ? "all" : "where players differ"}
          </button>
        ))}
        <input
          name="text"
          placeholder="question, kind or id"
          aria-label="Question, kind or id"
          value={text}
          onInput={(event) => setText(event.currentTarget.value)}
        />
        <span class="count">
          {shown.length} of {rows.length}
        </span>
      </div>
      <div class="scroll">
        <table class="players outcomes">
          <thead>
            <tr>
              <th>question</th>
              {columns.map(({ name, title }) => (
                <th key={name}>{visible(title)}</th>
              ))}
            </tr>
          </thead>
          <tbody>
            {shown.slice(0, most).map(({ scenario, of }) => (
              <tr key={scenario.id}>
                <td title={visible(scenario.id)}>
                  {visible(scenario.question)} {scenario.kind && <small>{visible(scenario.kind)}</small>}
                </td>
                {of.map((one, i) => (
                  <td key={columns[i]?.name} class={one ? (one.success ? "solved" : "unsolved") : "none"}>
                    {one ? (one.success ? "✓ solved" : "✗ not solved") : "–"}
                    {one && (
                      <small>
                        reward {number(one.reward)}, {words(one.end)}, {number(one.turns)} turns
                      </small>
                    )}
                  </td>
                ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown.length > most && (
        <button type="button" class="more" onClick={() => setMost(most + 1000)}>
          {shown.length - most} more
        </button>
      )}
    </section>
  );
}

export function Evaluation({ matrix }: { readonly matrix: SeenMatrix }) {
  const { theme, next } = useTheme();
  const titles = new Map(matrix.columns.map(({ name, title }) => [name, title]));
  return (
    <>
      <header class="head">
        <h1>
          hone eval{" "}
          <span>
            {matrix.scenarios.length} {matrix.split} scenarios of {visible(matrix.task)}
          </span>
        </h1>
        <span class="about">evaluation of {matrix.made.slice(0, 16).replace("T", " ")} UTC</span>
        <button type="button" class="theme" onClick={next} title={THEME_HINT}>
          {theme}
        </button>
      </header>
      <main>
        <section>
          <h2>Players</h2>
          <Players columns={matrix.columns} />
        </section>
        {matrix.pairs.length > 0 && (
          <section>
            <h2>Differences on the same scenarios</h2>
            <Differences pairs={matrix.pairs} titles={titles} />
          </section>
        )}
        <Scenarios matrix={matrix} />
      </main>
    </>
  );
}
