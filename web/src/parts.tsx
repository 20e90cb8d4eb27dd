/** Small components shared by several views. */

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { refused, visible, words } from "./format.js";

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

/** Colour of a count's name among others. */
export const toneOf = (name: string, place: number) =>
  name === "answered" || name === "trainable" ? "good" : `tone-${place % 6}`;

/** Counts as a stacked bar with its numbers. */
export function Parts({
  of,
  order,
}: {
  readonly of: Readonly<Record<string, number>>;
  readonly order: readonly string[];
}) {
  const entries = order.flatMap((name, place) => (of[name] ? [{ name, tone: toneOf(name, place), n: of[name] }] : []));
  const text = entries.map(({ name, n }) => `${refused(name)} ${n}`).join(", ");
  return (
    <span class="bar" role="img" aria-label={text || "none"} title={text}>
      {entries.map(({ name, tone, n }) => (
        <i key={name} class={tone} style={{ flexGrow: n }}>
          {n}
        </i>
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
