/** What goes wrong: failing calls by name, every step in a line, and one step with all details. */
import { useMemo } from "preact/hooks";
import type { Row } from "../../src/insight/view/wire.js";
import { groupState } from "./credit.js";
import { groupsOf, missingRows, type Run, useData } from "./data.js";
import { findingsOf, isTrainedByOther, noVerdictText, sumOf } from "./diagnose.js";
import {
  counts,
  mean,
  meanOf,
  number,
  percent,
  ranked,
  refused,
  seconds,
  shareOf,
  signed,
  stepsText,
  tally,
  total,
  visible,
  words,
} from "./format.js";
import { Beside, Parts, toneOf } from "./parts.js";
import { type FailedCall, failedCalls, failedText, unfinishedStep } from "./problems.js";
import { change, go, link } from "./route.js";

const GROUPS = ["trainable", "no spread", "masked", "no reward", "broken off"];

const groupCounts = (metrics: NonNullable<Run["view"]["steps"][number]["metrics"]>): Record<string, number> => ({
  trainable: metrics.groups_trainable,
  "no spread": metrics.groups_flat,
  masked: metrics.groups_masked,
  "no reward": metrics.groups_unrewarded,
  "broken off": metrics.groups_broken_off,
});

/** The colours of a column's bars; of those that occur. */
function Legend({ names, order }: { readonly names: readonly string[]; readonly order: readonly string[] }) {
  return (
    <ul class="legend">
      {names.map((name) => (
        <li key={name}>
          <i class={`block ${toneOf(name, order.indexOf(name))}`} />
          {refused(name)}
        </li>
      ))}
    </ul>
  );
}

/** Rollouts of a list of the longest or slowest. */
const LISTED = 5;
/** Kinds of failing calls that are shown. */
const SHOWN = 8;

