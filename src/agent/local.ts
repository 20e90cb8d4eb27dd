/** Requests by `fetch` of this thread's code to its own endpoints are answered without a connection. */
import type { LocalFetch } from "../serve/local-fetch.js";

const endpoints = new Set<LocalFetch>();
let installed = false;

function install(): void {
  const { fetch } = globalThis;
  // Node's own has the same name and length.
  globalThis.fetch = Object.defineProperty(
    (...args: Parameters<typeof fetch>) => {
      for (const endpoint of endpoints) {
        const answer = endpoint(...args);
        if (answer) return answer;
      }
      return fetch(...args);
    },
    "name",
    { value: "fetch" },
  );
}

/** @returns a function that ends it */
export function answerLocally(endpoint: LocalFetch): () => void {
  if (!installed) install();
  installed = true;
  endpoints.add(endpoint);
  return () => endpoints.delete(endpoint);
}
