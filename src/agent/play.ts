/**
 * Plays one rollout with a task's own code. Failures are isolated: an error fails this rollout alone, with the end of
 * its output; programs that it started end with it.
 */

import { TASK_SECONDS } from "../core/config/defaults.js";
import { deadlineCause } from "../core/rollout/deadline.js";
import type { RolloutLimits, RolloutOutcome } from "../core/rollout/rollout.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import { type RolloutContext, rewardReturned } from "../core/task/agent.js";
import type { AnyTask, Reward, Scenario } from "../core/task/task.js";
import { HoneError, messageOf } from "../core/util/errors.js";
import { type Pauses, TimeLimit } from "../core/util/time-limit.js";
import { timed } from "../core/util/watch.js";
import { inProcess } from "./ai-sdk/in-process.js";
import { languageModel } from "./ai-sdk/model.js";
import { type Ending, endingOf } from "./ending.js";
import type { FrozenModel } from "./frozen-model.js";
import type { Host } from "./host.js";
import { mistakeOf } from "./mistakes.js";
import { loggerTo, Output, onBehalfOf } from "./output.js";
import { Programs } from "./programs.js";
import type { RolloutModel } from "./rollout-model.js";
import { sequencesOf } from "./sequences.js";
import type { BaseModel } from "./with-base.js";

/** Seconds that the code has to end after its signal is aborted. */
const GRACE = 5;

/** Who has its turn. */
export type Waited = "the player" | "the agent" | "its set-up" | "its tear-down";

export interface AgentMember {
  readonly scenario: Scenario;
  readonly seed: number;
  readonly index: number;
  readonly step: number;
  /** Called when the model, or a part of the agent, has its turn. */
  readonly onWaiting: (turn: number, who: Waited) => void;
}

interface AgentRolloutInput extends AgentMember {
  readonly task: AnyTask;
  readonly env: unknown;
  readonly model: RolloutModel;
  /** Of a rollout that asks for it (`withBase`). */
  readonly base?: FrozenModel | undefined;
  readonly host: Host;
  readonly limits: Pick<RolloutLimits, "maxTurns" | "turnSeconds" | "rolloutSeconds" | "taskSeconds" | "offForm">;
  /** Of the engine that plays: their time is none of the rollout's. */
  readonly pauses: Pauses | undefined;
  /** Of the thread: its rollouts' programs, for its end. */
  readonly programs: Set<Programs>;
}

export type AgentOutcome = RolloutOutcome & Pick<Trajectory, "branches" | "tree" | "agent" | "output">;

interface Ended {
  readonly returned?: unknown;
  readonly error?: unknown;
}

/** The code's result, or its error. A hang, where one is told of, is an error, too. */
function ended(
  work: () => unknown,
  output: Output,
  hang?: { readonly signal: AbortSignal; readonly late: () => Error },
): Promise<Ended> {
  const settled = new AbortController();
  return new Promise<Ended>((resolve) => {
    // `setTimeout(reject, 1000)` rejects with nothing: that is an error, too.
    const fail = (error: unknown) => resolve({ error: error === undefined ? new HoneError(messageOf(error)) : error });
    const wait = ({ late }: NonNullable<typeof hang>) => {
      const grace = new TimeLimit(GRACE, late);
      grace.signal.addEventListener("abort", () => fail(grace.signal.reason), { once: true });
    };
    if (hang) hang.signal.addEventListener("abort", () => wait(hang), { once: true, signal: settled.signal });
    void onBehalfOf({ output, fail }, async () => work()).then((returned) => resolve({ returned }), fail);
  }).finally(() => settled.abort());
}

class Hung extends HoneError {}

const UNASKED = "the agent ended without a turn of the model: use `model`, or `baseUrl` with `apiKey`";

const KEYLESS = "a request came without the rollout's key: send `apiKey` as a bearer token";

/** A program's error, with what its endpoint knows of the cause. */
function explained(error: unknown, { turns, trouble }: RolloutModel, keyless: boolean) {
  const keyMissing = keyless && turns.length === 0 ? KEYLESS : undefined;
  const said = messageOf(error);
  // An agent's own error often has the answer's whole text.
  const told = trouble !== undefined && !said.includes(messageOf(trouble));
  const why = told ? `its last request was answered with: ${messageOf(trouble)}` : keyMissing;
  return why === undefined ? error : new HoneError(`${said}; ${why}`, { cause: error });
}

