/** What is remembered of conversations, and for how long; and who may sample. */
import { expect, test } from "vitest";
import type { Sequence } from "../../src/core/engine/sequence.js";
import type { ChatMessage } from "../../src/core/task/task.js";
import { canonical } from "../../src/serve/messages.js";
import { idsOf, type Point, Recorder } from "../../src/serve/recorder.js";
import { Seats } from "../../src/serve/seats.js";

const user = (content: string): ChatMessage => ({ role: "user", content });
const assistant = (content: string): ChatMessage => ({ role: "assistant", content });

function remembering(bounds?: { tokens: number; points: number }) {
  const forgotten: Point[] = [];
  const recorder = new Recorder((point) => forgotten.push(point), bounds);
  let token = 0;
  /** Answers a conversation with a turn of so many tokens. */
  const answer = (messages: ChatMessage[], said: ChatMessage, tokens = 2, scope = "") => {
    const { point, key, rewritten } = recorder.find(messages, [], scope);
    const ids = Int32Array.from({ length: tokens }, () => token++);
    return recorder.add(
      {
        asked: key,
        parent: point,
        ids,
        opening: point?.opening ?? messages.length,
        closed: true,
        calls: 0,
        rewritten: (point?.rewritten ?? 0) + rewritten,
      },
      said,
    );
  };
  return { recorder, forgotten, answer };
}

test("a conversation goes on from its last sampled turn", () => {
  const { recorder, answer } = remembering();
  const first = answer([user("a")], assistant("b"));
  const second = answer([user("a"), assistant(" b\n"), user("c")], assistant("d"));
  expect(second.parent).toBe(first);
  expect(idsOf(second)).toEqual([0, 1, 2, 3]);
  const found = recorder.find([user("a"), assistant("b"), user("c"), assistant("d"), user("e")], [], "");
  expect(found).toMatchObject({ point: second, next: [user("e")], rewritten: 0 });
  // From an earlier turn it goes on otherwise, and that is no rewriting.
  expect(recorder.find([user("a"), assistant("b"), user("x")], [], "")).toMatchObject({ point: first, rewritten: 0 });
});

test("another turn in the place of a sampled one is rewritten, wherever it stands; other conversations are not", () => {
  const { recorder, answer } = remembering();
  const first = answer([user("a")], assistant("b"));
  answer([user("a"), assistant("b"), user("c")], assistant("d"));
  const found = recorder.find([user("a"), assistant("b"), user("c"), assistant("D"), user("e")], [], "");
  expect(found).toMatchObject({ point: first, rewritten: 1 });
  expect(found.next).toHaveLength(3);
  expect(recorder.find([user("a"), assistant("B"), user("c")], [], "")).toMatchObject({ point: null, rewritten: 1 });
  expect(recorder.find([user("z"), assistant("b"), user("c")], [], "")).toMatchObject({ point: null, rewritten: 0 });
  const tool = { type: "function", function: { name: "t", description: "", parameters: {} } } as const;
  expect(recorder.find([user("a"), assistant("b")], [tool], "")).toMatchObject({ point: null, rewritten: 0 });
});

test("scopes never meet", () => {
  const { recorder, answer } = remembering();
  const mine = answer([user("a")], assistant("b"), 2, "mine");
  expect(recorder.find([user("a"), assistant("b")], [], "mine").point).toBe(mine);
  expect(recorder.find([user("a"), assistant("b")], [], "yours")).toMatchObject({ point: null, rewritten: 0 });
});

test("calls are the same whatever the order of their keys, and others by id, name or value", () => {
  const { recorder, answer } = remembering();
  const calling = (args: Record<string, unknown>, id = "1"): ChatMessage => ({
    role: "assistant",
    content: "",
    tool_calls: [{ id, name: "f", arguments: args }],
  });
  const point = answer([user("a")], calling({ x: 1, y: { b: [2, 1], a: null } }));
  const found = (message: ChatMessage) => recorder.find([user("a"), message], [], "").point;
  expect(found(calling({ y: { a: null, b: [2, 1] }, x: 1 }))).toBe(point);
  expect(found(calling({ x: 1, y: { b: [1, 2], a: null } }))).toBeNull();
  expect(found(calling({ x: 1, y: { b: [2, 1], a: null } }, "2"))).toBeNull();
  expect(canonical({ b: 1, a: [{ d: 1, c: 2 }] })).toBe('{"a":[{"c":2,"d":1}],"b":1}');
});

