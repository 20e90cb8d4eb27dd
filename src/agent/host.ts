/**
 * The endpoint of a worker thread: its keys name rollouts, and their base models. A key carries a signature of this endpoint, which
 * distinguishes the key of an ended rollout from an unknown one.
 */
import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { unauthorized } from "../serve/errors.js";
import type { ServedModel } from "../serve/model.js";
import { type Endpoint, openEndpoint } from "../serve/server.js";
import { answerLocally } from "./local.js";
import { rolloutEnded } from "./rollout-model.js";

export class Host {
  readonly #secret = randomBytes(32);
  readonly #live = new Map<string, ServedModel>();
  #endpoint: Endpoint | undefined;
  #stopLocal: () => void = () => undefined;
  #keys = 0;
  /** Requests whose key is no rollout's. */
  strangers = 0;

  /** At any free port of loopback. */
  static async open(): Promise<Host> {
    const host = new Host();
    host.#endpoint = await openEndpoint({
      port: 0,
      apiKey: undefined,
      models: [],
      modelOfKey: (key) => host.#find(key),
    });
    host.#stopLocal = answerLocally(host.#endpoint.fetch);
    return host;
  }

  get url(): string {
    return (this.#endpoint as Endpoint).url;
  }

  /** @returns the key under which it is reached until `remove` */
  add(model: ServedModel): string {
    const number = String(this.#keys++);
    const key = `hone-${number}-${this.#mark(number)}`;
    this.#live.set(key, model);
    return key;
  }

  remove(key: string): void {
    this.#live.delete(key);
  }

  #mark(number: string): string {
    return createHmac("sha256", this.#secret).update(number).digest("hex");
  }

  /** @throws ApiError: 401 for a key that never was, 410 for one whose rollout has ended */
  #find(key: string): ServedModel {
    const model = this.#live.get(key);
    if (model) return model;
    const [, number, mark = ""] = /^hone-(\d+)-([0-9a-f]{64})$/.exec(key) ?? [];
    if (number === undefined || !timingSafeEqual(Buffer.from(mark), Buffer.from(this.#mark(number)))) {
      this.strangers++;
      throw unauthorized("the rollout's apiKey");
    }
    throw rolloutEnded();
  }

  async close(): Promise<void> {
    this.#stopLocal();
    await this.#endpoint?.close(0);
  }
}
