/** Memory and sequences stay flat over thousands of requests of all kinds. */
import { expect, test } from "vitest";
import { ask, serveTiny } from "./support.js";

const ROUNDS = 10;
const REQUESTS = 1_000;

test("10,000 requests leave no memory and no sequence behind", async () => {
  // Fewer turns are remembered than there are requests, so that what is remembered has its bound all the time.
  const server = await serveTiny({ sequences: 4, context: 256, bounds: { tokens: 20_000, points: 500 } });
  const { client, model, engine } = server;
  let number = 0;
  const one = async () => {
    const index = number++;
    const messages = [{ role: "user" as const, content: `Number ${index % 2_000} ${"mail ".repeat(index % 40)}` }];
    const kind = index % 10;
    if (kind === 0) return void (await ask(client, { messages, n: 0 }).catch(() => undefined));
    if (kind === 1) {
      const gone = new AbortController();
      const body = { model: "tiny", messages, temperature: 9, max_tokens: 200, stream: true } as const;
      const stream = await client.chat.completions.create(body, { signal: gone.signal });
      await stream[Symbol.asyncIterator]().next();
      return gone.abort();
    }
    if (kind === 2)
      return void (await client.completions.create({ model: "tiny", prompt: `Number ${index}`, max_tokens: 2 }));
    const first = await ask(client, { messages, max_tokens: 3, seed: index, logprobs: kind === 3 });
    if (kind < 7) return;
    const again = first.choices[0]?.message ?? { role: "assistant" as const, content: "" };
    const said = kind === 9 ? { role: "assistant" as const, content: "Something else." } : again;
    await ask(client, { messages: [...messages, said, { role: "user", content: "And?" }], max_tokens: 2 });
  };
  const resident: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (let done = 0; done < REQUESTS; done += 20) await Promise.all(Array.from({ length: 20 }, one));
    globalThis.gc?.();
    resident.push(process.memoryUsage().rss / 2 ** 20);
    expect(model.recorder.size.points).toBeLessThanOrEqual(500);
    expect(model.recorder.size.tokens).toBeLessThanOrEqual(20_000);
    expect(model.seats.counts.idle).toBeLessThanOrEqual(4);
    expect(engine.stats().sequences.open).toBeLessThanOrEqual(4 + model.seats.counts.running);
  }
  console.log(`resident MiB after each 1,000 requests: ${resident.map((size) => size.toFixed(0)).join(" ")}`);
  // The second half grows by less than a page (4 KiB) a request: a leak of one conversation's tokens would be seen.
  const [middle, last] = [Math.max(...resident.slice(3, 6)), Math.min(...resident.slice(-3))];
  expect(last - middle).toBeLessThan((4 * 5 * REQUESTS) / 1024);
});
