import { setTimeout as delay } from "node:timers/promises";
import { expect, it } from "vitest";
import { withHeartbeat } from "../../src/engine/heartbeat.js";

it("repeats the stage of an installation that prints nothing, and ends with it", async () => {
  const lines: string[] = [];
  const result = await withHeartbeat(
    (line) => lines.push(line),
    async (onLine) => {
      onLine("installing torch");
      while (lines.length < 3) await delay(5);
      onLine("loading it");
      return "done";
    },
    20,
  );
  expect(result).toBe("done");
  expect(lines[0]).toBe("installing torch");
  for (const line of lines.slice(1, 3)) expect(line).toMatch(/^still installing torch \(\d+ s\)$/);
  expect(lines).toContain("loading it");
  const count = lines.length;
  await delay(60);
  expect(lines).toHaveLength(count);
});

it("ends when the installation fails", async () => {
  const lines: string[] = [];
  const failing = withHeartbeat(
    (line) => lines.push(line),
    async (onLine) => {
      onLine("installing torch");
      throw new Error("no luck");
    },
    20,
  );
  await expect(failing).rejects.toThrow("no luck");
  await delay(60);
  expect(lines).toEqual(["installing torch"]);
});
