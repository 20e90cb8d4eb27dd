/** The order, the time and the one file of `yarn gpu-check`, with a runner of sections that runs none. */
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { NOT_COUNTABLE } from "../../bench/gpu-check/context.js";
import { cards, expectedDecode } from "../../bench/gpu-check/estimates.js";
import { type Hour, type Planned, runHour } from "../../bench/gpu-check/hour.js";
import { linesOf } from "../../bench/gpu-check/lines.js";
import { MINUTES, plan } from "../../bench/gpu-check/plan.js";
import { type Checked, type Key, type Outcome, Results, withoutFolders } from "../../bench/gpu-check/results.js";
import { runSection } from "../../bench/gpu-check/run-section.js";
import { packageRoot } from "../../src/core/util/paths.js";

const folders: string[] = [];
afterAll(() => {
  for (const folder of folders) rmSync(folder, { recursive: true });
});
const newFolder = () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-hour-"));
  folders.push(folder);
  return folder;
};

const key: Key = {
  device: "cuda",
  small: false,
  standIn: false,
  hardware: { cpu: "a CPU", cores: 16, memoryGB: 64, gpu: "NVIDIA GeForce RTX 4090", system: "linux x64 6.8" },
  versions: { hone: "0.1.0", commit: "0123abcd" },
};

const section = (name: string) => ({ name, about: name, run: () => Promise.resolve() });
const planned = (name: string, least = 1, most = 5): Planned => ({ section: section(name), least, most });

/** A command whose sections take as many minutes as `takes` says, and end as `ends` says; "kill" ends the command itself. */
class Command {
  readonly ran: [name: string, minutes: number][] = [];
  readonly said: string[] = [];
  readonly results: Results;
  #clock = 0;

  constructor(
    folder: string,
    readonly ends: Readonly<Record<string, Outcome | "kill">> = {},
    readonly takes: Readonly<Record<string, number>> = {},
    of = key,
  ) {
    this.results = new Results(of, folder);
  }

  run(plan: readonly Planned[], more: Partial<Hour> = {}): Promise<void> {
    return runHour({
      plan,
      results: this.results,
      minutes: 60,
      again: false,
      log: (line) => this.said.push(line),
      now: () => this.#clock * 60_000,
      run: ({ name }, minutes) => {
        this.ran.push([name, minutes]);
        this.#clock += this.takes[name] ?? 1;
        const end = this.ends[name] ?? { state: "done", seconds: 60 };
        return end === "kill" ? Promise.reject(new Error("killed")) : Promise.resolve(end);
      },
      ...more,
    });
  }

  get names(): string[] {
    return this.ran.map(([name]) => name);
  }

  get states(): Record<string, string> {
    const { sections } = JSON.parse(readFileSync(this.results.file, "utf8")) as Checked;
    return Object.fromEntries(Object.entries(sections).map(([name, { state }]) => [name, state]));
  }
}

describe("the order of an hour on a card", () => {
  it("is parity, both decoders, steps, learners, memory, the same task elsewhere; then what else there is", () => {
    const names = plan.map(({ section }) => section.name);
    expect(names).toEqual([
      ...["prepare", "parity", "speed-8", "speed-64", "speed-256", "step-2x4", "step-8x8", "step-32x8"],
      ...["update-peft", "update-unsloth", "memory", "update-heads", "task-hone", "task-trl", "task-unsloth"],
      ...["doctor", "kill", "speed-1.5b", "speed-7b-8", "contexts"],
    ]);
    const upTo = (name: string) => plan.slice(0, names.indexOf(name) + 1);
    expect(upTo("memory").reduce((sum, { most }) => sum + most, 0)).toBeLessThanOrEqual(MINUTES);
    for (const { least, most } of plan) expect(least).toBeLessThanOrEqual(most);
  });

  it("goes on after a section that failed, and says of each how it ended", async () => {
    const ends = {
      b: { state: "failed", problem: "no such card" },
      c: { state: NOT_COUNTABLE, problem: "it computes no numbers" },
    } as const;
    const command = new Command(newFolder(), ends);
    await expect(command.run(["a", "b", "c", "d"].map((name) => planned(name)))).rejects.toThrow(
      "1 of 4 sections did not end well",
    );
    expect(command.states).toEqual({ a: "done", b: "failed", c: NOT_COUNTABLE, d: "done" });
    expect(command.said).toContain("b: failed: no such card");
    expect(command.said).toContain(`c: ${NOT_COUNTABLE}: it computes no numbers`);
  });

  it("begins a section if its least time is left, gives it no more than is left, and leaves the others out", async () => {
    const command = new Command(newFolder(), {}, { a: 4, b: 4 });
    const sections = [planned("a", 1, 5), planned("b", 1, 9), planned("long", 3, 9), planned("short", 1, 9)];
    await expect(command.run(sections, { minutes: 10 })).rejects.toThrow("1 of 4 sections did not end well");
    expect(command.ran).toEqual([
      ["a", 5],
      ["b", 6],
      ["short", 2],
    ]);
    expect(command.results.now.sections.long).toEqual({
      state: "left out",
      problem: "2 minutes were left, and it needs 3 minutes",
    });
  });
});

