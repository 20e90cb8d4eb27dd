/**
 * The owner's side of vLLM servers, on the main thread: checks each, loads the same adapter on all of them, notices which
 * no longer answer, and lets them join again. Rollouts on any thread see the outcome on the board.
 */

import { HoneError, messageOf } from "../../core/util/errors.js";
import { anyOf } from "../../core/util/signals.js";
import { awakeTime, TimeLimit } from "../../core/util/time-limit.js";
import type { HttpClient } from "../http.js";
import { type AdapterFolder, nameIn } from "./adapters.js";
import type { Board } from "./board.js";
import { checkServer, type Expected, fixedIds, SAME_MODEL, type Seen, type Trials, whyNotLoaded } from "./checks.js";
import { ask, Failures, loadAdapter, models, ServerLost, score, unloadAdapter } from "./protocol.js";
import { type AdapterType, meanDistance } from "./rounding.js";

/** Milliseconds between looks at the servers. */
const LOOK = 1000;
/** Seconds for which a server may be silent when it is looked at, or checked, which nothing of ours waits behind; and at the end. */
const PATIENCE = 20;
const CHECK = 300;
const END = 5;
/** Seconds in which none of an adapter's turns ends, after which those are no more: their thread was ended. */
const TURNS = 900;

interface Server {
  readonly client: HttpClient;
  seen: Seen | undefined;
  /** Last reason for which it may not join. */
  refused: string;
}

export interface FleetOptions {
  readonly clients: readonly HttpClient[];
  readonly board: Board;
  readonly prefix: string;
  readonly folder: AdapterFolder;
  readonly expected: Expected;
  readonly signal: AbortSignal;
  readonly log: (line: string) => void;
}

/** An adapter that is loaded, or was. */
interface Loaded {
  readonly version: number;
  readonly file: string;
  readonly name: string;
  /** Scores of the fixed text. */
  scores: Float32Array | undefined;
}

export class Fleet {
  readonly #options: FleetOptions;
  readonly #servers: readonly Server[];
  readonly #ids: readonly number[];
  #counter = 0;
  #loaded: Loaded | undefined;
  /** Unloaded everywhere: deleted with the next change, as a server may still read one that it has just let go. */
  #unloaded: string[] = [];
  #chain: Promise<unknown> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  /** Nothing is noticed while the owner has stopped them. */
  #paused = false;
  /** Ends what is asked of servers, but for what is asked when it is closed. */
  readonly #closing = new AbortController();
  readonly #ended: ReturnType<typeof anyOf>;
  /** Since when no server answers, by `awakeTime`, as limits are counted. */
  #out: number | undefined;

