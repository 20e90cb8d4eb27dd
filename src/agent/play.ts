/**
 * One rollout that a task's own code plays, from its set-up to what it has come to. Failures are isolated: an error fails this
 * rollout alone, with the end of its output; programs that it started end with it.
 */

import type { Chat } from "../chat/chat.js";
import { TASK_SECONDS } from "../core/config/defaults.js";
import type { Engine } from "../core/engine/engine.js";
import { deadlineCause } from "../core/rollout/deadline.js";
import type { EnginePlayer } from "../core/rollout/player.js";
import type { RolloutLimits, RolloutOutcome } from "../core/rollout/rollout.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import { type RolloutContext, rewardReturned } from "../core/task/agent.js";
import type { AnyTask, Reward, Scenario } from "../core/task/task.js";
import { HoneError, messageOf } from "../core/util/errors.js";
import { type Pauses, TimeLimit, Uncounted } from "../core/util/time-limit.js";
import { timed } from "../core/util/watch.js";
import type { Frozen } from "../engine/frozen.js";
import { inProcess } from "./ai-sdk/in-process.js";
import { languageModel } from "./ai-sdk/model.js";
import { type Ending, endingOf } from "./ending.js";
import { FrozenModel } from "./frozen-model.js";
import type { Host } from "./host.js";
import { mistakeOf, NOTHING } from "./mistakes.js";
import { loggerTo, Output, onBehalfOf } from "./output.js";
import { Programs } from "./programs.js";
import { RolloutModel } from "./rollout-model.js";
import { sequencesOf } from "./sequences.js";
import type { BaseModel, CompleteLimits } from "./with-base.js";

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

/** What the rollouts of a thread have together. */
export interface AgentThread {
  readonly task: AnyTask;
  readonly env: unknown;
  readonly player: EnginePlayer;
  readonly limits: RolloutLimits;
  /** Called with each option that is refused or replaced, and with errors that no rollout is known for. */
  readonly onNote: (text: string) => void;
  readonly engine: Engine;
  readonly chat: Chat;
  readonly host: Host;
  /** Of the engine: their time is none of a rollout's. */
  readonly outages: Pauses | undefined;
  /** Programs of rollouts, for the thread's end. */
  readonly programs: Set<Programs>;
}

export type AgentOutcome = RolloutOutcome & Pick<Trajectory, "branches" | "tree" | "agent" | "output">;

interface Ended {
  readonly returned?: unknown;
  readonly error?: unknown;
}

/** What the code has come to, and how. */
interface Played extends Ended {
  readonly seconds: RolloutOutcome["seconds"];
  /** The error of the rollout's time, where that was over. */
  readonly overdue: HoneError | undefined;
  /** Whether a request came meanwhile whose key is no rollout's. */
  readonly keyless: boolean;
}

class Hung extends HoneError {}

const UNASKED = "the agent ended without a turn of the model: use `model`, or `baseUrl` with `apiKey`";

const KEYLESS = "a request came without the rollout's key: send `apiKey` as a bearer token";

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);

export class AgentRollout {
  readonly #thread: AgentThread;
  readonly #member: AgentMember;
  readonly #output = new Output();
  readonly #model: RolloutModel;
  /** Of a rollout that asks for it (`withBase`). */
  readonly #base: FrozenModel | undefined;
  /** At the endpoint: of the model, and of the base. */
  readonly #keys: readonly string[];
  readonly #pauses: Pauses | undefined;

  constructor(thread: AgentThread, member: AgentMember, base?: { frozen: Frozen; limits: CompleteLimits }) {
    const { limits, player, host, outages } = thread;
    const written = new Uncounted();
    const model = new RolloutModel({ ...thread, ...member, sampling: player.sampling, written });
    const onTrouble = (error: unknown) => {
      model.trouble = error;
    };
    this.#thread = thread;
    this.#member = member;
    this.#model = model;
    this.#base = base && new FrozenModel({ ...thread, ...member, ...base, written, onTrouble });
    this.#keys = [model, ...(this.#base ? [this.#base] : [])].map((one) => host.add(one));
    this.#pauses = limits.turnSeconds === Number.POSITIVE_INFINITY ? written : outages;
  }

  /** To be called once. @throws HoneError where the code fails, or hangs */
  async play(): Promise<AgentOutcome> {
    try {
      return this.#outcome(await this.#around());
    } catch (error) {
      const tail = this.#output.tail();
      const wrote = tail === "" ? "" : `; its last output:\n${tail.replace(/^/gm, "  ")}`;
      throw new HoneError(`${messageOf(error)}${wrote}`, { cause: error });
    }
  }

