/** One chart: lines with bands or error bars, a cursor shared by all charts, zoom by dragging, arrow keys. */
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import uPlot from "uplot";
import type { Run } from "./data.js";
import { go } from "./route.js";
import { besideStep, type ChartSpec, coincides, drawable, FEW, type Line, smooth } from "./series.js";

export interface Zoom {
  readonly from: number;
  readonly to: number;
}

interface Props {
  readonly spec: ChartSpec;
  readonly runs: readonly Run[];
  readonly smoothing: number;
  readonly zoom: Zoom | null;
  readonly onZoom: (zoom: Zoom | null) => void;
  /** Changes with the colours, to redraw. */
  readonly theme: string;
}

interface Drawn {
  readonly label: string;
  readonly colour: string;
  readonly line: Line;
  /** Index of its values in the plot's data. */
  readonly index: number;
  /** Its intervals are error bars: a band over few points would fill the chart. */
  readonly bars: boolean;
  /** The label of a line before it that has the same values. */
  readonly same: string | undefined;
}

const SYNC = "hone";
/** Height of a chart on top, and of one under "Diagnostics". */
const LARGE = 230;
const SMALL = 150;
/** Maximum movement in pixels of a click. */
const STILL = 4;

export const colourOf = (index: number) =>
  getComputedStyle(document.documentElement)
    .getPropertyValue(`--line-${index % 6}`)
    .trim();

const faint = (colour: string, share: string) => `color-mix(in srgb, ${colour} ${share}, transparent)`;

function build(spec: ChartSpec, runs: readonly Run[], smoothing: number) {
  const several = runs.length > 1;
  const all = runs.map((run) => ({
    run,
    lines: drawable(spec, run).filter(({ part }) => !(several && part)),
  }));
  const steps = [
    ...new Set(all.flatMap(({ lines }) => lines.flatMap(({ points }) => points.map(({ step }) => step)))),
  ].sort((a, b) => a - b);
  const place = new Map(steps.map((step, i) => [step, i]));
  const spread = (line: Line, values: readonly (number | null | undefined)[]): (number | null | undefined)[] => {
    // uPlot joins the points around undefined and leaves a gap at null; a step of another run only must not make a gap.
    const made: (number | null | undefined)[] = steps.map(() => undefined);
    line.points.forEach(({ step }, i) => {
      made[place.get(step) as number] = values[i];
    });
    return made;
  };
  const data: (number | null | undefined)[][] = [steps];
  const series: uPlot.Series[] = [{}];
  const bands: uPlot.Band[] = [];
  const drawn: Drawn[] = [];
  for (const [place, { run, lines }] of all.entries()) {
    for (const line of lines) {
      const colour = colourOf(several ? run.view.id : (line.tone ?? 0));
      const values = line.points.map(({ value }) => value);
      const name = lines.length > 1 ? `${run.view.name} ${line.name}` : run.view.name;
      const same = drawn.find((one) => coincides(line, one.line))?.label;
      // Over a line with the same values its own colour shows in turn with the other's.
      const dashes = same === undefined || line.dots ? (line.dash ?? []) : [5, 5];
      const dash = dashes.length > 0 ? { dash: [...dashes] } : {};
      const intervals = line.points.filter(({ low }) => typeof low === "number").length;
      const bars = intervals < FEW;
      if (intervals > 0) {
        const hidden: uPlot.Series = { stroke: "transparent", width: 0, points: { show: false } };
        data.push(
          spread(
            line,
            line.points.map(({ high }) => high),
          ),
          spread(
            line,
            line.points.map(({ low }) => low),
          ),
        );
        series.push(hidden, hidden);
        if (!bars)
          bands.push({ series: [data.length - 2, data.length - 1], fill: faint(colour, line.dots ? "8%" : "16%") });
      }
      const smoothed = smoothing > 0 && !line.dots;
      data.push(spread(line, values));
      drawn.push({
        label: several ? name : line.name,
        colour,
        line,
        index: data.length - 1,
        bars,
        same,
      });
      series.push({
        stroke: smoothed ? faint(colour, "35%") : colour,
        width: smoothed || line.dots ? 1 : 1.75,
        ...dash,
        // Dots of several runs at one place are rings around each other.
        points: {
          show: line.dots === true || line.points.length < FEW,
          size: !line.dots ? 5 : several ? 10 - 2 * Math.min(place, 3) : 7,
          fill: colour,
        },
      });
      if (smoothed) {
        data.push(spread(line, smooth(line.points, smoothing)));
        series.push({ stroke: colour, width: 2.25, ...dash, points: { show: false } });
      }
    }
  }
  return { data: data as uPlot.AlignedData, series, bands, drawn, steps };
}

