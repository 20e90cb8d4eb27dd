/** Views that tell once, after a step, what stands in the way of a training that has just begun. */
import type { GivenOptions } from "../config/index.js";
import { UnknownTools, UnreadCalls, unsolvedText } from "../report/index.js";
import type { RunSettings } from "../run/index.js";
import { type AnyTask, toolSchema } from "../tasks/index.js";
import type { View } from "../train/index.js";

export interface Told {
  readonly given: GivenOptions;
  readonly settings: Pick<RunSettings, "model" | "task">;
  readonly task: AnyTask;
  readonly run: string;
  /** Whether no step of the run has solved anything so far. */
  readonly unsolved: boolean;
}

export function telling(view: View, told: Told): View {
  const own = told.task.rollout ? tellingOfTools(view) : view;
  return told.unsolved ? tellingOfMeans(own, told) : own;
}

/** Of a model that calls other tools than the agent has. */
function tellingOfTools(view: View): View {
  let tools: UnknownTools | undefined = new UnknownTools();
  return {
    ...view,
    rollout: (trajectory) => {
      tools?.add(trajectory);
      view.rollout(trajectory);
    },
    step: (line) => {
      view.step(line);
      const text = tools?.text();
      if (text !== undefined) view.log(text);
      tools = tools && text === undefined ? new UnknownTools() : undefined;
    },
  };
}

/** Of what fits where the first step without differences between rewards has solved nothing, as none before it has. */
function tellingOfMeans(view: View, { given, settings, task, run }: Told): View {
  let calls: UnreadCalls | undefined = new UnreadCalls(task.tools.map((tool) => toolSchema(tool)));
  return {
    ...view,
    rollout: (trajectory) => {
      calls?.add(trajectory);
      view.rollout(trajectory);
    },
    step: (line) => {
      view.step(line);
      if (calls === undefined) return;
      const { step, success, groups, groups_flat: flat, agent } = line;
      if (success === 0 && (flat < groups || groups === 0)) return;
      if (success === 0) {
        const unread = { text: calls.text(), format: calls.format };
        // Of a run that goes on they need not be given again.
        const { model, task: reference } = { ...settings, ...given } as typeof settings;
        view.log(unsolvedText(step, { given, model, run, reference, task, unread, offForm: agent.off_form ?? 0 }));
      }
      calls = undefined;
    },
  };
}
