/** Small components shared by several views. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { visible, words } from "./format.js";

/** Number of characters of a text rendered at first; a tool may return megabytes. */
const SHOWN = 4000;
const MORE = 100_000;

/** Untrusted text, shown as text. */
export function Plain({ text, limit = SHOWN }: { readonly text: string; readonly limit?: number }) {
  const [shown, setShown] = useState(limit);
  const left = text.length - shown;
  return (
    <>
      <pre class="text">{visible(text.slice(0, shown))}</pre>
      {left > 0 && (
        <button type="button" class="more" onClick={() => setShown(shown + MORE)}>
          {left.toLocaleString("en-US")} more characters
        </button>
      )}
    </>
  );
}

export function Solved({ success }: { readonly success: boolean }) {
  return <span class={success ? "solved" : "unsolved"}>{success ? "✓ solved" : "✗ not solved"}</span>;
}

export function EndBadge({ end }: { readonly end: string }) {
  return <span class={end === "answered" ? "end" : "end other"}>{words(end)}</span>;
}

/** Counts as a stacked bar. */
export function Parts({
  of,
  order,
}: {
  readonly of: Readonly<Record<string, number>>;
  readonly order: readonly string[];
}) {
  const entries = order.flatMap((name, tone) => (of[name] ? [{ name, tone, n: of[name] as number }] : []));
  const total = entries.reduce((sum, { n }) => sum + n, 0);
  const text = entries.map(({ name, n }) => `${words(name)} ${n}`).join(", ");
  return (
    <span class="bar" role="img" aria-label={text || "none"} title={text}>
      {entries.map(({ name, tone, n }) => (
        <i
          key={name}
          class={name === "answered" || name === "trainable" ? "good" : `tone-${tone % 6}`}
          style={{ width: `${(100 * n) / total}%` }}
        />
      ))}
    </span>
  );
}

/** A signed value as a bar to the left or right of the centre. */
export function Signed({ value, most }: { readonly value: number | null; readonly most: number }) {
  if (value === null) return <span class="signed" />;
  const width = `${(50 * Math.min(1, Math.abs(value) / (most || 1))).toFixed(1)}%`;
  return (
    <span class="signed">
      <i class={value < 0 ? "minus" : "plus"} style={value < 0 ? { right: "50%", width } : { left: "50%", width }} />
    </span>
  );
}

/** A link to a neighbour, if there is one. */
export function Beside({
  to,
  rel,
  children,
}: {
  readonly to: string | undefined;
  readonly rel: "prev" | "next";
  readonly children: ComponentChildren;
}) {
  if (to === undefined) return null;
  return (
    <a href={to} rel={rel}>
      {children}
    </a>
  );
}
