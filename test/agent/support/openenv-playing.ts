/** Plays an episode of an OpenEnv task with turns that are given, in place of a model's. */
import type { LanguageModelV3, LanguageModelV3CallOptions, LanguageModelV3Content } from "@ai-sdk/provider";
import type { AgentContext } from "../../../src/core/task/agent.js";
import type { AnyTask, Reward } from "../../../src/core/task/task.js";

/** A turn: calls with their arguments and texts before them, or a text. */
export type Turn = readonly (readonly [name: string, args: object] | string)[] | string;

export interface Episode {
  readonly reward: Reward;
  /** What the model was asked, by turn. */
  readonly asked: readonly LanguageModelV3CallOptions[];
  readonly lines: readonly string[];
}

const contentOf = (turn: Turn): LanguageModelV3Content[] =>
  (typeof turn === "string" ? [turn] : turn).map((part, index) => {
    if (typeof part === "string") return { type: "text", text: part };
    const [toolName, args] = part;
    return { type: "tool-call", toolCallId: `call-${index}`, toolName, input: JSON.stringify(args) };
  });

/** What hone's endpoint answers where the rollout has had its turns. */
const turnLimit = () => Object.assign(new Error("no turns"), { data: { error: { code: "turn_limit" } } });

export async function playEpisode(
  task: AnyTask,
  turns: readonly Turn[],
  {
    options = {},
    id,
    signal = new AbortController().signal,
  }: { options?: object; id?: string; signal?: AbortSignal } = {},
): Promise<Episode> {
  const env = await task.open({ ...options });
  const scenarios = await task.scenarios({ ...options });
  const scenario = scenarios.find((one) => one.id === (id ?? one.id));
  const asked: LanguageModelV3CallOptions[] = [];
  const lines: string[] = [];
  const model = {
    doGenerate: async (given: LanguageModelV3CallOptions) => {
      asked.push({ ...given, prompt: [...given.prompt] });
      const turn = turns[asked.length - 1];
      if (turn === undefined) throw turnLimit();
      return { content: contentOf(turn) };
    },
  } as unknown as LanguageModelV3;
  const log = (...values: unknown[]) => void lines.push(values.join(" "));
  const logger = { debug: log, info: log, warn: log, error: log };
  const about = { scenario, env, seed: 1, index: 0, step: 0, logger, signal, model };
  const context = about as unknown as AgentContext;
  const fixture = await task.setUp?.(context);
  try {
    const reward = (await task.rollout?.({ ...context, fixture })) as Reward;
    return { reward, asked, lines };
  } finally {
    await task.tearDown?.({ ...context, fixture });
    await task.close(env);
  }
}
