/** What the task asks of a rollout's scenario, asked once more: a rollout may have been given another's. */
import type { ChatMessage, Scenario } from "../core/task/task.js";
import type { Guard } from "../core/train/guard.js";
import { toJson } from "../core/util/json.js";
import { difference, isOwn } from "./given.js";

export type PromptOf = (scenario: Scenario) => readonly ChatMessage[];

/** undefined where the task cannot say here, or says something else each time. */
function askedTwice(prompt: PromptOf, scenario: Scenario): readonly ChatMessage[] | undefined {
  try {
    const asked = prompt(scenario);
    return toJson(prompt(scenario)) === toJson(asked) ? asked : undefined;
  } catch {
    return undefined;
  }
}

export function promptGuard(prompt: PromptOf | undefined): Guard {
  let told = false;
  return {
    name: "prompts by the task",
    sees: "a rollout whose prompt is not its scenario's; the run goes on, since a prompt may depend on the time",
    afterPlay: ({ group }) => {
      const one = group.find(isOwn);
      if (told || !prompt || one === undefined) return undefined;
      const asked = askedTwice(prompt, one.scenario);
      if (asked === undefined) return undefined;
      const [wanted, found] = [asked, one.messages.slice(0, asked.length)].map((all) => toJson(all)) as [
        string,
        string,
      ];
      if (found === wanted) return undefined;
      told = true;
      const text = `the rollout ${one.id} was asked otherwise than the task asks now of its scenario: ${difference(found, wanted)}. Where a prompt depends on the time this is no fault`;
      return { demand: "note", text };
    },
  };
}