/** At the point, and beside each other where several lines have one at a step. */
function drawErrorBars(u: uPlot, drawn: readonly Drawn[]): void {
  const { ctx } = u;
  const pixel = devicePixelRatio;
  ctx.save();
  ctx.lineWidth = 1.5 * pixel;
  const at = new Map<number, { colour: string; low: number; high: number }[]>();
  for (const { line, colour, bars } of drawn) {
    for (const { step, low, high } of bars ? line.points : []) {
      if (typeof low !== "number" || typeof high !== "number") continue;
      at.set(step, [...(at.get(step) ?? []), { colour, low, high }]);
    }
  }
  for (const [step, beside] of at) {
    for (const [i, { colour, low, high }] of beside.entries()) {
      ctx.strokeStyle = colour;
      const x = u.valToPos(step, "x", true) + pixel * besideStep(i, beside.length);
      if (x < u.bbox.left - 8 * pixel || x > u.bbox.left + u.bbox.width + 8 * pixel) continue;
      const [top, bottom] = [u.valToPos(high, "y", true), u.valToPos(low, "y", true)];
      ctx.beginPath();
      ctx.moveTo(x, top);
      ctx.lineTo(x, bottom);
      for (const y of [top, bottom]) {
        ctx.moveTo(x - 3 * pixel, y);
        ctx.lineTo(x + 3 * pixel, y);
      }
      ctx.stroke();
    }
  }
  ctx.restore();
}

function axes(spec: ChartSpec): uPlot.Axis[] {
  const style = getComputedStyle(document.documentElement);
  const stroke = style.getPropertyValue("--faint").trim();
  const grid = { stroke: style.getPropertyValue("--rule").trim(), width: 1 };
  const common = { stroke, grid, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return [
    {
      ...common,
      grid: { show: false },
      size: 24,
      gap: 4,
      space: 44,
      incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000],
      values: (_, splits) => splits.map((one) => String(one)),
    },
    {
      ...common,
      size: 54,
      gap: 4,
      space: 34,
      values: (_, splits) => splits.map((one) => spec.format(one).replace(".0 %", " %")),
    },
  ];
}

