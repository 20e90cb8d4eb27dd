/**
 * A judge that hone runs itself, in this process: an engine of its own behind serve's endpoint on loopback, which holds
 * answers to the schema. It ends with the process, however that ends, and sleeps while others need its memory.
 */
import { randomBytes } from "node:crypto";
import { chatOf } from "../../chat/chat.js";
import type { Config } from "../../core/config/config.js";
import type { LocalEngine } from "../../core/engine/engine.js";
import { EngineOutOfMemory } from "../../core/engine/errors.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { takeDevice } from "../../engine/device/device.js";
import { engineOptions } from "../../engine/engine-options.js";
import { loadEngine } from "../../engine/factory.js";
import { type ModelShape, modelFingerprint } from "../../engine/models.js";
import { decodeThreads } from "../../engine/threads.js";
import { conversingModel } from "../../machine/models/header.js";
import { nameOf, readReference } from "../../machine/models/reference.js";
import { resolveModel } from "../../machine/models/resolve.js";
import type { ModelConfig } from "../../machine/models/wanted.js";
import { prepareMachine } from "../../machine/python/machine.js";
import { ServedModel } from "../../serve/model.js";
import { openEndpoint } from "../../serve/server.js";
import { judgeGate } from "../judge-gate.js";

/** Requests at once, where `--judge-concurrency` is not given. Each has KV of its own for a whole question. */
const CONCURRENCY = 2;
/** Tokens of an answer at most, where `--judge-max-tokens` is not given. */
const ANSWER = 2048;
/** Tokens of a question at most, for commands that ask for the correctness of single answers alone. */
const SHORT_QUESTION = 8000;
/** Tokens of a conversation besides question and first answer: the chat template's, and the repair of a wrong answer. */
const REPAIR = 1600;

/** Options that a judge of this process is resolved by. */
export type LocalJudgeConfig = Omit<ModelConfig, "weights"> &
  Pick<Config, "judgeUrl" | "judgeModel" | "judgeConcurrency" | "judgeMaxTokens"> & {
    readonly judgeInputTokens?: number;
  };

/** The options of the machine that it is loaded by. */
export type JudgeMachine = Pick<Config, "gpu" | "device" | "threads" | "python" | "torchIndex">;

/** A judge of this process before it is loaded. */
export interface LocalJudgePlan {
  /** The GGUF file. */
  readonly file: string;
  readonly name: string;
  readonly shape: ModelShape;
  /** As {@link modelFingerprint}. */
  readonly fingerprint: string;
  /** Sequences with KV of their own. */
  readonly concurrency: number;
  /** Tokens of a question at most, and of the rest of a conversation: answer, repair, template. */
  readonly inputTokens: number;
  readonly besides: number;
  /** Tokens of an answer at most. */
  readonly answerTokens: number;
}

/** A GGUF file is loaded as it is, any other model in q8_0: a judge is not trained, and twice the model fits. */
function weightsOf(reference: string): "q8_0" | undefined {
  const known = readReference(reference, "q8_0", "--judge-model");
  const isFile = known.kind !== "folder" && !(known.kind === "hub" && known.file === undefined);
  return isFile ? undefined : "q8_0";
}

/**
 * Finds the judge's file, downloading or converting it where it is not here; loads nothing.
 *
 * @throws UsageError when there is no such model, or its context holds no question
 * @throws HoneError when it cannot be fetched or used
 */
export async function planLocalJudge(
  config: LocalJudgeConfig,
  log: (text: string) => void,
  signal?: AbortSignal,
): Promise<LocalJudgePlan> {
  const reference = config.judgeModel as string;
  const weights = weightsOf(reference);
  const file = await resolveModel(reference, { ...config, weights }, { log, signal });
  const shape = await conversingModel(file);
  const { trainedContext } = shape;
  const answerTokens = Math.min(config.judgeMaxTokens ?? ANSWER, Math.floor(trainedContext / 4));
  const besides = answerTokens + Math.min(REPAIR, Math.floor(trainedContext / 8));
  const inputTokens = Math.min(config.judgeInputTokens ?? SHORT_QUESTION, trainedContext - besides);
  if (inputTokens < 1000) {
    throw new UsageError(
      `--judge-model ${reference}: its context of ${trainedContext} tokens has room for a question of ${inputTokens}, and a judge needs 1000; take another model`,
    );
  }
  return {
    file,
    name: nameOf(readReference(reference, "q8_0", "--judge-model")),
    shape,
    fingerprint: modelFingerprint(file),
    concurrency: config.judgeConcurrency ?? CONCURRENCY,
    inputTokens,
    besides,
    answerTokens,
  };
}

