/** `hone doctor` on a null card, as a user starts it. */
import { afterEach, expect, it } from "vitest";
import { ensureLearnerPython } from "../support/python.js";
import { Machine, nameOf } from "./support.js";

let machine: Machine;
afterEach(() => machine.remove());

interface Report {
  readonly checks: readonly {
    readonly name: string;
    readonly state: string;
    readonly found: string;
    readonly mend?: string;
  }[];
}

async function doctor(...args: string[]) {
  const { code, stdout } = await machine.hone("doctor", "--json", "--learner", "peft", ...args);
  const { checks } = JSON.parse(stdout) as Report;
  return { code, of: (name: string) => checks.find((check) => check.name === name) };
}

it("engine and learner load on one card, an update is compiled and made, and the engine loads the new adapter", async () => {
  // What nothing computes is 0 then, and not what another tensor has left there: the learner looks at its update.
  machine = new Machine(["4090"], { env: { PYTORCH_NO_CUDA_MEMORY_CACHING: "1" } });
  const { of } = await doctor();
  for (const name of ["gpu", "driver", "torch", "compiler", "cuda", "rollouts"])
    expect([name, of(name)?.state]).toEqual([name, "ok"]);
  expect(of("rollouts")?.found).toContain(nameOf("4090"));
  // Nothing was computed, so the numbers are wrong, and nothing else is.
  expect(of("update")?.found).toMatch(new RegExp(`^${nameOf("4090")}, f16; .*updated in .* nats from the engine$`));
  expect(of("adapter")?.found).toContain("on the engine after sleep and wake");
  const learner = machine.counted().find((one) => Number(one["modules loaded"]) > 0);
  expect(learner?.["launch direct"]).toBeGreaterThan(1000);
  const whats = machine.counted().flatMap((one) => Object.keys(one));
  expect(whats.filter((what) => /^launch refused|^OUT OF MEMORY|^unimplemented cudnn/.test(what))).toEqual([]);
});

it("a driver that is too old", async () => {
  machine = new Machine(["4090"], { driver: "470.256.02", cuda: 11040 });
  const { code, of } = await doctor();
  expect(code).toBe(1);
  expect(of("driver")?.state).toBe("wrong");
  expect(of("driver")?.found).toContain("the NVIDIA driver 470.256.02 is too old");
  expect(of("driver")?.mend).toContain("install a newer NVIDIA driver");
  expect(machine.count("launch direct")).toBe(0);
});

it("a PyTorch for the CPU beside a card: the engine's part is ok, the learner's is wrong", async () => {
  machine = new Machine(["3060"]);
  const { code, of } = await doctor("--python", await ensureLearnerPython());
  expect(code).toBe(1);
  for (const name of ["gpu", "driver"]) expect([name, of(name)?.state]).toEqual([name, "ok"]);
  expect(of("torch")?.state).toBe("wrong");
  expect(of("torch")?.found).toContain(`there is 0 ${nameOf("3060")}`);
  expect(of("update")?.state).not.toBe("ok");
});
