/** The endpoint of a worker thread: its keys name rollouts, and their base models. */
import { randomBytes } from "node:crypto";
import { LRUCache } from "lru-cache";
import { unauthorized } from "../serve/errors.js";
import type { ServedModel } from "../serve/model.js";
import { openEndpoint } from "../serve/server.js";
import { answerLocally } from "./local.js";
import { rolloutEnded } from "./rollout-model.js";

/** Keys of rollouts that have ended, as many as are told apart from unknown ones. */
const MOST_ENDED = 10_000;

export type Host = Awaited<ReturnType<typeof openHost>>;

/** At any free port of loopback. */
export async function openHost() {
  const live = new Map<string, ServedModel>();
  const ended = new LRUCache<string, true>({ max: MOST_ENDED });
  let strangers = 0;
  /** @throws ApiError: 401 for a key that never was, 410 for one whose rollout has ended */
  const find = (key: string): ServedModel => {
    const model = live.get(key);
    if (model) return model;
    if (ended.has(key)) throw rolloutEnded();
    strangers++;
    throw unauthorized("the rollout's apiKey");
  };
  const endpoint = await openEndpoint({ port: 0, apiKey: undefined, models: [], modelOfKey: find });
  const stopLocal = answerLocally(endpoint.fetch);
  return {
    url: endpoint.url,
    /** Number of requests whose key is no rollout's. */
    strangers: () => strangers,
    /** @returns the key under which it is reached until `remove` */
    add: (model: ServedModel): string => {
      const key = `hone-${randomBytes(32).toString("hex")}`;
      live.set(key, model);
      return key;
    },
    remove: (key: string): void => {
      live.delete(key);
      ended.set(key, true);
    },
    close: async (): Promise<void> => {
      stopLocal();
      await endpoint.close(0);
    },
  };
}
