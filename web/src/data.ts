/** The state of the page's runs, updated as data arrives. */
import { createContext } from "preact";
import { useContext, useEffect, useState } from "preact/hooks";
import type { Row } from "../../src/insight/view/wire.js";
import { type Data, Follower, type Run, type Source } from "./follow.js";

export type { Run } from "./follow.js";

export const DataContext = createContext<Data | null>(null);

export function useData(): Data {
  const data = useContext(DataContext);
  if (!data) throw new Error("no data");
  return data;
}

export function useSource(source: Source): Data {
  const [data, show] = useState<Data>({ source, runs: [], failure: null, lost: false });
  useEffect(() => {
    const follower = new Follower(source, show);
    void follower.start();
    return () => follower.end();
  }, [source]);
  return data;
}

/** Why a rollout may be missing: rows are still loading, or failed to load. null when all are here. */
export function missingRows({ complete, failure }: Run): string | null {
  if (complete) return null;
  return failure === null ? "reading rollouts …" : "not all rollouts of this run could be read";
}

/** Rows of each group of a step, in order; groups are of one phase. */
export function groupsOf(rows: readonly Row[]): { scenario: string; rows: Row[] }[] {
  const groups = new Map<string, Row[]>();
  for (const row of rows) {
    const group = groups.get(row.scenario);
    if (group) group.push(row);
    else groups.set(row.scenario, [row]);
  }
  return [...groups].map(([scenario, of]) => ({ scenario, rows: of }));
}
