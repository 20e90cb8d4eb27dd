/** How the page comes to its runs, and follows one that is running. */
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import type { Row, Rows, RunView } from "../../src/insight/view/wire.js";
import { type Data, EVERY, Follower, type Source } from "../../web/src/follow.js";

type Phase = Row["phase"];

/** A server with runs of one rollout to a phase and step; counts, steps and revision follow from them. */
class FakeSource implements Source {
  readonly about = null;
  readonly asked: string[] = [];
  readonly #runs: { rows: Row[]; steps: number }[];
  /** Rows of these runs cannot be read. */
  broken: number[] = [];
  /** The page looks at all of it each time. */
  running = false;

  constructor(runs: number) {
    this.#runs = Array.from({ length: runs }, () => ({ rows: [], steps: 0 }));
  }

  add(run: number, phase: Phase, step: number): void {
    const { rows } = this.#runs[run] as { rows: Row[] };
    rows.push({ id: rows.length + 1, phase, step } as Row);
    rows.sort((a, b) => a.step - b.step);
  }

  commit(run: number, step: number): void {
    (this.#runs[run] as { steps: number }).steps = step;
  }

  #revision = (run: number) => `${this.#runs[run]?.rows.length}-${this.#runs[run]?.steps}`;

  revisions = async () => this.#runs.map((_, run) => this.#revision(run));
  runs = async () =>
    this.#runs.map(({ rows, steps }, id) => {
      const counts = rows.map(({ phase, step }) => ({ phase, step, n: 1 }));
      const committed = Array.from({ length: steps + 1 }, (_, step) => ({ step }));
      return {
        id,
        created: "2031",
        running: this.running,
        revision: this.#revision(id),
        steps: committed,
        counts,
      } as unknown as RunView;
    });
  rows = async (run: number, from: number): Promise<Rows> => {
    this.asked.push(`${run} from ${from}`);
    if (this.broken.includes(run)) throw new Error("row 7 is damaged");
    return { rows: (this.#runs[run]?.rows ?? []).filter(({ step }) => step >= from), questions: {}, next: null };
  };
  rollout = async () => null;
}

async function follow(source: Source) {
  let data: Data | undefined;
  const follower = new Follower(source, (now) => {
    data = now;
  });
  await follower.start();
  return {
    run: (id: number) => data?.runs[id],
    /** "phase step" of each row of a run. */
    rows: (id: number) => data?.runs[id]?.rows.map(({ phase, step }) => `${phase} ${step}`),
    look: () => vi.advanceTimersByTimeAsync(EVERY),
  };
}

describe("the live page", () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  it("gets the rollouts of the validation before training, which come while step 1 is committed", async () => {
    const source = new FakeSource(1);
    source.add(0, "train", 1);
    const page = await follow(source);
    source.commit(0, 1);
    await page.look();
    source.add(0, "validation", 0);
    source.add(0, "train", 2);
    await page.look();
    expect(page.rows(0)).toEqual(["validation 0", "train 1", "train 2"]);
    source.commit(0, 2);
    source.add(0, "train", 3);
    await page.look();
    // Of what stands as it stood nothing is asked for again.
    expect(source.asked).toEqual(["0 from 0", "0 from 0", "0 from 0", "0 from 1"]);
  });

  it("follows a healthy run beside one whose rollouts cannot be read, and says why those are missing", async () => {
    const source = new FakeSource(2);
    source.add(0, "train", 1);
    source.add(1, "train", 1);
    source.broken = [0];
    const page = await follow(source);
    expect(page.run(0)).toMatchObject({ complete: false, failure: "row 7 is damaged" });
    expect(page.run(1)).toMatchObject({ complete: true, failure: null });
    for (const run of [0, 1]) {
      source.commit(run, 1);
      source.add(run, "train", 2);
    }
    await page.look();
    expect(page.rows(1)).toEqual(["train 1", "train 2"]);
    // Its figures need no rollouts.
    expect(page.run(0)?.view.steps).toHaveLength(2);
  });

  it("keeps the list of steps of a running run to which nothing was added", async () => {
    const source = new FakeSource(1);
    source.running = true;
    const page = await follow(source);
    const first = page.run(0)?.view;
    await page.look();
    expect(page.run(0)?.view).not.toBe(first);
    expect(page.run(0)?.view.steps).toBe(first?.steps);
    source.commit(0, 1);
    await page.look();
    expect(page.run(0)?.view.steps).toHaveLength(2);
  });

  it("asks again for rows that one answer failed to bring", async () => {
    const source = new FakeSource(1);
    source.add(0, "train", 1);
    const page = await follow(source);
    source.commit(0, 1);
    source.add(0, "train", 2);
    source.broken = [0];
    await page.look();
    expect(page.run(0)).toMatchObject({ complete: false, failure: "row 7 is damaged" });
    source.broken = [];
    await page.look();
    expect(page.run(0)).toMatchObject({ complete: true, failure: null });
    expect(page.rows(0)).toEqual(["train 1", "train 2"]);
    const asked = source.asked.length;
    await page.look();
    expect(source.asked).toHaveLength(asked);
  });
});
