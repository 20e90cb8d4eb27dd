/** Records of older versions, as those of today: what was not recorded then, and what had another name. */
import type { RunRecord, StepMetricsRow } from "./records.js";

export const readOptions = (written: RunRecord["options"]): RunRecord["options"] => written;

/**
 * For rows of older versions: then every rollout was trained, no checkpoint had a probe, and there was one update per
 * step.
 */
const UNNOTED = {
  probe: null,
  groups_masked: 0,
  groups_refilled: 0,
  rollouts_masked: 0,
  importance_truncated: null,
  importance_masked: null,
  importance_ess: null,
  played: null,
  overflows: 0,
  rollouts_broken_off: 0,
  broken_off: {},
  groups_broken_off: 0,
  agent: {},
  success_low: null,
  success_high: null,
  reward_spread: null,
  spread_n: 0,
  clip_below: null,
  clip_above: null,
  probe_kl: null,
} satisfies Partial<StepMetricsRow>;

/** Present names of metrics by old ones. */
const RENAMED: Readonly<Record<string, keyof StepMetricsRow>> = { gap: "mismatch", groups_lost: "groups_no_verdict" };

/** `mismatch_kl` was called `kl` before mini-batches existed. */
type OldMetrics = Omit<StepMetricsRow, "updates" | "mismatch_kl"> & { readonly kl?: number | null };

export function readMetrics(written: Readonly<Record<string, unknown>> | null): StepMetricsRow | null {
  if (!written) return null;
  const renamed = Object.fromEntries(Object.entries(written).map(([name, value]) => [RENAMED[name] ?? name, value]));
  // `entropy` was that of the batch alone.
  if (!("entropy_trained" in renamed))
    Object.assign(renamed, { entropy: null, entropy_trained: renamed.entropy ?? null });
  const named = renamed as unknown as StepMetricsRow | OldMetrics;
  // In the order of writing.
  if ("mismatch_kl" in named) return { ...named, ...UNNOTED, ...named };
  const { kl = null, ...metrics } = named;
  return { ...UNNOTED, ...metrics, updates: metrics.skipped === null ? 1 : 0, mismatch_kl: kl };
}