describe("a command that was killed", () => {
  const sections = ["a", "b", "c"].map((name) => planned(name));

  it("goes on with the section in which it was, and repeats none that had ended", async () => {
    const folder = newFolder();
    const first = new Command(folder, { b: "kill" });
    await expect(first.run(sections)).rejects.toThrow("killed");
    expect(first.states).toEqual({ a: "done", b: "running" });
    const second = new Command(folder);
    await second.run(sections);
    expect(second.names).toEqual(["b", "c"]);
    expect(second.said).toContain("a: done before");
    expect(second.results.file).toBe(first.results.file);
    expect(second.states).toEqual({ a: "done", b: "done", c: "done" });
  });

  it("tries what failed again, after what had not begun", async () => {
    const folder = newFolder();
    const first = new Command(folder, { a: { state: "failed", problem: "no Unsloth" }, b: "kill" });
    await expect(first.run(sections)).rejects.toThrow("killed");
    const second = new Command(folder, { c: { state: NOT_COUNTABLE } });
    await second.run(sections);
    expect(second.names).toEqual(["b", "c", "a"]);
    const third = new Command(folder);
    await third.run(sections);
    expect(third.names).toEqual([]);
    await third.run(sections, { again: true });
    expect(third.names).toEqual(["a", "b", "c"]);
  });

  it("keeps why a section failed where there is no time to try it again", async () => {
    const folder = newFolder();
    const failed = { state: "failed", problem: "no Unsloth" } as const;
    await expect(new Command(folder, { a: failed }).run([planned("a")])).rejects.toThrow("1 of 1");
    const second = new Command(folder);
    await expect(second.run([planned("a", 2)], { minutes: 1 })).rejects.toThrow("1 of 1");
    expect(second.results.now.sections.a).toEqual(failed);
  });

  it("begins another file on other hardware, with other versions, and at another commit", async () => {
    const folder = newFolder();
    await new Command(folder).run(sections);
    for (const other of [
      { ...key, hardware: { ...key.hardware, cores: 8 } },
      { ...key, versions: { ...key.versions, torch: "2.14.0" } },
      { ...key, versions: { ...key.versions, commit: "4567cdef" } },
    ]) {
      const command = new Command(folder, {}, {}, other);
      await command.run(sections);
      expect(command.names).toEqual(["a", "b", "c"]);
    }
    const names = readdirSync(folder).map((name) => name.replace(/\d{4}-\d\d-\d\d/, "DATE"));
    const card = "cuda-DATE-nvidia-geforce-rtx-4090";
    expect(names.sort()).toEqual(["-2", "-3", "-4", ""].map((part) => `${card}${part}.json`));
  });

  it("goes on with yesterday's file, beside results of another kind", async () => {
    const folder = newFolder();
    const first = new Command(folder);
    await first.run(sections.slice(0, 1));
    const yesterday = join(folder, "cuda-2026-11-26-nvidia-geforce-rtx-4090.json");
    writeFileSync(yesterday, readFileSync(first.results.file));
    writeFileSync(first.results.file, JSON.stringify({ what: "a run by hand", hardware: key.hardware }));
    const second = new Command(folder);
    await second.run(sections);
    expect([second.results.file, second.names]).toEqual([yesterday, ["b", "c"]]);
  });
});

