/** Views of a training: its program's handlers, and those that tell once, after a step, what stands in the way of one that has just begun. */
import type { GivenOptions } from "../core/config/config.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { RunSettings } from "../core/run/settings.js";
import { type AnyTask, toolSchema } from "../core/task/task.js";
import type { View } from "../core/train/parts.js";
import type { TrainEvents } from "./events.js";

export interface Told {
  readonly given: GivenOptions;
  readonly settings: Pick<RunSettings, "model" | "task">;
  readonly task: AnyTask;
  readonly run: string;
  /** Whether no step of the run has solved anything so far. */
  readonly unsolved: boolean;
}

export async function telling(view: View, told: Told): Promise<View> {
  const own = told.task.rollout ? await tellingOfAgents(view) : view;
  return told.unsolved ? await tellingOfMeans(own, told) : own;
}

/** The view, which is asked after each step, with the rollouts that ended since the one before, until it returns true. */
function after(
  view: View,
  tell: (rollouts: readonly Trajectory[], line: Parameters<View["step"]>[0]) => boolean,
): View {
  let told = false;
  let rollouts: Trajectory[] = [];
  return {
    ...view,
    rollout: (trajectory) => {
      if (!told) rollouts.push(trajectory);
      view.rollout(trajectory);
    },
    step: (line) => {
      view.step(line);
      told ||= tell(rollouts, line);
      rollouts = [];
    },
  };
}

/** Of a model that calls other tools than the agent has, and of an agent whose errors count as the model's. */
async function tellingOfAgents(view: View): Promise<View> {
  const [{ unknownToolsText }, { agentMistakesText }] = await Promise.all([
    import("../insight/report/unknown-tools.js"),
    import("../insight/report/agent-mistakes.js"),
  ]);
  return [unknownToolsText, agentMistakesText].reduce<View>(
    (told, textOf) =>
      after(told, (rollouts) => {
        const text = textOf(rollouts);
        if (text !== undefined) view.log(text);
        return text !== undefined;
      }),
    view,
  );
}

/** Of what fits where the first step without differences between rewards has solved nothing, as none before it has. */
async function tellingOfMeans(view: View, { given, settings, task, run }: Told): Promise<View> {
  const [{ unreadCalls }, { unsolvedText }] = await Promise.all([
    import("../insight/report/unread-calls.js"),
    import("../insight/report/unsolved.js"),
  ]);
  const tools = task.tools.map((tool) => toolSchema(tool));
  return after(view, (played, { step, rollouts, success, groups, groups_flat: flat, agent }) => {
    if (rollouts === 0) return false;
    if (success !== 0) return true;
    if (flat < groups || groups === 0) return false;
    const unread = unreadCalls(tools, played);
    // Of a run that goes on they need not be given again.
    const { model, task: reference } = { ...settings, ...given } as typeof settings;
    view.log(unsolvedText(step, { given, model, run, reference, task, unread, offForm: agent.off_form ?? 0 }));
    return true;
  });
}

const nothing = () => undefined;

/**
 * @returns the view, and `end`, which throws what an async handler rejected with and was not thrown yet: a rejection that nobody
 * awaits would end the process
 */
export function viewOf(
  events: TrainEvents,
): Required<Pick<TrainEvents, "onStart">> & { readonly view: View; end(): Promise<void> } {
  const failed: unknown[] = [];
  let ended = false;
  const called =
    <A extends readonly unknown[]>(handler: (...args: A) => unknown = nothing) =>
    (...args: A): void => {
      const result = handler(...args);
      if (!(result instanceof Promise)) return;
      result.catch((error: Error) => void (ended ? process.emitWarning(error) : failed.push(error)));
    };
  const first =
    <A extends readonly unknown[]>(handler: (...args: A) => void) =>
    (...args: A): void => {
      if (failed.length > 0) throw failed.shift();
      handler(...args);
    };
  return {
    onStart: called(events.onStart),
    view: {
      phase: first(called(events.onPhase)),
      rollout: called(events.onRollout),
      rewarded: called(events.onRewarded),
      progress: called(events.onProgress),
      step: first(called(events.onStep)),
      validation: called(events.onValidation),
      log: called(events.log),
    },
    async end() {
      // Not for handlers under way, which may wait for the run's end: for what has just been rejected.
      await new Promise(setImmediate);
      ended = true;
      if (failed.length > 0) throw failed.shift();
    },
  };
}