  /** Plays it between its set-up and its tear-down. @throws what fails of these */
  async #around(): Promise<Played> {
    const { task, host } = this.#thread;
    const { over, context, end } = this.#surround();
    const prepared = await this.#beside("its set-up", task.setUp && (() => task.setUp?.(context)));
    const fixture = prepared.returned;
    const played = prepared.error === undefined ? await this.#prepared(over, context, fixture) : undefined;
    for (const key of this.#keys) host.remove(key);
    this.#model.end();
    this.#base?.end();
    await end();
    if (!played) throw prepared.error;
    const own = this.#surround();
    const { error } = await this.#beside(
      "its tear-down",
      task.tearDown && (() => task.tearDown?.({ ...own.context, fixture })),
    );
    await own.end();
    // The first error is the rollout's.
    if (error !== undefined && played.error === undefined) throw error;
    if (error !== undefined) this.#output.write(`${messageOf(error)}\n`);
    return played;
  }

  /** What a part of the task's code gets of the rollout, and the end of that with the programs that it has started. */
  #surround() {
    const { env, host, programs: all } = this.#thread;
    const { scenario, seed, index, step } = this.#member;
    const [key = "", base] = this.#keys;
    const over = new AbortController();
    const variables = {
      OPENAI_BASE_URL: host.url,
      OPENAI_API_KEY: key,
      // Anthropic's clients append `/v1` themselves.
      ANTHROPIC_BASE_URL: host.url.replace(/\/v1$/, ""),
      ANTHROPIC_API_KEY: key,
      ...(base === undefined ? {} : { HONE_BASE_API_KEY: base }),
    };
    const programs = new Programs({ env: variables, output: this.#output, signal: over.signal });
    all.add(programs);
    const own = { logger: loggerTo(this.#output), signal: over.signal, run: programs.run.bind(programs) };
    const context: RolloutContext = { scenario, env, seed, index, step, ...own };
    const end = async () => {
      // Promises that are still running get the end as an abort.
      over.abort(new HoneError("the rollout has ended"));
      await programs.end();
      all.delete(programs);
    };
    return { over, context, end };
  }

  /** The code's result, or its error. A hang, where one is told of, is an error, too. */
  #ended(work: () => unknown, hang?: { readonly signal: AbortSignal; readonly late: () => Error }): Promise<Ended> {
    const settled = new AbortController();
    return new Promise<Ended>((resolve) => {
      // `setTimeout(reject, 1000)` rejects with nothing: that is an error, too.
      const fail = (error: unknown) =>
        resolve({ error: error === undefined ? new HoneError(messageOf(error)) : error });
      const wait = () => {
        const grace = new TimeLimit(GRACE, () => hang?.late());
        grace.signal.addEventListener("abort", () => fail(grace.signal.reason), { once: true });
      };
      hang?.signal.addEventListener("abort", wait, { once: true, signal: settled.signal });
      const rollout = { output: this.#output, fail };
      void onBehalfOf(rollout, async () => work()).then((returned) => resolve({ returned }), fail);
    }).finally(() => settled.abort());
  }

  async #beside(who: "its set-up" | "its tear-down", work: (() => unknown) | undefined): Promise<Ended> {
    if (!work) return {};
    this.#member.onWaiting(this.#model.turns.length, who);
    const { taskSeconds: seconds = TASK_SECONDS } = this.#thread.limits;
    const { returned, error } = await this.#ended(() => timed({ what: who, seconds, remedy: "--task-timeout" }, work));
    return error === undefined ? { returned } : { error: new HoneError(`${who} failed: ${messageOf(error)}`) };
  }

  async #prepared(over: AbortController, context: RolloutContext, fixture: unknown): Promise<Played> {
    const { task, host, limits } = this.#thread;
    const [apiKey = "", baseKey] = this.#keys;
    this.#member.onWaiting(0, "the agent");
    const started = performance.now();
    const overdue = new HoneError(`the rollout's time is over (${limits.rolloutSeconds} s, --rollout-timeout)`);
    const time = new TimeLimit(limits.rolloutSeconds, () => overdue, this.#pauses);
    time.signal.addEventListener("abort", () => over.abort(overdue), { once: true });
    const late = () =>
      new Hung(`the agent did not end within ${GRACE} s after its signal was aborted: ${overdue.message}`);
    const base = this.#base && { model: languageModel(inProcess(this.#base, true)), apiKey: baseKey };
    const asked = {
      ...context,
      baseUrl: host.url,
      apiKey,
      fixture,
      model: languageModel(inProcess(this.#model, false)),
      ...(base && { base: base as BaseModel }),
    };
    const before = host.strangers();
    const ended = await this.#ended(() => task.rollout?.(asked), { signal: over.signal, late });
    time.clear();
    const total = (performance.now() - started) / 1000;
    const { player, queue } = this.#model.seconds;
    const seconds = { total, player, queue, tools: Math.max(0, total - player) };
    const keyless = host.strangers() > before;
    return { ...ended, seconds, overdue: over.signal.aborted ? overdue : undefined, keyless };
  }

  /** A program's error, with what its endpoint knows of the cause. */
  #explained(error: unknown, keyless: boolean) {
    const { turns, trouble } = this.#model;
    const keyMissing = keyless && turns.length === 0 ? KEYLESS : undefined;
    const said = messageOf(error);
    // An agent's own error often has the answer's whole text.
    const told = trouble !== undefined && !said.includes(messageOf(trouble));
    const why = told ? `its last request was answered with: ${messageOf(trouble)}` : keyMissing;
    return why === undefined ? error : new HoneError(`${said}; ${why}`, { cause: error });
  }

  /** @throws the error where that is no mistake of the model */
  #judged({ returned, error, overdue, keyless }: Played): { readonly ending: Ending; readonly reward: Reward } {
    const { task } = this.#thread;
    if (error instanceof Hung) throw error;
    if (error === undefined) {
      const reward = rewardReturned(returned);
      return { ending: overdue ? { end: "deadline" } : endingOf(this.#model, task.finalTools), reward };
    }
    // An error after the rollout's time is taken for its consequence.
    if (overdue) return { ending: { end: "deadline", reason: messageOf(error) }, reward: NOTHING };
    const rollout = { output: this.#output, fail: () => undefined };
    const mistake = onBehalfOf(rollout, () => mistakeOf(error, this.#model, task, this.#member.scenario));
    if (!mistake) throw this.#explained(error, keyless);
    return { ending: mistake, reward: mistake.reward };
  }

  /** @throws the code's error, and for code that never asked the model */
  #outcome(played: Played): AgentOutcome {
    const { limits } = this.#thread;
    const { turns, refused, chat } = this.#model;
    const { error, overdue, seconds, keyless } = played;
    const { ending, reward: earned } = this.#judged(played);
    const { first, branches, leaf, tree } = sequencesOf(turns, chat.template.closing.id);
    if (!first) {
      if (error === undefined) throw overdue ?? this.#explained(new HoneError(UNASKED), keyless);
      throw overdue ? new HoneError(`${messageOf(error)}; ${overdue.message}`, { cause: error }) : error;
    }
    const { end, answer: final, reason } = ending;
    const offForm = turns.filter((turn) => turn.formProblem !== undefined || turn.callProblem !== undefined).length;
    const forfeits = limits.offForm === "zero" && offForm > 0;
    const texts = [leaf, turns.at(-1)].filter((turn) => turn?.answer.read.calls.length === 0);
    const text = texts[0]?.answer.read.said;
    const rewritten = sum(turns.map(({ asked }) => asked.rewritten - (asked.point?.rewritten ?? 0)));
    const counts = { history_rewritten: rewritten, refused, off_form: offForm, ...this.#base?.tally };
    return {
      messages: first.messages,
      calls: first.calls,
      answer: end === "answered" ? (final ?? (text === undefined ? undefined : { text })) : undefined,
      end,
      deadlineCause:
        end === "deadline" ? (overdue ? deadlineCause(seconds, seconds.total, limits.turnSeconds) : "turn") : undefined,
      reason:
        reason ?? (forfeits ? "an answer or a call had not the form that was asked for (--off-form zero)" : undefined),
      turns: turns.length,
      reward: forfeits ? { ...NOTHING, parts: { ...earned.parts, on_form: 0 } } : earned,
      tokens: first.tokens,
      completionTokens: sum(turns.map(({ answer }) => sum([...answer.segment.sampled]))),
      promptTokens: sum(turns.map(({ asked }) => asked.append.length)),
      seconds,
      ...(branches.length > 0 ? { branches, tree } : {}),
      agent: {
        completions: turns.length,
        sequences: 1 + branches.length,
        ...Object.fromEntries(Object.entries(counts).filter(([, count]) => count > 0)),
      },
      ...(this.#output.text === "" ? {} : { output: this.#output.text }),
    };
  }
}