test("what was used longest ago is forgotten, a conversation from its end", () => {
  const { recorder, forgotten, answer } = remembering({ tokens: 100, points: 3 });
  const first = answer([user("a")], assistant("b"));
  const second = answer([user("a"), assistant("b"), user("c")], assistant("d"));
  answer([user("x")], assistant("y"));
  answer([user("p")], assistant("q"));
  expect(forgotten).toEqual([second]);
  // Used again, it stays longer than what came after it.
  expect(recorder.find([user("a"), assistant("b"), user("c")], [], "").point).toBe(first);
  answer([user("r")], assistant("s"));
  expect(recorder.find([user("a"), assistant("b"), user("c")], [], "").point).toBe(first);
  expect(recorder.find([user("x"), assistant("y"), user("c")], [], "")).toMatchObject({ point: null, rewritten: 0 });
  answer([user("long")], assistant("one"), 97);
  expect(recorder.size.tokens).toBeLessThanOrEqual(100);
});

const sequence = () => {
  const made = {
    closed: false,
    close() {
      made.closed = true;
    },
  };
  return made as unknown as Sequence & { closed: boolean };
};

test("so many run as there are seats, in their order, and whoever leaves the queue is not waited for", async () => {
  const seats = new Seats<string>(2, 2);
  const order: number[] = [];
  const ends: (() => void)[] = [];
  const work = (number: number) => () => {
    order.push(number);
    return new Promise<void>((resolve) => ends.push(resolve));
  };
  const signal = new AbortController().signal;
  const leaving = new AbortController();
  const [one, two] = [seats.run(signal, work(1)), seats.run(signal, work(2))];
  const three = seats.run(leaving.signal, work(3));
  const four = seats.run(signal, work(4));
  expect(seats.counts).toMatchObject({ running: 2, waiting: 2 });
  expect(() => seats.checkRoom(1)).toThrow(/queue is full/);
  leaving.abort(new Error("gone"));
  await expect(three).rejects.toThrow("gone");
  ends[0]?.();
  await one;
  expect(order).toEqual([1, 2, 4]);
  for (const end of ends) end();
  await Promise.all([two, four]);
  expect(seats.counts).toEqual({ running: 0, waiting: 0, idle: 0 });
});

test("idle sequences give way to running ones, the longest idle first", async () => {
  const seats = new Seats<string>(2, 2);
  const [a, b] = [sequence(), sequence()];
  const signal = new AbortController().signal;
  seats.keep("a", a);
  seats.keep("b", b);
  await seats.run(signal, async () => seats.makeRoom());
  expect([a.closed, b.closed]).toEqual([true, false]);
  expect(seats.take("b")).toBe(b);
  expect(seats.take("b")).toBeUndefined();
});

test("a client that rounds integers beyond 2^53 - 1 has not rewritten its history", () => {
  const { recorder, answer } = remembering();
  const calling = (order: unknown): ChatMessage => ({
    role: "assistant",
    content: "",
    tool_calls: [{ id: "1", name: "find", arguments: { order } }],
  });
  const first = answer([user("a")], calling(1234567890123456789n));
  const other = answer([user("a")], calling(1234567890123456788n));
  const found = (order: unknown) => recorder.find([user("a"), calling(order), user("b")], [], "");
  expect(found(1234567890123456789n).point).toBe(first);
  expect(found(1234567890123456788n).point).toBe(other);
  // JavaScript's JSON writes the rounded number so.
  expect(found(1234567890123456800n)).toMatchObject({ point: other, rewritten: 0 });
  expect(found(1234567890123456700n)).toMatchObject({ point: null, rewritten: 1 });
});
