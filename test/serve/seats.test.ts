import { expect, test } from "vitest";
import type { Sequence } from "../../src/engine/index.js";
import { Seats } from "../../src/serve/seats.js";

test("of sequences that rest no more are kept than were asked for, those used last", () => {
  const closed: string[] = [];
  const sequence = (name: string) => ({ close: () => closed.push(name) }) as unknown as Sequence;
  const seats = new Seats<string>(16, 48, 1);
  const second = sequence("b");
  seats.rest("a", sequence("a"));
  seats.rest("b", second);
  expect(closed).toEqual(["a"]);
  expect(seats.take("b")).toBe(second);
  expect(seats.counts.resting).toBe(0);
});
