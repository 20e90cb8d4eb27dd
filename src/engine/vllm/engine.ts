/**
 * The engine over vLLM servers: token ids in, ids and log-probabilities out. The main thread's is the servers' owner, which
 * loads adapters on them; those of other threads join it. Text is tokenized in this process.
 */
import { resolve } from "node:path";
import type {
  EngineCompute,
  LocalEngine,
  PolicyEngine,
  ServedEngineInfo,
  VllmOptions,
  VllmShared,
} from "../../core/engine/engine.js";
import type { Sequence } from "../../core/engine/sequence.js";
import { HoneError } from "../../core/util/errors.js";
import { anyOf } from "../../core/util/signals.js";
import { HttpClient } from "../http.js";
import { LocalTokenizer } from "../local-tokenizer.js";
import { modelShape } from "../models.js";
import { AdapterFolder, nameIn, newPrefix } from "./adapters.js";
import { Board } from "./board.js";
import { Fleet } from "./fleet.js";
import { OwnServer } from "./own-server.js";
import { Failures, score } from "./protocol.js";
import type { AdapterType } from "./rounding.js";
import { Group, type Servers, VllmSequence } from "./sequence.js";

/** Milliseconds between tries to score on a server. */
const RETRY = 250;

export class VllmEngine extends LocalTokenizer implements PolicyEngine {
  readonly info: ServedEngineInfo;
  /** What other threads join by. */
  readonly shared: VllmShared;
  readonly #servers: Servers;
  readonly #owner: { readonly fleet: Fleet; readonly own: OwnServer | undefined } | undefined;
  /** Requests of this thread that a server scores now: each gets one before any gets two. */
  readonly #scoring: number[];
  readonly #closed = new AbortController();
  /** Interrupts waiting for servers. */
  readonly #signal: AbortSignal | undefined;

