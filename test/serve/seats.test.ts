import { expect, test } from "vitest";
import type { Sequence } from "../../src/core/engine/sequence.js";
import { Seats } from "../../src/serve/seats.js";

test("of idle sequences no more are kept than were asked for, those used last", () => {
  const closed: string[] = [];
  const sequence = (name: string) => ({ close: () => closed.push(name) }) as unknown as Sequence;
  const seats = new Seats<string>(16, 48, 1);
  const second = sequence("b");
  seats.keep("a", sequence("a"));
  seats.keep("b", second);
  expect(closed).toEqual(["a"]);
  expect(seats.take("b")).toBe(second);
  expect(seats.counts.idle).toBe(0);
});
