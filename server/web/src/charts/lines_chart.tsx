// Lines over memory, one for each solver and link. They differ in the shape of their
// points as well as in colour.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { axisOf, gutterOf, kMargin } from "./axes";
import { type Colors, readColors, useScheme } from "./colors";

// In a box of 12 by 12 around the origin: for canvas and SVG alike.
const kShapes = [
  "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
  "M-4 -4h8v8h-8z",
  "M0 -5.5L5.5 4.5H-5.5z",
  "M0 -6L6 0L0 6L-6 0z",
  "M-1.5 -5.5h3v4h4v3h-4v4h-3v-4h-4v-3h4z",
  "M0 5.5L5.5 -4.5H-5.5z",
];
export const kColors = ["saved", "recomputed", "backward", "offload", "prefetch", "release"];

function lookOf(index: number): { shape: string; color: string } {
  return {
    shape: kShapes[index % kShapes.length]!,
    // Another pair of shape and colour once all shapes are taken.
    color: kColors[(index + Math.floor(index / kShapes.length)) % kColors.length]!,
  };
}

// A line's point, for legends and tables.
export function Shape({ index }: { index: number }) {
  const { shape, color } = lookOf(index);
  return (
    <svg class={`shape draws-${color}`} viewBox="-6 -6 12 12" aria-hidden="true">
      <path d={shape} />
    </svg>
  );
}

interface LinePoint {
  x: number;
  y: number | null; // null: a gap
}

export interface LinesPlot {
  lines: LinePoint[][]; // each by ascending x
  bounds: LinePoint[][]; // dashed: one of each line, in its colour, or one of all
  xRange: [number, number];
  yRange: [number, number];
  xTick: (value: number) => string;
  xSteps?: number[]; // between ticks; default: powers of ten, and 2 and 5 times these
  yTick: (value: number) => string;
  ySteps?: number[]; // as xSteps
  verticals: { x: number; text: string }[];
  mark?: { x: number; y: number; text: string }[];
  height: number; // share of the window's
}

function drawLabel(plot: uPlot, x: number, y: number, text: string, colors: Colors): void {
  const { ctx: context, bbox } = plot;
  const ratio = devicePixelRatio;
  const isLeft = x > bbox.left + bbox.width * 0.7;
  context.fillStyle = colors("text");
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.textAlign = isLeft ? "right" : "left";
  context.textBaseline = "bottom";
  context.fillText(text, x + (isLeft ? -8 : 8) * ratio, y - 4 * ratio);
}

function drawVertical(plot: uPlot, value: number, text: string, colors: Colors): void {
  const { ctx: context, bbox } = plot;
  const x = plot.valToPos(value, "x", true);
  if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) return;
  const ratio = devicePixelRatio;
  context.strokeStyle = colors("muted");
  context.setLineDash([2 * ratio, 3 * ratio]);
  context.beginPath();
  context.moveTo(x, bbox.top);
  context.lineTo(x, bbox.top + bbox.height);
  context.stroke();
  context.setLineDash([]);
  drawLabel(plot, x, bbox.top + 16 * ratio, text, colors);
}

function drawMark(plot: uPlot, at: { x: number; y: number; text: string }, colors: Colors): void {
  const { ctx: context } = plot;
  const ratio = devicePixelRatio;
  const x = plot.valToPos(at.x, "x", true);
  const y = plot.valToPos(at.y, "y", true);
  context.strokeStyle = colors("accent");
  context.lineWidth = 2.5 * ratio;
  context.beginPath();
  context.arc(x, y, 8 * ratio, 0, 2 * Math.PI);
  context.stroke();
  drawLabel(plot, x, y - 6 * ratio, at.text, colors);
}

