/** Finds prompts and results of tools that go beyond the context, counted with the model's own template and vocabulary. */

import { templateOf } from "../../chat/chat.js";
import { opening } from "../../core/rollout/rollout.js";
import type { Scenario } from "../../core/task/task.js";
import { toJson } from "../../core/util/json.js";
import { loadEngine } from "../../engine/factory.js";
import { trainedContext } from "../../engine/models.js";
import { error, type Finding, some, warning } from "./findings.js";
import type { CheckSettings } from "./settings.js";

interface Counted {
  readonly name: string;
  readonly tokens: number;
}

interface Prompted extends Counted {
  readonly question: string;
  readonly text: string;
}

/** @param longest the longest result of each tool */
export async function countTokens(
  { task, maxTurns, model, context }: CheckSettings,
  scenarios: readonly Scenario[],
  longest: ReadonlyMap<string, string>,
) {
  const size = Math.min(context, await trainedContext(model));
  // Only the tokenizer is used, so the context is minimal.
  const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: 1, contextPerSequence: 64 });
  try {
    const template = templateOf(engine);
    const prompts = scenarios.flatMap((scenario): Prompted[] => {
      try {
        const { messages, tools } = opening(task, scenario, maxTurns);
        const { length: tokens } = template.prompt(messages, tools);
        return [{ name: scenario.id, question: scenario.question, text: toJson(messages), tokens }];
      } catch {
        // A prompt that throws is reported by the probes.
        return [];
      }
    });
    const results = [...longest].map(([name, text]) => {
      const { length: tokens } = engine.tokenize(text, { special: false });
      return { name, tokens };
    });
    return { prompts: prompts.map(({ tokens }) => tokens), findings: [...tokenFindings(prompts, results, size)] };
  } finally {
    await engine.close();
  }
}

function* tokenFindings(prompts: readonly Prompted[], results: readonly Counted[], size: number): Iterable<Finding> {
  const beyond = (all: readonly Counted[]) =>
    all
      .filter(({ tokens }) => tokens >= size)
      .sort((a, b) => b.tokens - a.tokens)
      .map(({ name, tokens }) => `${name} ${tokens}`);
  const [long, large] = [beyond(prompts), beyond(results)];
  const noRoom = `${long.length} of ${prompts.length} prompts leave no room in a context of ${size} tokens: ${some(long)}`;
  if (long.length > 0) yield error("prompt_too_long", noRoom);
  const kinds = (of: (prompt: Prompted) => unknown) => new Set(prompts.map(of)).size;
  const same = `${prompts.length} scenarios with different questions have the same prompt: what should tell the model which it is?`;
  if (kinds(({ question }) => question) > 1 && kinds(({ text }) => text) === 1) yield warning("same_prompt", same);
  const ends = `tools returned more tokens than a context of ${size} has, which ends a rollout: ${some(large)}`;
  if (large.length > 0) yield error("result_too_long", ends);
}
