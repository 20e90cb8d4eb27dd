/** Problems by step: every step in a line, and one step with all details. */
import { useMemo } from "preact/hooks";
import type { Row } from "../../src/insight/view/wire.js";
import { groupState } from "./credit.js";
import { groupsOf, missingRows, type Run, useData } from "./data.js";
import { findingsOf, noVerdictText, unfinishedStep } from "./diagnose.js";
import { counts, mean, number, percent, seconds, signed, words } from "./format.js";
import { Beside, Parts } from "./parts.js";
import { change, go, link } from "./route.js";

const GROUPS = ["trainable", "no spread", "masked", "no reward", "broken off"];

const groupCounts = (metrics: NonNullable<Run["view"]["steps"][number]["metrics"]>): Record<string, number> => ({
  trainable: metrics.groups_trainable,
  "no spread": metrics.groups_flat,
  masked: metrics.groups_masked,
  "no reward": metrics.groups_unrewarded,
  "broken off": metrics.groups_broken_off,
});

/** Names in all steps, most frequent first, so that a colour always has the same meaning. */
function namesOf(all: readonly Readonly<Record<string, number>>[]): string[] {
  const sums = new Map<string, number>();
  for (const one of all) for (const [name, n] of Object.entries(one)) sums.set(name, (sums.get(name) ?? 0) + n);
  return [...sums].sort(([, a], [, b]) => b - a).map(([name]) => name);
}

function Legend({ names }: { readonly names: readonly string[] }) {
  return (
    <ul class="legend">
      {names.map((name, tone) => (
        <li key={name}>
          <i class={`block ${name === "answered" || name === "trainable" ? "good" : `tone-${tone % 6}`}`} />
          {words(name)}
        </li>
      ))}
    </ul>
  );
}

function AllSteps({ run }: { readonly run: Run }) {
  const { view } = run;
  const steps = useMemo(() => view.steps.filter(({ metrics }) => metrics), [view.steps]);
  const ends = useMemo(() => namesOf(steps.map(({ metrics }) => metrics?.ends ?? {})), [steps]);
  const errors = useMemo(() => namesOf(steps.map(({ metrics }) => metrics?.tool_errors ?? {})), [steps]);
  // Memoised: thousands of lines, unchanged at most polls.
  const lines = useMemo(
    () =>
      steps.map((step) => {
        const metrics = step.metrics as NonNullable<typeof step.metrics>;
        const [finding] = findingsOf(step, view);
        const failed = Object.values(metrics.tool_errors).reduce((sum, n) => sum + n, 0);
        return (
          <tr
            key={step.step}
            class={finding?.level ?? ""}
            onClick={() => go("steps", { run: view.id, step: step.step })}
          >
            <td>
              <a href={link("steps", { run: view.id, step: step.step })}>{step.step}</a>
            </td>
            <td class="n">{percent(metrics.success)}</td>
            <td class="n">{number(metrics.reward)}</td>
            <td>
              <Parts of={metrics.ends} order={ends} />
            </td>
            <td class="calls">
              <span class="n">{failed || ""}</span>
              {failed > 0 && <Parts of={metrics.tool_errors} order={errors} />}
            </td>
            <td>
              <Parts of={groupCounts(metrics)} order={GROUPS} />
            </td>
            <td class="finding">{finding?.text}</td>
          </tr>
        );
      }),
    [steps, view.id],
  );
  if (steps.length === 0) return <p class="nothing">No step is committed yet.</p>;
  return (
    <>
      <div class="legends">
        <div>
          <b>ends</b> <Legend names={ends} />
        </div>
        <div>
          <b>calls that did not run</b> {errors.length > 0 ? <Legend names={errors} /> : " none"}
        </div>
        <div>
          <b>groups</b> <Legend names={GROUPS} />
        </div>
      </div>
      <div class="scroll">
        <table class="steps">
          <thead>
            <tr>
              <th>step</th>
              <th>success</th>
              <th>reward</th>
              <th>ends</th>
              <th>calls not run</th>
              <th>groups</th>
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

function Extremes({ run }: { readonly run: Run }) {
  const lists = useMemo((): [string, Row[], (row: Row) => string][] => {
    const most = (value: (row: Row) => number) => [...run.rows].sort((a, b) => value(b) - value(a)).slice(0, 8);
    return [
      ["Longest rollouts", most(({ tokens }) => tokens), ({ tokens }) => `${number(tokens)} tokens`],
      ["Slowest rollouts", most((row) => row.seconds), (row) => seconds(row.seconds)],
    ];
  }, [run.rows]);
  return (
    <div class="columns">
      {lists.map(([title, rows, value]) => (
        <section key={title}>
          <h2>{title}</h2>
          <ol class="extremes">
            {rows.map((row) => (
              <li key={row.id}>
                <b>{value(row)}</b>{" "}
                <a
                  href={link("group", {
                    run: run.view.id,
                    phase: row.phase,
                    step: row.step,
                    scenario: row.scenario,
                    show: row.member,
                  })}
                >{`${row.scenario}/${row.member}`}</a>{" "}
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
              `${percent(metrics.success)} of ${metrics.rollouts}${metrics.success_low === null ? "" : ` (95 %: ${percent(metrics.success_low)} to ${percent(metrics.success_high)})`}`,
            ],
            ["reward", number(metrics.reward)],
            ...Object.entries(metrics.parts).map(
              ([name, { mean, n }]) => [`part ${name}`, `${number(mean)} (n=${n})`] as const,
            ),
            ...(metrics.training_reward === null
              ? []
              : [["trained reward", `${number(metrics.training_reward)} (n=${metrics.training_n})`] as const]),
            ["groups trainable", `${metrics.groups_trainable} of ${metrics.groups}`],
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
            ["ends", counts(metrics.ends) || "–"],
            ["calls not run", counts(metrics.tool_errors) || "none"],
            [
              "without a reward",
              Object.entries(metrics.groups_no_verdict)
                .map(([reason, n]) => `${n} groups: ${noVerdictText(reason)}`)
                .join("; ") || "none",
            ],
            [
              "time",
              Object.entries(found?.timing?.seconds ?? {})
                .filter(([, value]) => value >= 0.05)
                .map(([name, value]) => `${words(name)} ${number(value)} s`)
                .join(", "),
            ],
          ]}
        />
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
                <th>reward</th>
                <th>advantages</th>
                <th>taught</th>
                <th>ends</th>
                <th>calls not run</th>
              </tr>
            </thead>
          )}
          <tbody>
            {groups.map(({ scenario, rows: of }) => {
              const state = groupState(of, view);
              const ends: Record<string, number> = {};
              const errors: Record<string, number> = {};
              for (const row of of) {
                ends[row.end] = (ends[row.end] ?? 0) + 1;
                for (const [name, n] of Object.entries(row.errors)) errors[name] = (errors[name] ?? 0) + n;
              }
              return (
                <tr key={scenario} onClick={() => go("group", { run: view.id, phase: "train", step, scenario })}>
                  <td class="question">
                    <a href={link("group", { run: view.id, phase: "train", step, scenario })}>{scenario}</a>
                    <small>{run.questions[scenario]}</small>
                  </td>
                  <td class="n">{`${of.filter(({ success }) => success).length} of ${of.length}`}</td>
                  <td class="n">{number(mean(of.map(({ reward }) => reward)))}</td>
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
                  <td>{counts(ends)}</td>
                  <td>{counts(errors)}</td>
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
