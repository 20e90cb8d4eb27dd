// Workers are terminated in mid-decode while the main thread goes on playing. A process of its own, started by
// workers.test.ts: if anything dies, it is this one. Prints what became of the main thread's sequences, as JSON.
import { once } from "node:events";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";

const start = Int32Array.from(Buffer.from("the same prompt for all "));

async function main() {
  const options = JSON.parse(process.argv[2]);
  const { loadEngine } = await import(options.door);
  const engine = await loadEngine(options.engine);
  const played = [];
  let over = false;
  const play = async () => {
    while (!over) {
      const sequence = engine.open(start);
      const turn = { maxTokens: options.tokens, sampling: { seed: played.length }, stop: [] };
      const { tokens, logprobs, stop } = await sequence.generate(turn);
      played.push({ tokens, logprobs, stop });
      sequence.close();
    }
  };
  const player = play();
  // A slow device needs longer for a turn than so many workers live: more of them end beside the main thread's turns.
  for (let done = 0; done < options.workers || played.length < 2; done += options.atOnce) {
    const workers = Array.from(
      { length: options.atOnce },
      (_, index) => new Worker(new URL(import.meta.url), { workerData: { ...options, seed: done + index } }),
    );
    await Promise.all(workers.map((worker) => once(worker, "message")));
    await Promise.all(
      workers.map(async (worker, index) => {
        await new Promise((resolve) => setTimeout(resolve, options.step * ((done + index) % 10)));
        await worker.terminate();
      }),
    );
  }
  over = true;
  await player;
  let worst = 0;
  for (const { tokens, logprobs } of played.slice(-20)) {
    const scored = await engine.score(Int32Array.of(...start, ...tokens), { from: start.length });
    for (let i = 0; i < scored.length; i++) worst = Math.max(worst, Math.abs(scored[i] - logprobs[i]));
  }
  const stops = [...new Set(played.map(({ stop }) => stop))];
  const { sequences } = engine.stats();
  await engine.close();
  process.stdout.write(JSON.stringify({ stops, worst, sequences }));
}

async function worker() {
  const { loadEngine } = await import(workerData.door);
  const engine = await loadEngine(workerData.engine);
  for (const sequence of engine.openGroup(start, workerData.members)) {
    sequence.generate({ maxTokens: 400, sampling: { seed: workerData.seed }, stop: [] });
  }
  parentPort.postMessage("begun");
}

await (isMainThread ? main() : worker());
