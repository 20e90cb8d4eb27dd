import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { HoneError } from "../../src/core/util/errors.js";
import { tryLock, withLock } from "../../src/core/util/lock.js";

it("work under one lock waits for the work before it, and says so once", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "hone-lock-")), "lock");
  const events: string[] = [];
  let finishFirst = () => {};
  const first = withLock(
    file,
    () => events.push("first waits"),
    () =>
      new Promise<void>((resolve) => {
        events.push("first begins");
        finishFirst = resolve;
      }),
  );
  const second = withLock(
    file,
    () => events.push("second waits"),
    async () => void events.push("second begins"),
  );
  expect(events).toEqual(["first begins", "second waits"]);
  events.push("first ends");
  finishFirst();
  await Promise.all([first, second]);
  expect(events).toEqual(["first begins", "second waits", "first ends", "second begins"]);
});

it("waiting ends with the signal, and the work is not begun", async () => {
  const file = join(mkdtempSync(join(tmpdir(), "hone-lock-")), "lock");
  const held = tryLock(file);
  const controller = new AbortController();
  let begun = false;
  const work = async () => {
    begun = true;
  };
  const interrupt = () => {
    controller.abort(new HoneError("interrupted"));
    // Without its end the wait would be over with the lock.
    setTimeout(() => held?.close(), 1000);
  };
  const waiting = withLock(file, interrupt, work, controller.signal);
  await expect(waiting).rejects.toThrow("interrupted");
  await expect(withLock(`${file}-free`, () => undefined, work, controller.signal)).rejects.toThrow("interrupted");
  expect(begun).toBe(false);
});