  constructor(
    options: Pick<VllmOptions, "sequences" | "contextPerSequence" | "urls" | "signal">,
    shared: VllmShared,
    words: LocalEngine,
    clients: readonly HttpClient[],
    compute: EngineCompute,
    owner?: { readonly fleet: Fleet; readonly own: OwnServer | undefined },
    version?: number,
  ) {
    super(words);
    const { sequences, contextPerSequence, urls } = options;
    const board = Board.at(shared.board);
    this.#signal = options.signal;
    this.shared = shared;
    this.#owner = owner;
    this.#scoring = clients.map(() => 0);
    this.#servers = {
      board,
      clients,
      contextPerSequence,
      vocabularySize: words.info.vocabularySize,
      nameOf: (server, version) => (version === 0 ? (shared.bases[server] as string) : nameIn(shared.prefix, version)),
      saltOf: (version) => nameIn(shared.prefix, version),
      version: () => version ?? board.version,
    };
    const { gpu } = words.info;
    this.info = {
      ...words.info,
      sequences,
      contextPerSequence,
      gpu,
      compute,
      servers: urls,
      get replicas() {
        return Math.max(1, board.answering().length);
      },
    };
  }

  get adapter(): string | null {
    return this.#owner?.fleet.adapter ?? null;
  }

  /** The base model on the same servers, whatever adapter is in force. It has nothing of its own to close. */
  frozen(contextPerSequence: number): VllmEngine {
    const { sequences, servers: urls, compute } = this.info;
    const { clients } = this.#servers;
    const options = { sequences, contextPerSequence, urls };
    return new VllmEngine(options, this.shared, this.words, clients, compute, undefined, 0);
  }

  openGroup(prompt: Int32Array, count: number): Sequence[] {
    const { contextPerSequence, vocabularySize } = this.info;
    if (prompt.length === 0) throw new HoneError("a sequence needs a prompt of at least one token");
    if (prompt.length >= contextPerSequence) {
      throw new HoneError(`a prompt of ${prompt.length} tokens does not fit into ${contextPerSequence}`);
    }
    const unknown = prompt.find((id) => id < 0 || id >= vocabularySize);
    if (unknown !== undefined) throw new HoneError(`the prompt holds ${unknown}, which is no token of the model`);
    const group = new Group(this.#servers, count);
    return Array.from({ length: count }, () => new VllmSequence(this.#servers, group, prompt));
  }

  open(prompt: Int32Array): Sequence {
    return this.openGroup(prompt, 1)[0] as Sequence;
  }

  async score(
    tokens: Int32Array,
    { from = 1, signal }: { readonly from?: number; readonly signal?: AbortSignal } = {},
  ): Promise<Float32Array> {
    using ended = anyOf([this.#closed.signal, this.#signal, signal].filter((one) => one !== undefined));
    return await this.#scoreSomewhere([...tokens], from, ended.signal);
  }

  /** On the server with the fewest scores; when that is lost, on another one, or on the first that is there again. */
  async #scoreSomewhere(tokens: readonly number[], from: number, ended: AbortSignal): Promise<Float32Array> {
    const { board, clients, nameOf, saltOf, version: now } = this.#servers;
    const failures = new Failures();
    for (;;) {
      ended.throwIfAborted();
      const [first, ...others] = board.answering();
      if (first === undefined) {
        board.checkHope();
        await new Promise((resolve) => setTimeout(resolve, RETRY));
        continue;
      }
      const server = others.reduce((least, one) => (this.#busy(one) < this.#busy(least) ? one : least), first);
      const version = now();
      this.#scoring[server] = this.#busy(server) + 1;
      try {
        const asked = { model: nameOf(server, version), salt: saltOf(version) };
        return await score(clients[server] as HttpClient, asked, tokens, from, { signal: ended });
      } catch (error) {
        failures.add(error, clients[server] as HttpClient);
        board.lose(server);
      } finally {
        this.#scoring[server] = this.#busy(server) - 1;
      }
    }
  }

  async useAdapter(path: string | null): Promise<void> {
    if (!this.#owner) throw new HoneError("adapters of vLLM servers are loaded by the main thread");
    await this.#owner.fleet.use(path === null ? null : resolve(path));
  }

  /** Gives this machine's memory to the learner: servers elsewhere keep theirs. */
  async sleep(): Promise<void> {
    const { own, fleet } = this.#owner ?? {};
    if (own?.stays === false) {
      await fleet?.pause();
      await own.sleep();
    }
  }

  async wake(): Promise<void> {
    const { own, fleet } = this.#owner ?? {};
    if (own?.stays === false) {
      await own.wake();
      await fleet?.resume();
    }
  }

  async close(): Promise<void> {
    this.#closed.abort(new HoneError("the engine was closed"));
    await this.#owner?.fleet.close();
    await this.#owner?.own?.close();
    for (const client of this.#servers.clients) client.close();
    await this.words.close();
  }

  #busy(server: number): number {
    return this.#scoring[server] as number;
  }
}

const numberType = { float32: "F32", bfloat16: "BF16", float16: "F16" } as const;

/** What is known of how the servers compute. */
async function computeOf(
  options: VllmOptions,
  words: LocalEngine,
  version: string,
  adapters: AdapterType | undefined,
): Promise<EngineCompute> {
  const { layers } = await modelShape(options.model);
  const { own } = options;
  const weights = own ? numberType[own.dtype] : words.info.weightType;
  return {
    backend: own?.gpu ? "cuda" : "cpu",
    device: `vLLM ${version}`,
    offloadedLayers: own?.gpu ? layers : 0,
    layers,
    weights,
    kv: own?.dtype === "float32" ? "F32" : "F16",
    flashAttention: null,
    sampling: "device",
    ...(adapters === undefined || adapters === "F32" ? {} : { adapters }),
  };
}

/**
 * Connects to the servers, and on the main thread checks them; starts hone's own where `own` says how.
 *
 * @param openWords opens the engine that tokenizes, and knows the model's weights
 * @throws HoneError in one line when a server does not answer, or is not set up for this model
 */
export async function openVllm(
  options: VllmOptions,
  openWords: (model: string) => Promise<LocalEngine>,
  log: (line: string) => void = () => undefined,
): Promise<VllmEngine> {
  const words = await openWords(options.model);
  const clients = options.urls.map((url) => new HttpClient(url));
  if (options.shared) return new VllmEngine(options, options.shared, words, clients, options.shared.compute);
  let own: OwnServer | undefined;
  let fleet: Fleet | undefined;
  try {
    const board = Board.of(clients.length);
    if (options.own) {
      own = new OwnServer(options.own, options, log, () => board.giveUp());
      await own.start();
    }
    const prefix = newPrefix();
    const { contextPerSequence, adapterRank, signal = new AbortController().signal } = options;
    fleet = new Fleet({
      clients,
      board,
      prefix,
      signal,
      log,
      folder: new AdapterFolder(resolve(options.adapters)),
      expected: { words, contextPerSequence, adapterRank, shape: await modelShape(options.model) },
    });
    await fleet.open();
    const opened = fleet;
    const shared: VllmShared = {
      board: board.memory,
      prefix,
      bases: clients.map((_, server) => opened.baseOf(server)),
      compute: await computeOf(options, words, opened.version, opened.adapterType),
    };
    return new VllmEngine(options, shared, words, clients, shared.compute, { fleet, own });
  } catch (error) {
    await fleet?.close();
    await own?.close();
    for (const client of clients) client.close();
    await words.close();
    throw error;
  }
}