describe("the file of an hour", () => {
  it("names no folder of the user's", () => {
    const text = withoutFolders(`${packageRoot}/build, ${join(tmpdir(), "x")}, ${join(homedir(), "runs")}`);
    expect(text).not.toContain(homedir());
    expect(text).toBe("HONE/build, TMP/x, HOME/runs");
  });

  it("is another kind of file for a rehearsal, whose figures mean nothing", () => {
    for (const other of [{ small: true }, { standIn: true }, { device: "cpu" as const }]) {
      expect(new Results({ ...key, ...other }, newFolder()).file).toContain("gpu-check-rehearsal-");
    }
  });

  it("says of a section's process that was cut off, or that ended without a word, that it failed", async () => {
    const results = join(newFolder(), "results.json");
    const asked = { results, gpu: false, small: true } as const;
    // The process needs longer to start.
    const late = await runSection({ ...asked, section: section("parity"), minutes: 0.0001 });
    expect(late).toMatchObject({ state: "failed", problem: "cut off after 0 minutes" });
    const unknown = await runSection({ ...asked, section: section("unknown"), minutes: 1 });
    expect(unknown).toEqual({ state: "failed", problem: "it ended with code 1" });
    expect(existsSync(results)).toBe(false);
  });
});

describe("what a card did", () => {
  const speeds = { context: 1024, decoder: "llama", played: "llama", lanes: 1 } as const;
  const memory = { planned: 8e9, measured: 6e9 };
  const known: Checked = {
    what: "yarn gpu-check",
    began: "2026-11-28T12:00:00.000Z",
    ...key,
    sections: {
      parity: { state: "done", rows: [{ adapter: "with", decoder: "own", mean: 0.004 }] } as Outcome,
      "speed-8": {
        state: "done",
        rows: [
          { traffic: "decode", sequences: 8, ...speeds, withoutAdapter: [1900, 2100], withAdapter: [1100, 1100] },
          { traffic: "agents", sequences: 8, ...speeds, decoder: "own", withoutAdapter: [900], withAdapter: [800] },
        ],
        llamaBatchedBench: { 8: 2500 },
      } as Outcome,
      "step-8x8": {
        state: "done",
        steps: [{ seconds: { update: 45 } }, { seconds: { update: 1.5 } }],
      } as Outcome,
      memory: {
        state: "done",
        rows: [{ learnerLifetime: "offload", learner: { planned: null, measured: null }, card: memory }],
      } as Outcome,
      "update-unsloth": { state: "failed", problem: "Unsloth is not installed" },
      "update-heads": {
        state: "done",
        rows: [{ keys: "for each head", kept: true, update: { seconds: 0.4, firstSeconds: 8 } }],
      } as Outcome,
    },
  };

  it("is a line for each figure, with what was expected of that card", () => {
    const lines = linesOf(known);
    expect(lines).toContain(
      "parity: own from the CPU, with an adapter: 0.004 nats; 0.01 are 16-bit sums, a ratio of 0.4",
    );
    expect(lines).toContain("decode 8, llama: 2000 tokens/s; 2500 by llama-batched-bench, a ratio of 0.8");
    expect(lines).toContain("decode 8, llama, adapter: 1100 tokens/s; 2179 counted for a RTX 4090, a ratio of 0.505");
    // Another decoder played than the one asked for.
    expect(lines).toContain("agents 8, own (llama played), adapter: 800 tokens/s");
    expect(lines).toContain("step-8x8: update: 1.5 s");
    expect(lines).toContain("memory of the card, --learner-lifetime offload: 6 GB; 8 planned, a ratio of 0.75");
    expect(lines).toContain("update with keys for each head: 0.4 s");
    expect(lines).toContain("update with keys for each head, the first, of code that was kept: 8 s");
    expect(lines.filter((line) => /Unsloth|NaN|learner, /.test(line))).toEqual([]);
  });

  it("is compared with no counts of another card, or where shapes are tiny", () => {
    const other = { ...known, hardware: { ...known.hardware, gpu: "NVIDIA GeForce GTX 1660" } };
    for (const one of [other, { ...known, small: true }]) {
      expect(linesOf(one)).toContain("decode 8, llama, adapter: 1100 tokens/s");
    }
  });

  it("is compared with the frozen counts of each card that was counted for: more of more sequences", () => {
    for (const card of cards.filter(({ title }) => title !== "RTX 3090" && title !== "H200")) {
      const decode = expectedDecode(card);
      const speeds = [0, ...[1, 8, 64].map((sequences) => decode.get(sequences) ?? 0)];
      expect([card.title, speeds]).toEqual([card.title, [...new Set(speeds)].sort((a, b) => a - b)]);
    }
  });
});
