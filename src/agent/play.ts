/**
 * Plays one rollout with a task's own code. Failures are isolated: an error fails this rollout alone, with the end of
 * its output; programs that it started end with it.
 */
import { inProcess, languageModel } from "../ai-sdk/index.js";
import { deadlineCause, type RolloutLimits, type RolloutOutcome, type Trajectory } from "../rollout/index.js";
import { type AnyTask, type Reward, type RolloutEnd, rewardReturned, type Scenario } from "../tasks/index.js";
import { HoneError, messageOf } from "../util/index.js";
import type { Host } from "./host.js";
import { mistakeOf } from "./mistakes.js";
import { Output, onBehalfOf } from "./output.js";
import { Programs } from "./programs.js";
import type { RolloutModel } from "./rollout-model.js";
import { sequencesOf } from "./sequences.js";
import { type Outage, TimeLimit } from "./time-limit.js";

/** Seconds that the code has to end after its signal is aborted. */
const GRACE = 5;

export interface AgentRolloutInput {
  readonly task: AnyTask;
  readonly scenario: Scenario;
  readonly env: unknown;
  readonly model: RolloutModel;
  readonly host: Host;
  readonly limits: Pick<RolloutLimits, "maxTurns" | "rolloutSeconds" | "offForm">;
  /** Of the engine that plays: its time is none of the rollout's. */
  readonly outage: Outage;
  /** Of the thread: its rollouts' programs, for its end. */
  readonly programs: Set<Programs>;
}

export type AgentOutcome = RolloutOutcome & Pick<Trajectory, "branches" | "tree" | "agent" | "output">;

interface Ended {
  readonly returned?: unknown;
  readonly error?: unknown;
}

/** The code's result, or its error. A hang is an error, too. */
function ended(
  work: () => unknown,
  output: Output,
  { signal, late }: { readonly signal: AbortSignal; readonly late: () => Error },
): Promise<Ended> {
  const settled = new AbortController();
  return new Promise<Ended>((resolve) => {
    const fail = (error: unknown) => resolve({ error });
    const hang = () => setTimeout(() => resolve({ error: late() }), GRACE * 1000).unref();
    signal.addEventListener("abort", hang, { once: true, signal: settled.signal });
    void onBehalfOf({ output, fail }, async () => work()).then((returned) => resolve({ returned }), fail);
  }).finally(() => settled.abort());
}

class Hung extends HoneError {}

const UNASKED = "the agent ended without a turn of the model: use `model`, or `baseUrl` with `apiKey`";

/** @throws HoneError where the code fails, or hangs */
export async function playAgent(input: AgentRolloutInput): Promise<AgentOutcome> {
  const { task, scenario, env, model, host, limits } = input;
  const started = performance.now();
  const output = new Output();
  const over = new AbortController();
  const key = host.add(model);
  const baseUrl = host.url;
  // Anthropic's clients append `/v1` themselves.
  const root = baseUrl.replace(/\/v1$/, "");
  const variables = {
    ...{ OPENAI_BASE_URL: baseUrl, OPENAI_API_KEY: key },
    ...{ ANTHROPIC_BASE_URL: root, ANTHROPIC_API_KEY: key },
  };
  const programs = new Programs({ env: variables, output, signal: over.signal });
  input.programs.add(programs);
  const context = {
    ...{ scenario, env, baseUrl, apiKey: key, signal: over.signal },
    model: languageModel(inProcess(model, false)),
    run: programs.run.bind(programs),
  };
  const overdue = new HoneError(`the rollout's time is over (${limits.rolloutSeconds} s, --rollout-timeout)`);
  const time = new TimeLimit(limits.rolloutSeconds, input.outage, () => overdue);
  time.signal.addEventListener("abort", () => over.abort(overdue), { once: true });
  const late = () =>
    new Hung(`the agent did not end within ${GRACE} s after its signal was aborted: ${overdue.message}`);
  const result = await ended(() => task.rollout?.(context), output, { signal: over.signal, late });
  time.clear();
  const timedOut = over.signal.aborted;
  const seconds = { total: (performance.now() - started) / 1000, ...model.seconds };
  // Promises that are still running get the end as an abort.
  over.abort(new HoneError("the rollout has ended"));
  host.remove(key);
  model.end();
  await programs.end();
  input.programs.delete(programs);

  const failed = (error: unknown): never => {
    const tail = output.tail();
    const wrote = tail === "" ? "" : `; its last output:\n${tail.replace(/^/gm, "  ")}`;
    throw new HoneError(`${messageOf(error)}${wrote}`, { cause: error });
  };
  const { turns } = model;
  const { first, branches, tree } = sequencesOf(turns, model.chat.template.closing.id);
  let reward: Reward = { reward: 0, success: false, parts: {} };
  let end: RolloutEnd = timedOut ? "deadline" : (model.limit ?? "answered");
  let reason: string | undefined;
  try {
    if (result.error instanceof Hung) throw result.error;
    if (result.error === undefined) reward = rewardReturned(result.returned);
    // An error after the rollout's time is taken for its consequence.
    else if (timedOut) reason = messageOf(result.error);
    else {
      const { error } = result;
      const mistake = onBehalfOf({ output, fail: () => undefined }, () => mistakeOf(error, model, task, scenario));
      if (!mistake) throw error;
      ({ end, reason, reward } = mistake);
    }
    if (!first) {
      if (result.error !== undefined) throw result.error;
      throw timedOut ? overdue : new HoneError(UNASKED);
    }
  } catch (error) {
    failed(error);
  }
  const offForm = turns.filter((turn) => turn.formProblem !== undefined || turn.callProblem !== undefined).length;
  if (limits.offForm === "zero" && offForm > 0) {
    reward = { reward: 0, success: false, parts: { ...reward.parts, on_form: 0 } };
    reason ??= "an answer or a call had not the form that was asked for (--off-form zero)";
  }
  const { messages, calls, tokens } = first as NonNullable<typeof first>;
  const last = messages.at(-1);
  const tools = Math.max(0, seconds.total - seconds.player);
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const rewritten = sum(turns.map(({ asked }) => asked.rewritten - (asked.point?.rewritten ?? 0)));
  return {
    messages,
    calls,
    answer: last?.role === "assistant" && !last.tool_calls ? { text: last.content } : undefined,
    end,
    deadlineCause: end === "deadline" ? deadlineCause({ ...seconds, tools }, seconds.total) : undefined,
    reason,
    turns: turns.length,
    reward,
    tokens,
    completionTokens: sum(turns.map(({ answer }) => sum([...answer.segment.sampled]))),
    promptTokens: sum(turns.map(({ asked }) => asked.append.length)),
    seconds: { ...seconds, tools },
    ...(branches.length > 0 ? { branches, tree } : {}),
    agent: {
      completions: turns.length,
      sequences: 1 + branches.length,
      ...(rewritten > 0 ? { history_rewritten: rewritten } : {}),
      ...(model.refused > 0 ? { refused: model.refused } : {}),
      ...(offForm > 0 ? { off_form: offForm } : {}),
    },
    ...(output.text === "" ? {} : { output: output.text }),
  };
}
