/** An agent with set-up and tear-down, which behave as their scenario's question says. */
import { defineTask, type Scenario } from "@hone-rl/hone";

/** Fixtures that are set up and not torn down. */
const open = new Set<string>();

export default defineTask({
  name: "prepared",
  scenarios: (): Scenario[] => [],
  setUp: async ({ scenario, seed, index, step, logger, run }) => {
    logger.info("set up %s", JSON.stringify({ seed, index, step }));
    if (scenario.question === "set-up fails") throw new Error("no room");
    if (scenario.question === "set-up rejects with nothing") await new Promise((_, reject) => setTimeout(reject));
    if (scenario.question === "set-up waits for ever") await new Promise(() => undefined);
    // Ends with the rollout, not with its set-up.
    void run("sh", ["-c", "echo service; exec sleep 1000"]).catch(() => undefined);
    const name = `${scenario.id}/${index}`;
    open.add(name);
    return { name };
  },
  tearDown: async ({ scenario, fixture, logger, run, signal }) => {
    open.delete(fixture.name);
    const { stdout } = await run("sh", ["-c", "echo $OPENAI_API_KEY | cut -c1-5"]);
    logger.warn("torn down", fixture.name, stdout.trim(), signal.aborted);
    if (scenario.question === "tear-down fails") throw new Error("cannot remove it");
  },
  rollout: async ({ scenario, fixture, seed, index, step, logger, baseUrl, apiKey }) => {
    logger.debug("plays", fixture.name, { seed, index, step }, open.has(fixture.name));
    await fetch(`${baseUrl}/chat/completions`, {
      method: "POST",
      headers: { authorization: `Bearer ${apiKey}` },
      body: JSON.stringify({ model: "any", messages: [{ role: "user", content: "Hello" }], max_tokens: 2 }),
    });
    if (scenario.question === "rejects with nothing") await new Promise((_, reject) => setTimeout(reject));
    if (scenario.question === "throws") throw new Error("the agent's own");
    return 0.5;
  },
});
