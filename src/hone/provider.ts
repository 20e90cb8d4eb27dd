/** Models of hone as a provider of the AI SDK: those of this process, and those of `hone serve`. */
import "./options.js";
import { type LanguageModelV3, NoSuchModelError, type ProviderV3 } from "@ai-sdk/provider";
import { languageModel } from "../agent/ai-sdk/model.js";
import { overHttp } from "../agent/ai-sdk/over-http.js";
import type { Source } from "../agent/ai-sdk/source.js";
import { givenByProgram, type OptionName, optionsOf, withDefaults } from "../core/config/config.js";
import { ROLLOUTS_AT_ONCE } from "../core/config/defaults.js";
import { UsageError } from "../core/util/errors.js";
import { checkChatUrl } from "../serve/openai/server.js";
import type { Given, Listener } from "../trainer/given.js";

/** Options of `hone serve` that a program gives by another name, or that are of its port. */
const OTHERWISE = ["subject", "checkpoint", "port", "apiKey"] as const satisfies readonly OptionName[];

const named = optionsOf("serve").filter((name) => !(OTHERWISE as readonly string[]).includes(name));

type LocalOption = Exclude<ReturnType<typeof optionsOf<"serve">>[number], (typeof OTHERWISE)[number]>;

/** Models of this process: a run's checkpoints, or a model alone. The others are options of `hone serve`. */
export interface LocalProviderOptions extends Given<LocalOption>, Listener {
  /** A run's name, PROJECT/NAME or folder. Default, without `model`: the newest run that has finished a step. */
  readonly run?: string;
  /**
   * Checkpoints by the names that ask for them: "best", "latest", "base" or a step's number, at most two different ones. Default:
   * the best (or the latest where none was validated) and "base". The first of them is the run's name too.
   */
  readonly checkpoints?: readonly string[];
}

/** Models of a server that `hone serve` has started, by its names: the run's, and "base". */
export interface ServedProviderOptions {
  /** "http://127.0.0.1:8000/v1" */
  readonly url: string;
  /** The server's `--api-key`. */
  readonly apiKey?: string;
}

export type HoneProviderOptions = LocalProviderOptions | ServedProviderOptions;

/** `hone("base")` is a model for `generateText`, `streamText` and agents. */
export interface HoneProvider extends ProviderV3 {
  (modelId: string): LanguageModelV3;
  /** Models of this process are unloaded; turns under way end with an error. */
  close(): Promise<void>;
}

const lacks = (modelType: "embeddingModel" | "imageModel") => (modelId: string) => {
  throw new NoSuchModelError({ modelId, modelType, message: `there is no ${modelId}: models here write text` });
};

type Opened = Awaited<ReturnType<typeof openLocal>>;

async function openLocal(options: LocalProviderOptions, signal: AbortSignal) {
  const { run, checkpoints, log = () => undefined, ...values } = options;
  const given = await givenByProgram(values, named);
  const all = [...optionsOf("serve"), ...optionsOf("chat")];
  const config = withDefaults(all, { ...given, ...(run === undefined ? {} : { subject: run }) });
  const [{ openSubject }, { ServedModel }] = await Promise.all([
    import("./play/subject.js"),
    import("../serve/model.js"),
  ]);
  const subject = await openSubject(config, {
    given,
    checkpoints,
    withBase: checkpoints === undefined,
    sequences: config.concurrency ?? ROLLOUTS_AT_ONCE.cpu,
    log,
    signal,
  });
  const { run: of } = subject;
  const taken = subject.models.flatMap(({ names }) => names);
  const models = subject.models.map(({ names, engine, chat }, index) => {
    const added = index === 0 && of !== undefined && !taken.includes(of) ? [of] : [];
    const model = new ServedModel([...names, ...added], engine, chat);
    model.onNote = log;
    return model;
  });
  return { subject, models };
}

/**
 * A provider of the AI SDK for `generateText({ model: hone("best") })`. Models of this process are loaded with the first
 * turn that is asked for, all of them, and stay until `close`.
 *
 * @throws UsageError for a URL that is none; the first turn throws it for other options that are wrong
 */
export function createHone(options: HoneProviderOptions = {}): HoneProvider {
  const source = "url" in options ? ofServer(options) : ofThisProcess(options);
  const model = (modelId: string) => languageModel(source.of(modelId));
  return Object.assign((modelId: string) => model(modelId), {
    specificationVersion: "v3" as const,
    languageModel: model,
    embeddingModel: lacks("embeddingModel"),
    imageModel: lacks("imageModel"),
    close: source.close,
  });
}

interface Sources {
  of(modelId: string): Source;
  close(): Promise<void>;
}

function ofServer({ url, apiKey, ...more }: ServedProviderOptions): Sources {
  checkChatUrl("player", url, "url");
  const unknown = Object.keys(more)[0];
  if (unknown !== undefined) throw new UsageError(`options: with url there is apiKey alone; leave out ${unknown}`);
  return { of: (modelId) => overHttp({ url, key: apiKey }, modelId), close: async () => undefined };
}

function ofThisProcess(options: LocalProviderOptions): Sources {
  const stop = new AbortController();
  let opening: Promise<Opened> | undefined;
  const open = async (): Promise<Opened> => {
    stop.signal.throwIfAborted();
    opening ??= openLocal(options, stop.signal);
    try {
      return await opening;
    } catch (error) {
      // What was wrong may be mended: a run that is not there yet.
      opening = undefined;
      throw error;
    }
  };
  const find = async (modelId: string): Promise<Source> => {
    const { models } = await open();
    const found = models.find(({ names }) => names.includes(modelId));
    if (found) return (await import("../agent/ai-sdk/in-process.js")).inProcess(found, true);
    const names = models.flatMap((one) => one.names).join(", ");
    const message = `there is no model ${modelId} here; there are ${names} (the option checkpoints)`;
    throw new NoSuchModelError({ modelId, modelType: "languageModel", message });
  };
  return {
    of: (modelId) => ({
      name: modelId,
      url: "hone:in-process",
      async *ask(request, signal) {
        yield* (await find(modelId)).ask(request, signal);
      },
    }),
    close: async () => {
      stop.abort(new UsageError("the provider was closed"));
      const opened = await opening?.catch(() => undefined);
      for (const model of opened?.models ?? []) model.close();
      await opened?.subject.close();
    },
  };
}
