/** Draws the learning curves as a self-contained SVG file. */
import { isControl, type Outcome } from "./experiments.js";

const SIZE = { width: 760, height: 420 };
const PLOT = { left: 56, top: 64, right: 744, bottom: 368 };
const COLOURS = ["#0b6e99", "#d9730d", "#448361", "#9065b0", "#c14c8a"];
const GREYS = ["#333333", "#777777", "#999999", "#bbbbbb", "#555555"];
const FONT = "font-family='system-ui, sans-serif' font-size='13'";

interface Scale {
  readonly x: (step: number) => number;
  readonly y: (share: number) => number;
}

const line = (points: readonly (readonly [number, number])[], style: string) =>
  `<polyline fill='none' ${style} points='${points.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join(" ")}'/>`;

function axes({ x, y }: Scale, steps: number): string[] {
  const grid = [0, 0.2, 0.4, 0.6, 0.8, 1].flatMap((share) => [
    `<line x1='${PLOT.left}' x2='${PLOT.right}' y1='${y(share)}' y2='${y(share)}' stroke='#e5e5e5'/>`,
    `<text x='${PLOT.left - 8}' y='${y(share) + 4}' text-anchor='end' ${FONT} fill='#555'>${share * 100} %</text>`,
  ]);
  const ticks = Array.from({ length: Math.floor(steps / 5) + 1 }, (_, i) => 5 * i).map(
    (step) => `<text x='${x(step)}' y='${PLOT.bottom + 20}' text-anchor='middle' ${FONT} fill='#555'>${step}</text>`,
  );
  return [
    ...grid,
    ...ticks,
    `<text x='${(PLOT.left + PLOT.right) / 2}' y='${PLOT.bottom + 40}' text-anchor='middle' ${FONT} fill='#555'>training step</text>`,
  ];
}

/** Held-out success as dots with 95 % intervals, success of the training rollouts as a thin line behind them. */
function curve({ validations, training, kind }: Outcome, index: number, { x, y }: Scale): string[] {
  const control = isControl(kind);
  const colour = (control ? GREYS : COLOURS)[index % (control ? GREYS : COLOURS).length];
  const dashes = control ? " stroke-dasharray='5 4'" : "";
  // Runs are offset a little, so that their intervals do not overlap.
  const at = (step: number) => x(step) + (index - 1) * 3;
  return [
    line(
      training.map((share, i) => [x(i + 1), y(share)] as const),
      `stroke='${colour}' stroke-opacity='0.25'`,
    ),
    line(
      validations.map(({ step, success }) => [at(step), y(success)] as const),
      `stroke='${colour}' stroke-width='2'${dashes}`,
    ),
    ...validations.flatMap(({ step, success, low, high }) => [
      `<line x1='${at(step)}' x2='${at(step)}' y1='${y(low)}' y2='${y(high)}' stroke='${colour}'/>`,
      `<circle cx='${at(step)}' cy='${y(success)}' r='3.5' fill='${colour}'/>`,
    ]),
  ];
}

function legend(outcomes: readonly Outcome[]): string[] {
  // Runs in the first line, controls in the second.
  const next = { true: PLOT.left, false: PLOT.left };
  return numbered(outcomes).flatMap(({ outcome: { name, kind }, index }) => {
    const control = isControl(kind);
    const colour = (control ? GREYS : COLOURS)[index % (control ? GREYS : COLOURS).length];
    const at = next[`${control}`];
    const y = control ? 44 : 22;
    next[`${control}`] += 36 + 7.5 * name.length;
    return [
      `<line x1='${at}' x2='${at + 20}' y1='${y}' y2='${y}' stroke='${colour}' stroke-width='2'${control ? " stroke-dasharray='5 4'" : ""}/>`,
      `<text x='${at + 26}' y='${y + 4}' ${FONT} fill='#333'>${name}</text>`,
    ];
  });
}

/** Controls and other runs are coloured separately. */
function numbered(outcomes: readonly Outcome[]) {
  const seen = { true: 0, false: 0 };
  return outcomes.map((outcome) => ({ outcome, index: seen[`${isControl(outcome.kind)}`]++ }));
}

/** Of the runs with the task's reward, and the controls. */
export function curvesSvg(all: readonly Outcome[]): string {
  const outcomes = all.filter(({ kind }) => kind !== "success");
  const steps = Math.max(...outcomes.map(({ training }) => training.length));
  const scale = {
    x: (step: number) => PLOT.left + 12 + ((PLOT.right - PLOT.left - 24) * step) / steps,
    y: (share: number) => PLOT.bottom - (PLOT.bottom - PLOT.top) * share,
  };
  const parts = [
    `<rect width='${SIZE.width}' height='${SIZE.height}' fill='white'/>`,
    ...axes(scale, steps),
    ...numbered(outcomes).flatMap(({ outcome, index }) => curve(outcome, index, scale)),
    ...legend(outcomes),
  ];
  return `<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 ${SIZE.width} ${SIZE.height}' role='img' aria-label='Success on held-out questions by training step'>\n${parts.join("\n")}\n</svg>\n`;
}
