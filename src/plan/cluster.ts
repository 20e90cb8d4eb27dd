/** `--cards`: the machines and cards that a step is planned for. */
import { nearest, UsageError } from "../util/index.js";
import type { Assumptions } from "./assumptions.js";
import { soldCards } from "./sold.js";

/** What computes, as the arithmetic takes it: rates of the maker, or measured ones of a CPU. Bytes and operations a second. */
export interface Device {
  readonly title: string;
  readonly kind: "cuda" | "cpu";
  /** GiB; null: the machine's. */
  readonly memory: number | null;
  readonly bandwidth: number;
  /** Products in the precision of the weights, and in f32. */
  readonly products: number;
  readonly f32: number;
  /** To the host, and to another card of the machine. */
  readonly bus: number;
  readonly link: number;
  readonly source: string;
}

export interface Cluster {
  readonly machines: number;
  /** Cards of each machine. */
  readonly cards: number;
  readonly device: Device;
}

const FORM = /^(?:(\d{1,4})x)?(?:(\d{1,2})x)?([a-z0-9][a-z0-9-]*)$/;

export const isCpu = (text: string): boolean => text.trim().toLowerCase() === "cpu";

const HELP = "give CARD, COUNTxCARD or MACHINESxCOUNTxCARD, as 2x8xh100-80gb";

/**
 * "4090", "4xa100-80gb", "2x8xh100-80gb" (machines, cards of each), "cpu".
 *
 * @throws UsageError for anything else, and for a CPU whose rates are not given
 */
export function readCluster(text: string, { cpuBandwidth, cpuProducts }: Assumptions): Cluster {
  const [, first, second, name = ""] = FORM.exec(text.trim().toLowerCase()) ?? [];
  if (name === "" || /^\d+x/.test(name)) throw new UsageError(`--cards: "${text}" is not accepted; ${HELP}`);
  const [machines, cards] = second === undefined ? [1, Number(first ?? 1)] : [Number(first), Number(second)];
  if (machines < 1 || cards < 1) throw new UsageError(`--cards ${text}: a number of cards is at least 1; ${HELP}`);
  if (name === "cpu") {
    if (machines * cards > 1) throw new UsageError("--cards: a run computes on one CPU; give --cards cpu");
    if (cpuBandwidth === 0 || cpuProducts === 0) {
      throw new UsageError(
        "--cards cpu: no datasheet says what a CPU reaches; give what it was measured at, bytes of memory and operations in f32 a second: --assume cpu-bandwidth=2e10 --assume cpu-products=1e11",
      );
    }
    const rates = { bandwidth: cpuBandwidth, products: cpuProducts, f32: cpuProducts, bus: cpuBandwidth };
    const device = {
      title: "CPU",
      kind: "cpu",
      memory: null,
      ...rates,
      link: cpuBandwidth,
      source: "--assume",
    } as const;
    return { machines: 1, cards: 1, device };
  }
  const sold = soldCards.find((one) => one.name === name);
  if (!sold) {
    const names = [...soldCards.map((one) => one.name), "cpu"];
    const close = nearest(name, names);
    throw new UsageError(
      `--cards: no card is called ${name}; ${close ? `did you mean ${close}? ` : ""}there are ${names.join(", ")}`,
    );
  }
  const { title, memory, bandwidth, bf16, f32, bus, link, source } = sold;
  return {
    machines,
    cards,
    device: { title, kind: "cuda", memory, bandwidth, products: bf16, f32, bus, link, source: `NVIDIA, ${source}` },
  };
}

/** "2 machines with 8 × H100 80GB" */
export function clusterText({ machines, cards, device }: Cluster): string {
  if (device.kind === "cpu") return "this kind of CPU";
  const each = `${cards} × ${device.title}`;
  return machines === 1 ? each : `${machines} machines with ${each}`;
}
