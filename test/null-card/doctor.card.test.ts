/** `hone doctor` on a null card, as a user starts it, where something is wrong that it must name. */
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