/** A bar for each, as long as its number. */
function FailedCalls({
  run,
  calls,
  rollouts,
}: {
  readonly run: Run;
  readonly calls: readonly FailedCall[];
  readonly rollouts: number;
}) {
  const most = calls[0]?.n ?? 0;
  return (
    <section aria-label="Failed calls">
      <h2>
        Failed calls{" "}
        <small>
          {calls.reduce((sum, { n }) => sum + n, 0)} in {rollouts} rollouts of training
        </small>
      </h2>
      <div class="scroll">
        <table class="failing">
          <thead>
            <tr>
              <th>times</th>
              <th>call</th>
              <th>why it did not run</th>
              <th>in rollouts</th>
              <th>when</th>
            </tr>
          </thead>
          <tbody>
            {calls.slice(0, SHOWN).map(({ name, outcome, n, rollouts: of, steps }) => (
              <tr key={`${outcome} ${name}`}>
                <td class="times">
                  <b>{n}</b>
                  <i style={{ width: `calc(var(--longest) * ${n / most})` }} />
                </td>
                <td>
                  <a href={link("rollouts", { run: run.view.id, error: outcome, call: name, phase: "train" })}>
                    {name === "" ? "not a call" : <code>{visible(name)}</code>}
                  </a>
                </td>
                <td>{refused(outcome)}</td>
                <td class="n">{`${of} of ${rollouts}`}</td>
                <td>{stepsText(steps)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {calls.length > SHOWN && <p class="hint">{calls.length - SHOWN} other calls failed more rarely.</p>}
    </section>
  );
}

function AllSteps({ run }: { readonly run: Run }) {
  const { view } = run;
  const steps = useMemo(
    () => view.steps.flatMap((step) => (step.metrics ? [{ ...step, metrics: step.metrics }] : [])),
    [view.steps],
  );
  const calls = useMemo(() => (run.complete ? failedCalls(run.rows) : []), [run.complete, run.rows]);
  // A colour always has the same meaning.
  const ends = useMemo(() => ranked(total(steps.map(({ metrics }) => metrics.ends))).map(([name]) => name), [steps]);
  const errors = useMemo(
    () => ranked(total(steps.map(({ metrics }) => metrics.tool_errors))).map(([name]) => name),
    [steps],
  );
  const groups = useMemo(() => {
    const sums = total(steps.map(({ metrics }) => groupCounts(metrics)));
    return GROUPS.filter((name) => sums[name]);
  }, [steps]);
  const other = isTrainedByOther(view);
  // Memoised: thousands of lines, unchanged at most polls.
  const lines = useMemo(
    () =>
      steps.map((step) => {
        const { metrics } = step;
        const [finding] = findingsOf(step, view).filter(({ level }) => level !== "note");
        return (
          <tr
            key={step.step}
            class={finding?.level ?? ""}
            onClick={() => go("steps", { run: view.id, step: step.step })}
          >
            <td>
              <a href={link("steps", { run: view.id, step: step.step })}>{step.step}</a>
            </td>
            <td class="n">{shareOf(metrics.success, metrics.rollouts)}</td>
            {other && <td class="n">{number(metrics.training_reward)}</td>}
            <td class="n">{meanOf(metrics.reward, metrics.rollouts)}</td>
            <td>
              <Parts of={metrics.ends} order={ends} />
            </td>
            {errors.length > 0 && (
              <td>{sumOf(metrics.tool_errors) > 0 && <Parts of={metrics.tool_errors} order={errors} />}</td>
            )}
            <td>
              <Parts of={groupCounts(metrics)} order={GROUPS} />
            </td>
            <td class="finding">{finding?.text}</td>
          </tr>
        );
      }),
    [steps, view.id],
  );
  if (steps.length === 0)
    return <p class="nothing">{view.running ? "No step is finished yet." : "No step was finished."}</p>;
  const rollouts = steps.reduce((sum, { metrics }) => sum + metrics.rollouts, 0);
  return (
    <>
      {calls.length > 0 ? (
        <FailedCalls run={run} calls={calls} rollouts={rollouts} />
      ) : (
        <p class={run.complete && rollouts > 0 ? "well" : "nothing"}>
          {rollouts === 0 ? "No rollout was finished." : run.complete ? "Every call ran." : missingRows(run)}
        </p>
      )}
      <h2>Steps</h2>
      <div class="scroll">
        <table class="steps">
          <thead>
            <tr>
              <th>step</th>
              <th>success</th>
              {other && <th>reward that trained</th>}
              <th>{other ? "task's own" : "reward"}</th>
              <th>
                how rollouts ended <Legend names={ends} order={ends} />
              </th>
              {errors.length > 0 && (
                <th>
                  failed calls <Legend names={errors} order={errors} />
                </th>
              )}
              <th>
                groups <Legend names={groups} order={GROUPS} />
              </th>
              <th>what stands out</th>
            </tr>
          </thead>
          <tbody>{lines}</tbody>
        </table>
      </div>
      <Extremes run={run} />
    </>
  );
}

/** The rollouts with the most of something; none where they all have as much. */
function Extremes({ run }: { readonly run: Run }) {
  const lists = useMemo(() => {
    const most = (title: string, value: (row: Row) => number, text: (row: Row) => string) => {
      const rows = [...run.rows].sort((a, b) => value(b) - value(a)).slice(0, LISTED);
      return new Set(rows.map(value)).size > 1 ? [{ title, rows, text }] : [];
    };
    return [
      ...most(
        "Longest rollouts",
        ({ tokens }) => tokens,
        ({ tokens }) => `${number(tokens)} tokens`,
      ),
      ...most(
        "Slowest rollouts",
        (row) => row.seconds,
        (row) => seconds(row.seconds),
      ),
    ];
  }, [run.rows]);
  return (
    <div class="columns">
      {lists.map(({ title, rows, text }) => (
        <section key={title}>
          <h2>{title}</h2>
          <ol class="extremes">
            {rows.map((row) => (
              <li key={row.id}>
                <b>{text(row)}</b>{" "}
                <a
                  href={link("group", {
                    run: run.view.id,
                    phase: row.phase,
                    step: row.step,
                    scenario: row.scenario,
                    show: row.member,
                  })}
                >
                  {visible(`${row.scenario}/${row.member}`)}
                </a>{" "}
                <small>{`${row.phase === "validation" ? "held out after " : ""}step ${row.step}, ${words(row.end)}, reward ${number(row.reward)}`}</small>
              </li>
            ))}
          </ol>
        </section>
      ))}
    </div>
  );
}

function Facts({ of }: { readonly of: readonly (readonly [string, string])[] }) {
  return (
    <dl class="facts">
      {of.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}

function OneStep({ run, number: step }: { readonly run: Run; readonly number: number }) {
  const { view } = run;
  const found = view.steps.find((one) => one.step === step);
  const open = unfinishedStep(view);
  const rows = run.rows.filter((row) => row.step === step && row.phase === "train");
  const groups = groupsOf(rows);
  const metrics = found?.metrics;
  const other = metrics ? isTrainedByOther(view) : false;
  const most = Math.max(0, ...rows.map(({ advantage }) => Math.abs(advantage ?? 0)));
  const findings = found ? findingsOf(found, view) : [];
  const known = view.steps.map((one) => one.step).filter((one) => one > 0);
  const beside = (by: number) =>
    known.includes(step + by) ? link("steps", { run: view.id, step: step + by }) : undefined;
  return (
    <>
      <nav class="beside">
        <a href={link("steps", { run: view.id })}>all steps</a>
        <Beside to={beside(-1)} rel="prev">
          ← step {step - 1}
        </Beside>
        <Beside to={beside(1)} rel="next">
          step {step + 1} →
        </Beside>
      </nav>
      <h2>Step {step}</h2>
      {!found && open?.step === step && (
        <p class="banner">
          This step is not committed: {open.n} of its rollouts are kept
          {view.running ? ", more are being played" : ", and no process is training the run"}.
        </p>
      )}
      {!found && open?.step !== step && <p class="banner">The run has no step {step}.</p>}
      <ul class="findings">
        {findings.map(({ level, text }) => (
          <li key={text} class={level}>
            {text}
          </li>
        ))}
        {metrics && findings.length === 0 && <li class="well">Nothing stands out.</li>}
      </ul>
      {metrics && (
        <Facts
          of={[
            [
              "success",
              `${shareOf(metrics.success, metrics.rollouts)} of ${metrics.rollouts}${metrics.success_low === null || metrics.rollouts === 0 ? "" : ` (95 %: ${percent(metrics.success_low)} to ${percent(metrics.success_high)})`}`,
            ],
            ...(other
              ? [["reward that trained", `${number(metrics.training_reward)} (n=${metrics.training_n})`] as const]
              : []),
            [other ? "the task's own reward" : "reward", meanOf(metrics.reward, metrics.rollouts)],
            ...Object.entries(metrics.parts).map(
              ([name, { mean, n }]) => [`part ${visible(name)}`, `${number(mean)} (n=${n})`] as const,
            ),
            ["groups that taught", `${metrics.groups_trainable} of ${metrics.groups}`],
            ["how rollouts ended", counts(metrics.ends) || "–"],
            ["failed calls", counts(metrics.tool_errors) || "none"],
          ]}
        />
      )}
      {metrics && found && (
        <details class="all">
          <summary>Diagnostics of the step</summary>
          <Facts
            of={
              [
                ...(metrics.judge_agreement === null
                  ? []
                  : [["judge's votes agree", percent(metrics.judge_agreement)] as const]),
                ["loss", number(metrics.loss)],
                [
                  "spread of rewards",
                  metrics.reward_spread === null
                    ? "–"
                    : `${number(metrics.reward_spread)} within a group (n=${metrics.spread_n})`,
                ],
                ["entropy", `${number(metrics.entropy)}, of what trained ${number(metrics.entropy_trained)}`],
                ["gradient norm", number(metrics.grad_norm)],
                ["mismatch", `${number(metrics.mismatch?.mean)}, KL ${number(metrics.mismatch_kl)}`],
                ["importance weights", `${percent(metrics.importance_ess)} effective sample size`],
                [
                  "played by",
                  metrics.played === null
                    ? "–"
                    : `slope ${number(metrics.played.slope)} ± ${number(metrics.played.error)} from ${metrics.played.earlier === null ? "the base model" : `checkpoint ${metrics.played.earlier}`} (0) to the learner's policy (1), n=${metrics.played.tokens} tokens`,
                ],
                [
                  "policy KL",
                  metrics.probe_kl === null
                    ? "–"
                    : `${number(metrics.probe_kl.base)} from the base, ${number(metrics.probe_kl.update)} by the update (n=${metrics.probe_kl.n} tokens)`,
                ],
                ["clipped", `${percent(metrics.clip_below)} below, ${percent(metrics.clip_above)} above`],
                ["learning rate", number(metrics.learning_rate)],
                ["turns", number(metrics.turns)],
                ["tokens", number(metrics.completion_tokens)],
                [
                  "without a reward",
                  Object.entries(metrics.groups_no_verdict)
                    .map(([reason, n]) => `${n} groups: ${noVerdictText(reason)}`)
                    .join("; ") || "none",
                ],
                [
                  "time",
                  Object.entries(found.timing?.seconds ?? {})
                    .filter(([, value]) => value >= 0.05)
                    .map(([name, value]) => `${words(name)} ${number(value)} s`)
                    .join(", "),
                ],
              ].filter(([, value]) => value !== "–" && value !== "none") as [string, string][]
            }
          />
        </details>
      )}
      <h3>Groups</h3>
      {!run.complete && <p class="nothing">{missingRows(run)}</p>}
      {run.complete && groups.length === 0 && <p class="nothing">The run keeps no rollouts of this step.</p>}
      <div class="scroll">
        <table class="groups">
          {groups.length > 0 && (
            <thead>
              <tr>
                <th>scenario</th>
                <th>solved</th>
                <th>{other ? "reward that trained" : "reward"}</th>
                <th>advantages</th>
                <th>taught</th>
                <th>how rollouts ended</th>
                <th>failed calls</th>
              </tr>
            </thead>
          )}
          <tbody>
            {groups.map(({ scenario, rows: of }) => {
              const state = groupState(of, view);
              return (
                <tr key={scenario} onClick={() => go("group", { run: view.id, phase: "train", step, scenario })}>
                  <td class="question">
                    <a href={link("group", { run: view.id, phase: "train", step, scenario })}>{visible(scenario)}</a>
                    <small>{run.questions[scenario]}</small>
                  </td>
                  <td class="n">{`${of.filter(({ success }) => success).length} of ${of.length}`}</td>
                  <td class="n">{number(mean(of.map((row) => (other ? (row.trained ?? Number.NaN) : row.reward))))}</td>
                  <td class="advantages" title={of.map(({ advantage }) => signed(advantage)).join("  ")}>
                    {of.map((row) => (
                      <i
                        key={row.id}
                        class={(row.advantage ?? 0) < 0 ? "minus" : "plus"}
                        style={{ height: `${most > 0 ? (14 * Math.abs(row.advantage ?? 0)) / most : 0}px` }}
                      />
                    ))}
                  </td>
                  <td>
                    {state ? <span class="state" title={state.why}>{`${state.name}: ${state.why}`}</span> : "yes"}
                  </td>
                  <td>{counts(tally(of.map(({ end }) => end)))}</td>
                  <td>{failedText(of)}</td>
                </tr>
              );
            })}
          </tbody>
        </table>
      </div>
    </>
  );
}

/** The run named in the URL. */
export function runOf(runs: readonly Run[], params: URLSearchParams): Run | undefined {
  const asked = Number(params.get("run") ?? Number.NaN);
  return runs.find(({ view }) => view.id === asked) ?? runs.find(({ view }) => view.problem === null);
}

export function RunPicker({ run, runs }: { readonly run: Run; readonly runs: readonly Run[] }) {
  const readable = runs.filter(({ view }) => view.problem === null);
  if (readable.length < 2) return null;
  return (
    <label class="picker">
      run{" "}
      <select value={run.view.id} onChange={(event) => change({ run: event.currentTarget.value, step: null })}>
        {readable.map(({ view }) => (
          <option key={view.id} value={view.id}>
            {view.name}
          </option>
        ))}
      </select>
    </label>
  );
}

export function Steps({ params }: { readonly params: URLSearchParams }) {
  const { runs } = useData();
  const run = runOf(runs, params);
  if (!run) return <p class="nothing">There is no run to show.</p>;
  const step = params.get("step");
  return (
    <>
      <RunPicker run={run} runs={runs} />
      {step === null ? <AllSteps run={run} /> : <OneStep run={run} number={Number(step)} />}
    </>
  );
}