/** The keys of a rollout at its endpoint. */
interface Keys {
  readonly own: string;
  readonly base: string | undefined;
}

/** What a part of the task's code gets of the rollout, and the end of that with the programs that it has started. */
function surround(input: AgentRolloutInput, { own: key, base }: Keys, output: Output) {
  const { scenario, env, seed, index, step, host } = input;
  const over = new AbortController();
  // Anthropic's clients append `/v1` themselves.
  const root = host.url.replace(/\/v1$/, "");
  const variables = {
    OPENAI_BASE_URL: host.url,
    OPENAI_API_KEY: key,
    ANTHROPIC_BASE_URL: root,
    ANTHROPIC_API_KEY: key,
    ...(base === undefined ? {} : { HONE_BASE_API_KEY: base }),
  };
  const programs = new Programs({ env: variables, output, signal: over.signal });
  input.programs.add(programs);
  const context: RolloutContext = {
    scenario,
    env,
    seed,
    index,
    step,
    logger: loggerTo(output),
    signal: over.signal,
    run: programs.run.bind(programs),
  };
  const end = async () => {
    // Promises that are still running get the end as an abort.
    over.abort(new HoneError("the rollout has ended"));
    await programs.end();
    input.programs.delete(programs);
  };
  return { over, context, end };
}

type Surroundings = ReturnType<typeof surround>;

/** @throws HoneError where the code fails, or hangs */
export async function playAgent(input: AgentRolloutInput): Promise<AgentOutcome> {
  const { task, model, base, host, limits, onWaiting } = input;
  const { taskSeconds = TASK_SECONDS } = limits;
  const output = new Output();
  const keys: Keys = { own: host.add(model), base: base && host.add(base) };
  const failed = (error: unknown): never => {
    const tail = output.tail();
    const wrote = tail === "" ? "" : `; its last output:\n${tail.replace(/^/gm, "  ")}`;
    throw new HoneError(`${messageOf(error)}${wrote}`, { cause: error });
  };
  const beside = async (who: "its set-up" | "its tear-down", work: () => unknown): Promise<Ended> => {
    onWaiting(model.turns.length, who);
    const allowed = { what: who, seconds: taskSeconds, remedy: "--task-timeout" };
    const { returned, error } = await ended(() => timed(allowed, work), output);
    return error === undefined ? { returned } : { error: new HoneError(`${who} failed: ${messageOf(error)}`) };
  };

  const around = surround(input, keys, output);
  const prepared = task.setUp ? await beside("its set-up", () => task.setUp?.(around.context)) : {};
  const fixture = prepared.returned;
  let played: PlayedAgent | undefined;
  if (prepared.error === undefined) {
    onWaiting(0, "the agent");
    played = await playPrepared(input, around, { keys, output, fixture });
  }
  for (const key of Object.values(keys)) if (key !== undefined) host.remove(key);
  model.end();
  base?.end();
  await around.end();
  if (!played) return failed(prepared.error);
  if (task.tearDown) {
    const own = surround(input, keys, output);
    const { error } = await beside("its tear-down", () => task.tearDown?.({ ...own.context, fixture }));
    await own.end();
    // The first error is the rollout's.
    if (error !== undefined) {
      if (played.result.error === undefined) return failed(error);
      output.write(`${messageOf(error)}\n`);
    }
  }
  return outcomeOf(input, played, output, failed);
}

interface PlayedAgent {
  readonly result: Ended;
  readonly seconds: RolloutOutcome["seconds"];
  /** The error of the rollout's time, where that was over. */
  readonly overdue: HoneError | undefined;
  /** Whether a request came meanwhile whose key is no rollout's. */
  readonly keyless: boolean;
}

