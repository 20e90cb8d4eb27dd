/**
 * One session with an OpenEnv server, by the WebSocket protocol of its package (`/ws`): the server makes an environment for each
 * connection, and answers each message with one. Every wait has a limit, and a session that has failed stays so.
 */
import { on, once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { z } from "zod";
import { parsed } from "../../chat/formats/format.js";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { toJson } from "../../core/util/json.js";
import { anyOf, unlessAborted } from "../../core/util/signals.js";
import { TimeLimit } from "../../core/util/time-limit.js";
import { InvalidAction } from "./surface.js";

/** What an environment answers to a reset and to a step. */
const observedSchema = z.object({
  observation: z.record(z.string(), z.unknown()),
  reward: z.union([z.number(), z.boolean()]).nullish(),
  done: z.boolean().default(false),
});
export type Observed = z.output<typeof observedSchema>;

interface Message {
  readonly type: "reset" | "step";
  readonly data: Readonly<Record<string, unknown>>;
}

const repliedSchema = z.object({ type: z.string(), data: z.record(z.string(), z.unknown()).default({}) });
type Replied = z.output<typeof repliedSchema>;

/** As the clients of the package have them. */
const CONNECT_SECONDS = 10;
const MOST_BYTES = 100 * 1_048_576;

/** Milliseconds that the server has to take leave. */
const LEAVE_MS = 1000;

/** Milliseconds between attempts to get a session where all are taken: first, and at most. */
const RETRY_MS = { first: 100, most: 2000 };

export interface SessionSettings {
  /** Of the server: `http://host:port`, without a slash at the end. */
  readonly url: string;
  /** For each answer. */
  readonly seconds: number;
  readonly signal: AbortSignal;
}

/** The server has as many sessions as it allows. */
class Full extends HoneError {}

const nameOf = (url: string) => `the OpenEnv server at ${url}`;

/** The field that is not valid, and the server's words for why. */
function firstInvalid({ data }: Replied) {
  const { errors } = data as { errors?: readonly { readonly loc?: readonly unknown[]; readonly msg?: string }[] };
  const [first] = Array.isArray(errors) ? errors : [];
  const place = Array.isArray(first?.loc) ? first.loc.map(String) : [];
  const where = place.length > 0 ? `${place.join(".")}: ` : "";
  return { field: place[0], why: `${where}${first?.msg ?? data.message ?? "it is not valid"}` };
}

export class Session {
  readonly #socket: WebSocket;
  readonly #settings: SessionSettings;
  #failure: HoneError | undefined;
  readonly #messages: AsyncIterator<unknown[], undefined>;

  private constructor(settings: SessionSettings) {
    this.#settings = settings;
    this.#socket = new WebSocket(`${settings.url.replace(/^http/, "ws")}/ws`, {
      handshakeTimeout: 1000 * CONNECT_SECONDS,
      maxPayload: MOST_BYTES,
    });
    this.#messages = on(this.#socket, "message", { close: ["close"] });
    this.#socket.on("error", (error) => this.#fail(messageOf(error)));
    this.#socket.on("close", (code) => this.#fail(`it closed the session (code ${code})`));
  }

  /**
   * A session, and the first observation of its episode. Where the server's sessions are all taken, one is waited for.
   *
   * @param data of the reset: `seed` and what else the environment takes
   * @param onFull told once, where there is none for now
   */
  static async begin(
    settings: SessionSettings,
    data: Readonly<Record<string, unknown>>,
    onFull: (why: string) => void,
  ): Promise<{ readonly session: Session; readonly first: Observed }> {
    for (let pause = RETRY_MS.first, told = false; ; pause = Math.min(2 * pause, RETRY_MS.most)) {
      const session = new Session(settings);
      try {
        await session.#opened();
        return { session, first: await session.#observed({ type: "reset", data }) };
      } catch (error) {
        session.close();
        if (!(error instanceof Full)) throw error;
        if (!told) onFull(error.message);
        told = true;
      }
      await sleep(pause, undefined, { signal: settings.signal });
    }
  }

  /** @throws InvalidAction */
  step(action: Readonly<Record<string, unknown>>): Promise<Observed> {
    return this.#observed({ type: "step", data: action });
  }

  /** Need not be waited for. */
  close(): void {
    const { CONNECTING, OPEN } = WebSocket;
    if (this.#socket.readyState === OPEN) this.#socket.send(toJson({ type: "close" }));
    if (this.#socket.readyState === CONNECTING) this.#socket.terminate();
    else this.#socket.close();
    const leave = setTimeout(() => this.#socket.terminate(), LEAVE_MS).unref();
    this.#socket.once("close", () => clearTimeout(leave));
  }

  #fail(why: string): void {
    this.#failure ??= new HoneError(`${nameOf(this.#settings.url)} is gone: ${why}`);
  }

  async #opened(): Promise<void> {
    await this.#within(CONNECT_SECONDS, "a connection", once(this.#socket, "open"));
  }

  async #observed(message: Message): Promise<Observed> {
    const { url, seconds } = this.#settings;
    const what = message.type;
    if (!this.#failure) this.#socket.send(toJson(message));
    // A server without a session left has said so already, as soon as it was reached.
    const next = await this.#within(seconds, `a ${what}`, this.#messages.next());
    if (next.done) throw this.#failure;
    const text = String(next.value[0]);
    const replied = repliedSchema.safeParse(parsed(text));
    if (replied.data?.type === "error") throw this.#refused(message, replied.data);
    const read = observedSchema.safeParse(replied.data?.data);
    if (replied.data?.type === "observation" && read.success) return read.data;
    throw new HoneError(`${nameOf(url)} answers a ${what} with no observation: ${text.slice(0, 200)}`);
  }

  #refused({ type: what, data: sent }: Message, replied: Replied): HoneError {
    const { code, message } = replied.data;
    const invalid = code === "VALIDATION_ERROR" ? firstInvalid(replied) : undefined;
    if (invalid && what === "step") {
      const { field, why } = invalid;
      // The server says the same of an observation that its environment makes wrongly, of whose fields an action has none.
      if (field === undefined || Object.hasOwn(sent, field)) return new InvalidAction(why);
    }
    if (code === "CAPACITY_REACHED") {
      const { max_sessions: most } = replied.data;
      const sessions = typeof most === "number" ? `all ${most} sessions` : "all sessions";
      return new Full(
        `${sessions} of ${nameOf(this.#settings.url)} are in use, and one is waited for; a lower --concurrency, or a higher max_concurrent_envs of the server, spares the wait`,
      );
    }
    return new HoneError(
      `${nameOf(this.#settings.url)} failed at a ${what}: ${invalid?.why ?? message ?? code ?? "it did not say why"}`,
    );
  }

  /** @throws HoneError when the session ends or the time is over; the signal's reason when that is aborted */
  async #within<T>(seconds: number, what: string, work: Promise<T>): Promise<T> {
    const { url, signal } = this.#settings;
    using time = new TimeLimit(
      seconds,
      () => new HoneError(`${nameOf(url)} did not answer ${what} within ${seconds} s`),
    );
    using both = anyOf([signal, time.signal]);
    try {
      return await unlessAborted(work, both.signal);
    } catch (error) {
      throw this.#failure ?? error;
    }
  }
}