/** Draws the same answer to the same request. */
class JudgeModel extends ServedModel {
  override requestSeed({ seed }: Parameters<ServedModel["requestSeed"]>[0]): number {
    return seed ?? 0;
  }
}

export type LocalJudge = Awaited<ReturnType<typeof openLocalJudge>>;

/**
 * Loads the judge and opens its endpoint.
 * @param beside whether an engine plays in this process at the same time, and the cores are shared
 * @throws HoneError when it cannot be loaded
 */
export async function openLocalJudge(
  plan: LocalJudgePlan,
  machine: JudgeMachine,
  beside: boolean,
  log: (text: string) => void,
) {
  takeDevice(machine);
  await prepareMachine(machine, log);
  const cores = decodeThreads(machine.threads);
  const options = {
    ...engineOptions(machine, {
      model: plan.file,
      name: "judge",
      lanes: 1,
      sequences: plan.concurrency,
      contextPerSequence: plan.inputTokens + plan.besides,
    }),
    // Beside a player it has half of the cores, so that the threads of both never wait for a core.
    ...(beside ? { threads: Math.max(1, Math.floor(cores / 2)) } : {}),
  };
  const engine = await fitting(plan.concurrency, log, (sequences) => loadEngine({ ...options, sequences }, log));
  let player: LocalEngine | undefined;
  const gate = judgeGate({
    wake: () => fitting(engine.info.sequences, log, (sequences) => engine.wake({ sequences })),
    sleep: () => engine.sleep({ weights: true }),
    onBusy: (busy) => {
      if (!player || engine.info.gpu !== false) return;
      player.holdThreads(busy ? Math.max(1, player.info.threads - engine.info.threads) : undefined);
    },
  });
  try {
    const key = randomBytes(24).toString("base64url");
    const model = new JudgeModel([plan.name], engine, chatOf(engine, {}));
    const endpoint = await openEndpoint({ port: 0, apiKey: key, models: [model] });
    const { device, weights } = engine.info.compute;
    log(
      `judge: ${plan.name} (${weights}) in this process, on ${device}, ${engine.info.sequences} at once, questions of up to ${plan.inputTokens} tokens`,
    );
    return {
      plan,
      url: endpoint.url,
      /** Key of the endpoint: nobody else on this machine is answered. */
      key,
      /** Its sleep frees the judge's memory, weights included. */
      ...gate,
      /** The engine that plays at the same time: on a CPU it leaves the judge its cores while a request is open. */
      beside: (other: LocalEngine | undefined) => {
        player = other;
      },
      close: async () => {
        player = undefined;
        await endpoint.close(0);
        await engine.close();
      },
    };
  } catch (error) {
    await engine.close();
    throw error;
  }
}

/** Loads or wakes the judge with half as many requests at once each time that memory does not suffice. */
async function fitting<T>(most: number, log: (text: string) => void, load: (sequences: number) => Promise<T>) {
  for (let sequences = most; ; sequences = Math.floor(sequences / 2)) {
    try {
      return await load(sequences);
    } catch (error) {
      if (!(error instanceof EngineOutOfMemory)) throw error;
      if (!error.fewerHelp || sequences === 1) {
        throw new HoneError(
          `the judge does not fit into memory: ${error.message}; give a smaller --judge-model or fewer --judge-input-tokens, or another --judge-url`,
          { cause: error },
        );
      }
      log(
        `the judge did not fit into memory; --judge-concurrency ${Math.floor(sequences / 2)} instead of ${sequences}`,
      );
    }
  }
}