async function playPrepared(
  { task, model, base, host, limits, pauses }: AgentRolloutInput,
  { over, context }: Surroundings,
  { keys, output, fixture }: { readonly keys: Keys; readonly output: Output; readonly fixture: unknown },
): Promise<PlayedAgent> {
  const started = performance.now();
  const overdue = new HoneError(`the rollout's time is over (${limits.rolloutSeconds} s, --rollout-timeout)`);
  const time = new TimeLimit(limits.rolloutSeconds, () => overdue, pauses);
  time.signal.addEventListener("abort", () => over.abort(overdue), { once: true });
  const late = () =>
    new Hung(`the agent did not end within ${GRACE} s after its signal was aborted: ${overdue.message}`);
  const asked = {
    ...context,
    baseUrl: host.url,
    apiKey: keys.own,
    fixture,
    model: languageModel(inProcess(model, false)),
    ...(base && { base: { model: languageModel(inProcess(base, true)), apiKey: keys.base } as BaseModel }),
  };
  const before = host.strangers();
  const result = await ended(() => task.rollout?.(asked), output, { signal: over.signal, late });
  time.clear();
  const total = (performance.now() - started) / 1000;
  const { player, queue } = model.seconds;
  const seconds = { total, player, queue, tools: Math.max(0, total - player) };
  const keyless = host.strangers() > before;
  return { result, seconds, overdue: over.signal.aborted ? overdue : undefined, keyless };
}

/** Of the frozen base model, which is trained in no sequence. */
function baseCounts({ tally: { calls, prompt, sampled, refused } }: FrozenModel) {
  return {
    ...(calls > 0 ? { base_calls: calls, base_prompt_tokens: prompt, base_completion_tokens: sampled } : {}),
    ...(refused > 0 ? { base_refused: refused } : {}),
  };
}

/** @throws what `failed` throws */
function outcomeOf(
  { task, scenario, model, base, limits }: AgentRolloutInput,
  { result, seconds, overdue, keyless }: PlayedAgent,
  output: Output,
  failed: (error: unknown) => never,
): AgentOutcome {
  const { turns } = model;
  const { first, branches, leaf, tree } = sequencesOf(turns, model.chat.template.closing.id);
  let reward: Reward = { reward: 0, success: false, parts: {} };
  let ending: Ending = overdue ? { end: "deadline" } : endingOf(model, task.finalTools);
  try {
    if (result.error instanceof Hung) throw result.error;
    if (result.error === undefined) reward = rewardReturned(result.returned);
    // An error after the rollout's time is taken for its consequence.
    else if (overdue) ending = { end: "deadline", reason: messageOf(result.error) };
    else {
      const { error } = result;
      const mistake = onBehalfOf({ output, fail: () => undefined }, () => mistakeOf(error, model, task, scenario));
      if (!mistake) throw explained(error, model, keyless);
      ending = mistake;
      reward = mistake.reward;
    }
    if (!first) {
      if (result.error !== undefined && overdue)
        throw new HoneError(`${messageOf(result.error)}; ${overdue.message}`, { cause: result.error });
      if (result.error !== undefined) throw result.error;
      throw overdue ?? explained(new HoneError(UNASKED), model, keyless);
    }
  } catch (error) {
    failed(error);
  }
  const { end, answer: final } = ending;
  let { reason } = ending;
  const offForm = turns.filter((turn) => turn.formProblem !== undefined || turn.callProblem !== undefined).length;
  if (limits.offForm === "zero" && offForm > 0) {
    reward = { reward: 0, success: false, parts: { ...reward.parts, on_form: 0 } };
    reason ??= "an answer or a call had not the form that was asked for (--off-form zero)";
  }
  const { messages, calls, tokens } = first as NonNullable<typeof first>;
  const texts = [leaf, turns.at(-1)].filter((turn) => turn?.answer.read.calls.length === 0);
  const text = texts[0]?.answer.read.said;
  const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
  const rewritten = sum(turns.map(({ asked }) => asked.rewritten - (asked.point?.rewritten ?? 0)));
  return {
    messages,
    calls,
    answer: end === "answered" ? (final ?? (text === undefined ? undefined : { text })) : undefined,
    end,
    deadlineCause:
      end === "deadline" ? (overdue ? deadlineCause(seconds, seconds.total, limits.turnSeconds) : "turn") : undefined,
    reason,
    turns: turns.length,
    reward,
    tokens,
    completionTokens: sum(turns.map(({ answer }) => sum([...answer.segment.sampled]))),
    promptTokens: sum(turns.map(({ asked }) => asked.append.length)),
    seconds,
    ...(branches.length > 0 ? { branches, tree } : {}),
    agent: {
      completions: turns.length,
      sequences: 1 + branches.length,
      ...(rewritten > 0 ? { history_rewritten: rewritten } : {}),
      ...(model.refused > 0 ? { refused: model.refused } : {}),
      ...(offForm > 0 ? { off_form: offForm } : {}),
      ...(base && baseCounts(base)),
    },
    ...(output.text === "" ? {} : { output: output.text }),
  };
}