  constructor(options: FleetOptions) {
    this.#options = options;
    this.#ended = anyOf([options.signal, this.#closing.signal]);
    const { signal } = this.#ended;
    this.#servers = options.clients.map((client) => ({
      client: client.with({ signal }),
      seen: undefined,
      refused: "",
    }));
    this.#ids = fixedIds(options.expected.words);
  }

  /** The adapter file in use; null for the base model. */
  get adapter(): string | null {
    return this.#loaded?.file ?? null;
  }

  /**
   * Checks all servers.
   * @throws HoneError in one line, naming the server
   */
  async open(): Promise<void> {
    for (const [index, server] of this.#servers.entries()) {
      const { url } = server.client;
      try {
        await this.#admit(index);
      } catch (error) {
        this.#ended.signal.throwIfAborted();
        if (error instanceof ServerLost) {
          throw new HoneError(`no vLLM server answers at ${url}: ${error.message}`, { cause: error });
        }
        throw new HoneError(`the vLLM server at ${url}: ${messageOf(error)}`, { cause: error });
      }
    }
    const { folder } = this.#options;
    for (const name of folder.abandoned()) folder.remove(name);
    this.#watch();
  }

  /**
   * Loads an adapter on every server, sees each of them answer with it, and puts it in force; then unloads the one before,
   * once its turns have ended.
   * @throws HoneError when a server does not load it, or answers with another
   */
  use(file: string | null): Promise<void> {
    return this.#alone(async () => {
      if (file === this.adapter) return;
      const { board, folder } = this.#options;
      for (const name of this.#unloaded.splice(0)) folder.remove(name);
      const before = this.#loaded;
      if (file === null) {
        board.version = 0;
        this.#loaded = undefined;
      } else {
        this.#counter++;
        const name = nameIn(this.#options.prefix, this.#counter);
        folder.publish(file, name);
        const loaded: Loaded = { version: this.#counter, file, name, scores: undefined };
        try {
          await this.#onAll((index) => this.#load(index, loaded));
        } catch (error) {
          // Others may have loaded it.
          await this.#unload(loaded);
          throw error;
        }
        board.version = loaded.version;
        this.#loaded = loaded;
      }
      if (before) {
        await this.#turnsEnd(before);
        await this.#unload(before);
      }
    });
  }

  /** Stops looking at servers that the owner stops. */
  pause(): Promise<void> {
    return this.#alone(async () => {
      this.#paused = true;
      for (const index of this.#servers.keys()) this.#options.board.lose(index);
    });
  }

  /** @throws HoneError when a server is not as it was */
  resume(): Promise<void> {
    return this.#alone(async () => {
      this.#paused = false;
      for (const index of this.#servers.keys()) await this.#admit(index);
    });
  }

  async close(): Promise<void> {
    this.#closing.abort(new HoneError("the engine was closed"));
    clearTimeout(this.#timer);
    await this.#chain;
    if (this.#loaded && !this.#paused) await this.#unload(this.#loaded);
    for (const name of this.#unloaded) this.#options.folder.remove(name);
    this.#ended[Symbol.dispose]();
  }

  #alone<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#chain.then(work);
    this.#chain = done.catch(() => undefined);
    return done;
  }

  /** Checks a server, brings it to the adapter in force, and gives it rollouts. */
  async #admit(index: number): Promise<void> {
    const { board, folder, expected, prefix } = this.#options;
    const server = this.#servers[index] as Server;
    const name = () => nameIn(prefix, ++this.#counter);
    const trials: Trials = [name(), name(), name(), name()];
    let seen: Seen;
    try {
      seen = await checkServer(server.client.with({ seconds: CHECK }), expected, folder, trials);
    } finally {
      for (const trial of trials) folder.remove(trial);
    }
    if (server.seen && server.seen.base !== seen.base) {
      throw new HoneError(`its model is called ${seen.base} now, and was ${server.seen.base}: start it as before`);
    }
    const { adapterType } = this;
    if (adapterType !== undefined && adapterType !== seen.adapters) {
      const others =
        this.#servers.length === 1
          ? `did so in ${adapterType}: start it as before`
          : `others do in ${adapterType}: start all of them with one --dtype`;
      throw new HoneError(`it keeps adapters in ${seen.adapters}, and ${others}`);
    }
    server.seen = seen;
    if (this.#loaded) await this.#load(index, this.#loaded);
    server.refused = "";
    this.#endOutage();
    board.join(index);
  }

  /** The type in which all servers keep adapters; undefined before one was seen. */
  get adapterType(): AdapterType | undefined {
    return this.#servers.find(({ seen }) => seen)?.seen?.adapters;
  }

  /** The first server's vLLM. */
  get version(): string {
    return this.#servers[0]?.seen?.version ?? "";
  }

  /** The name by which a server's base model is asked for. */
  baseOf(index: number): string {
    return (this.#servers[index] as Server).seen?.base ?? "";
  }

  /** @throws HoneError when it is not loaded, or another one answers */
  async #load(index: number, loaded: Loaded): Promise<void> {
    const { client, seen } = this.#servers[index] as Server;
    const { folder, expected } = this.#options;
    const { name } = loaded;
    const path = folder.pathOf(name);
    const refused = await loadAdapter(client, name, path);
    // One that was only cut off still has it.
    if (refused && !/already/.test(refused.text)) {
      throw new HoneError(`the vLLM server at ${client.url}: ${whyNotLoaded(refused, expected.adapterRank, path)}`);
    }
    const scores = await score(client, { model: name, salt: name }, this.#ids, 1);
    const base = seen?.scores as Float32Array;
    if (meanDistance(scores, base) === 0 && folder.changesAnything(name)) {
      throw new HoneError(
        `the vLLM server at ${client.url} answers with the base model where it is asked for the adapter ${name}`,
      );
    }
    loaded.scores ??= scores;
    const apart = meanDistance(scores, loaded.scores);
    if (apart <= SAME_MODEL) return;
    throw new HoneError(
      `the vLLM server at ${client.url} answers with another adapter than the others: ${apart.toFixed(2)} nats apart on average`,
    );
  }

  /** Does something with every server that answers; waits until there is one. */
  async #onAll(work: (index: number) => Promise<void>): Promise<void> {
    const { board, clients } = this.#options;
    const failures = new Failures();
    for (;;) {
      const done = await Promise.all(
        board.answering().map(async (index) => {
          try {
            await work(index);
            return true;
          } catch (error) {
            failures.add(error, clients[index] as HttpClient);
            board.lose(index);
            return false;
          }
        }),
      );
      if (done.includes(true)) return;
      board.checkHope();
      await this.#look();
      await new Promise((resolve) => setTimeout(resolve, LOOK));
      this.#ended.signal.throwIfAborted();
    }
  }

  async #turnsEnd({ version }: Loaded): Promise<void> {
    const { board } = this.#options;
    using limit = new TimeLimit(TURNS, () => undefined);
    const { signal } = this.#ended;
    for (let turns = board.turns(version); turns > 0 && !limit.signal.aborted; ) {
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (signal.aborted) break;
      const now = board.turns(version);
      if (now !== turns) limit.renew();
      turns = now;
    }
    signal.throwIfAborted();
  }

  /** Also at the end, when nothing else is asked any more. */
  async #unload({ name }: Loaded): Promise<void> {
    const { board, clients } = this.#options;
    const seconds = this.#ended.signal.aborted ? END : PATIENCE;
    await Promise.all(
      board.answering().map(async (index) => {
        try {
          await unloadAdapter(clients[index] as HttpClient, name, { seconds });
        } catch (error) {
          // One that is gone has no adapters; a later one of its address is asked for its own.
          if (!(error instanceof ServerLost)) throw error;
          board.lose(index);
        }
      }),
    );
    this.#unloaded.push(name);
  }

  #watch(): void {
    if (this.#closing.signal.aborted) return;
    this.#timer = setTimeout(async () => {
      try {
        await this.#alone(() => this.#look());
      } catch (error) {
        if (!this.#ended.signal.aborted) this.#options.log(`vLLM servers: ${messageOf(error)}`);
      }
      this.#watch();
    }, LOOK);
    this.#timer.unref();
  }

  /** Looks at every server: who is lost, who is there again. */
  async #look(): Promise<void> {
    if (this.#paused || this.#ended.signal.aborted) return;
    const { board, log } = this.#options;
    // A server that a turn has lost may be checked at length, and join.
    this.#countOutage();
    await Promise.all(
      this.#servers.map(async (server, index) => {
        const { url } = server.client;
        if (!board.answers(index)) return this.#readmit(index);
        try {
          const { status } = await ask(server.client, "/health", undefined, { seconds: PATIENCE });
          if (status === 200) return;
        } catch {
          // Whatever it is, it does not answer.
          this.#ended.signal.throwIfAborted();
        }
        board.lose(index);
        log(`the vLLM server at ${url} no longer answers: its rollouts go to others`);
      }),
    );
    this.#countOutage();
  }

  async #readmit(index: number): Promise<void> {
    const { log } = this.#options;
    const server = this.#servers[index] as Server;
    const { url } = server.client;
    try {
      await models(server.client, { seconds: PATIENCE });
    } catch {
      this.#ended.signal.throwIfAborted();
      if (server.refused === "") log(`the vLLM server at ${url} is gone; it may return`);
      server.refused ||= "gone";
      return;
    }
    try {
      await this.#admit(index);
      log(`the vLLM server at ${url} answers, and plays again`);
    } catch (error) {
      this.#ended.signal.throwIfAborted();
      const why = messageOf(error);
      if (server.refused !== why) log(`the vLLM server at ${url} stays out: ${why}`);
      server.refused = why;
    }
  }

  #countOutage(): void {
    const { board, log } = this.#options;
    if (board.answering().length > 0) return;
    if (this.#out === undefined) log("no vLLM server answers: rollouts wait for one; Ctrl-C ends the run");
    this.#endOutage();
    this.#out = awakeTime();
  }

  /** Before a server joins: its first turn may end before the next look, and its deadline has all of the outage added. */
  #endOutage(): void {
    if (this.#out !== undefined) this.#options.board.addOutage(awakeTime() - this.#out);
    this.#out = undefined;
  }
}