export function Chart({ spec, runs, smoothing, zoom, onZoom, theme }: Props) {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [at, setAt] = useState<number | null>(null);
  const built = useMemo(() => build(spec, runs, smoothing), [spec, runs, smoothing, theme]);
  const first = runs[0]?.view.id ?? 0;
  const height = spec.group ? SMALL : LARGE;

  useEffect(() => {
    const element = holder.current;
    if (!element || built.drawn.length === 0) return;
    // The same range for all charts, so that their cursors are at the same step.
    const low = 0;
    const high = Math.max(1, ...runs.map(({ view }) => view.steps.at(-1)?.step ?? 0));
    // Error bars at the first and the last of few steps stand clear of the edge.
    const room = high < FEW ? 0.04 * high + 0.06 : 0;
    const range = (): [number, number] => (zoom ? [zoom.from, zoom.to] : [low - room, high + room]);
    const made = new uPlot(
      {
        width: Math.max(120, element.clientWidth),
        height,
        padding: [8, 10, 0, 0],
        legend: { show: false },
        cursor: { sync: { key: SYNC }, points: { size: 6 }, drag: { x: true, y: false, setScale: false } },
        scales: {
          x: { time: false, range },
          y: {
            range: (_, min, max) => {
              if (spec.to !== undefined) return [spec.from ?? 0, spec.to];
              const room = (max - min || Math.abs(max) || 1) * 0.08;
              return [spec.from === undefined ? min - room : Math.min(spec.from, min), max + room];
            },
          },
        },
        axes: axes(spec),
        series: built.series,
        bands: built.bands,
        hooks: {
          draw: [(u) => drawErrorBars(u, built.drawn)],
          setCursor: [(u) => setAt(u.cursor.idx ?? null)],
          setSelect: [
            (u) => {
              if (u.select.width > STILL) {
                const from = Math.max(low, Math.floor(u.posToVal(u.select.left, "x")));
                const to = Math.min(high, Math.ceil(u.posToVal(u.select.left + u.select.width, "x")));
                if (to > from) onZoom({ from, to });
              }
              if (u.select.width > 0) u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
            },
          ],
        },
      },
      built.data,
      element,
    );
    plot.current = made;
    let down = 0;
    made.over.addEventListener("mousedown", (event) => {
      down = event.clientX;
    });
    made.over.addEventListener("click", (event) => {
      const step = built.steps[made.cursor.idx ?? -1];
      if (Math.abs(event.clientX - down) <= STILL && step !== undefined && step > 0) go("steps", { run: first, step });
    });
    made.over.addEventListener("dblclick", () => onZoom(null));
    const observer = new ResizeObserver(() => {
      if (element.clientWidth > 0) made.setSize({ width: element.clientWidth, height });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = null;
    };
  }, [built, runs, zoom, onZoom, spec, first, height]);

  const move = (by: number) => {
    const u = plot.current;
    if (!u) return;
    const from = u.cursor.idx ?? (by > 0 ? -1 : built.steps.length);
    const index = Math.min(built.steps.length - 1, Math.max(0, from + by));
    // The third argument, missing in the types, publishes the cursor to the other charts.
    const set: (at: { left: number; top: number }, fire?: boolean, publish?: boolean) => void = u.setCursor;
    set({ left: u.valToPos(built.steps[index] ?? 0, "x"), top: 20 }, true, true);
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      move(event.key === "ArrowLeft" ? -1 : 1);
      event.preventDefault();
    }
    const step = built.steps[at ?? -1];
    if (event.key === "Enter" && step) go("steps", { run: first, step });
    if (event.key === "Escape") onZoom(null);
  };

  const valueAt = (index: number): number | null | undefined => {
    const values = built.data[index] as (number | null | undefined)[];
    if (at !== null) return values[at];
    return [...values].reverse().find((value) => typeof value === "number");
  };
  const [main] = built.drawn;
  const value = main && built.drawn.length === 1 ? spec.format(valueAt(main.index)) : "";
  return (
    <section class={spec.group ? "chart" : "chart large"} aria-label={spec.title}>
      <header>
        <h3 title={spec.about}>{spec.title}</h3>
        <span class="at">
          {at !== null && `step ${built.steps[at]} `}
          {value && <b>{value}</b>}
        </span>
      </header>
      <div
        ref={holder}
        class="plot"
        style={{ minHeight: `${height}px` }}
        tabIndex={0}
        role="img"
        aria-label={`${spec.title}: ${spec.about} Arrow keys move by a step, Enter opens it.`}
        onKeyDown={onKey}
      />
      {built.drawn.length > 1 && (
        <ul class="legend">
          {built.drawn.map(({ label, colour, line, index, same }) => {
            const point = line.points.find(({ step }) => step === (at === null ? undefined : built.steps[at]));
            const band = typeof point?.low === "number" && typeof point.high === "number";
            const dashed = (line.dash && line.dash.length > 0) || same !== undefined;
            return (
              <li key={index}>
                <i class={line.dots ? "dot" : dashed ? "dashed" : ""} style={{ color: colour }} />
                {label} <b>{spec.format(valueAt(index))}</b>
                {band && <small>{` ${spec.format(point.low)} to ${spec.format(point.high)}`}</small>}
                {same !== undefined && <small>{` same as ${same}`}</small>}
              </li>
            );
          })}
        </ul>
      )}
    </section>
  );
}