// The points of every line, in its shape; none where the axes have been cut.
function drawPoints(plot: uPlot, line: LinePoint[], index: number, colors: Colors): void {
  const { ctx: context } = plot;
  const ratio = devicePixelRatio;
  const { shape, color } = lookOf(index);
  const path = new Path2D(shape);
  context.fillStyle = colors(color);
  for (const { x, y } of line) {
    if (y === null || y > plot.scales.y!.max!) continue;
    context.save();
    context.translate(plot.valToPos(x, "x", true), plot.valToPos(y, "y", true));
    context.scale(ratio, ratio);
    context.fill(path);
    context.restore();
  }
}

interface Chosen {
  line: number;
  point: number;
}

// Of each line the point nearest to that x, and of these the nearest one to that y.
function nearest(lines: LinePoint[][], x: number, y: number): Chosen | undefined {
  const closest = <T,>(all: T[], distance: (one: T) => number): T | undefined =>
    all.length === 0 ? undefined : all.reduce((a, b) => (distance(b) < distance(a) ? b : a));
  const candidates = lines.flatMap((points, line) => {
    const known = points.flatMap((at, point) => (at.y === null ? [] : [{ ...at, line, point }]));
    const one = closest(known, (at) => Math.abs(at.x - x));
    return one === undefined ? [] : [one];
  });
  return closest(candidates, (at) => Math.abs(at.y! - y));
}

interface Props {
  plot: LinesPlot; // the same object while nothing has changed
  label: string;
  onChoose?: (chosen: Chosen) => void;
}

export function LinesChart({ plot: shown, label, onChoose }: Props) {
  const root = useRef<HTMLDivElement>(null);
  const choose = useRef(onChoose);
  choose.current = onChoose;
  const scheme = useScheme();
  useEffect(() => {
    const element = root.current!;
    const colors = readColors();
    const { lines, bounds, xRange, yRange, xSteps, ySteps } = shown;
    const axis = axisOf(colors);
    const size = () => ({
      width: element.clientWidth,
      height: Math.min(Math.max(innerHeight * shown.height, 220), 520),
    });
    // Each line has places of its own: where it has none, its neighbours are joined.
    const data = uPlot.join(
      [...bounds, ...lines].map((line): uPlot.AlignedData => [
        line.map(({ x }) => x),
        line.map(({ y }) => y),
      ]),
    );
    const series = [
      ...bounds.map((_, index): uPlot.Series => ({
        stroke: colors(bounds.length === 1 ? "budget" : lookOf(index).color),
        width: 1.5,
        dash: [4, 4],
        points: { show: false },
      })),
      ...lines.map((_, index): uPlot.Series => ({
        stroke: colors(lookOf(index).color),
        width: 2.5,
        points: { show: false },
      })),
    ];
    const plot = new uPlot(
      {
        ...size(),
        padding: [14, kMargin, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false },
        scales: { x: { time: false, range: () => xRange }, y: { range: () => yRange } },
        axes: [
          {
            ...axis,
            size: 28,
            space: 80,
            ...(xSteps === undefined ? {} : { incrs: xSteps }),
            values: (_, values) => values.map(shown.xTick),
          },
          {
            ...axis,
            size: gutterOf(element.clientWidth),
            ...(ySteps === undefined ? {} : { incrs: ySteps }),
            values: (_, values) => values.map(shown.yTick),
          },
        ],
        series: [{}, ...series],
        hooks: {
          draw: [
            (drawn) => {
              for (const { x, text } of shown.verticals) drawVertical(drawn, x, text, colors);
              lines.forEach((line, index) => drawPoints(drawn, line, index, colors));
              for (const mark of shown.mark ?? []) drawMark(drawn, mark, colors);
            },
          ],
        },
      },
      data,
      element,
    );
    // By the click's own place: a touch moves no cursor before it.
    plot.over.onclick = (event) => {
      const x = plot.posToVal(event.offsetX, "x");
      const chosen = nearest(lines, x, plot.posToVal(event.offsetY, "y"));
      if (chosen !== undefined) choose.current?.(chosen);
    };
    const observer = new ResizeObserver(() => plot.setSize(size()));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [shown, scheme]);
  return <div class="lines-chart" ref={root} role="img" aria-label={label} />;
}
