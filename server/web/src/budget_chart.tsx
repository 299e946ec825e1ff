// Makespans over memory budgets, a line for each solver and link. Lines differ in the shape of their
// points as well as in colour.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { FrontierPoint, FrontierResponse } from "../generated/stowage/v1/scheduler";
import type { View } from "../generated/stowage/v1/view";
import { type Colors, readColors, useScheme } from "./colors";
import { gutterOf, kMargin } from "./memory_chart";
import { tickBytes, tickSeconds } from "./units";

// In a box of 12 by 12 around the origin: for canvas and SVG alike.
const kShapes = [
  "M-4 0a4 4 0 1 0 8 0a4 4 0 1 0 -8 0z",
  "M-4 -4h8v8h-8z",
  "M0 -5.5L5.5 4.5H-5.5z",
  "M0 -6L6 0L0 6L-6 0z",
  "M-1.5 -5.5h3v4h4v3h-4v4h-3v-4h-4v-3h4z",
  "M0 5.5L5.5 -4.5H-5.5z",
];
const kColors = ["saved", "recomputed", "backward", "offload", "prefetch", "release"];

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

export function isFeasible(point: FrontierPoint): boolean {
  return point.outcome !== "INFEASIBLE";
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

function drawVertical(plot: uPlot, bytes: number, text: string, colors: Colors): void {
  const { ctx: context, bbox } = plot;
  const x = plot.valToPos(bytes, "x", true);
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

function drawKnee(plot: uPlot, point: FrontierPoint, colors: Colors): void {
  const { ctx: context } = plot;
  const ratio = devicePixelRatio;
  const x = plot.valToPos(Number(point.memory_bytes), "x", true);
  const y = plot.valToPos(point.prediction?.makespan_seconds ?? 0, "y", true);
  context.strokeStyle = colors("accent");
  context.lineWidth = 2.5 * ratio;
  context.beginPath();
  context.arc(x, y, 8 * ratio, 0, 2 * Math.PI);
  context.stroke();
  drawLabel(plot, x, y - 6 * ratio, "knee", colors);
}

// The points of every line, in its shape.
function drawPoints(plot: uPlot, line: FrontierPoint[], index: number, colors: Colors): void {
  const { ctx: context } = plot;
  const ratio = devicePixelRatio;
  const { shape, color } = lookOf(index);
  const path = new Path2D(shape);
  context.fillStyle = colors(color);
  for (const point of line) {
    context.save();
    context.translate(
      plot.valToPos(Number(point.memory_bytes), "x", true),
      plot.valToPos(point.prediction!.makespan_seconds, "y", true),
    );
    context.scale(ratio, ratio);
    context.fill(path);
    context.restore();
  }
}

// Of each line the point nearest to those bytes, and of these the nearest one to those seconds.
function nearest(lines: FrontierPoint[][], bytes: number, seconds: number) {
  const closest = <T,>(all: T[], distance: (one: T) => number): T | undefined =>
    all.length === 0 ? undefined : all.reduce((a, b) => (distance(b) < distance(a) ? b : a));
  const candidates = lines.flatMap((line, index) => {
    const point = closest(line, ({ memory_bytes }) => Math.abs(Number(memory_bytes) - bytes));
    return point === undefined ? [] : [{ point, index }];
  });
  return closest(candidates, ({ point }) => Math.abs(point.prediction!.makespan_seconds - seconds));
}

interface ChartProps {
  view: View;
  frontiers: FrontierResponse[];
  onChoose: (frontier: number, point: FrontierPoint) => void;
}

export function BudgetChart({ view, frontiers, onChoose }: ChartProps) {
  const root = useRef<HTMLDivElement>(null);
  const choose = useRef(onChoose);
  choose.current = onChoose;
  const scheme = useScheme();
  useEffect(() => {
    const element = root.current!;
    const colors = readColors();
    const lines = frontiers.map((frontier) => frontier.points.filter(isFeasible));
    const all = lines.flat();
    const xs = all.map((point) => Number(point.memory_bytes));
    const bounds = all.map((point) => point.prediction!.lower_bound_seconds);
    const low = Math.min(Number(view.memory_floor_bytes), ...xs);
    const high = Math.max(Number(view.most_memory_bytes), ...xs);
    const least = Math.min(view.store_all_seconds, ...bounds);
    const most = Math.max(...all.map((point) => point.prediction!.makespan_seconds));
    const room = (most - least || most || 1) * 0.15;
    const axis: uPlot.Axis = {
      stroke: colors("muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: colors("grid"), width: 1 },
      ticks: { stroke: colors("grid"), size: 4 },
    };
    const size = () => ({
      width: element.clientWidth,
      height: Math.min(Math.max(innerHeight * 0.45, 220), 520),
    });
    // Each line has budgets of its own: where it has none, its neighbours are joined.
    const data = uPlot.join(
      lines.map((line): uPlot.AlignedData => [
        line.map((point) => Number(point.memory_bytes)),
        line.map((point) => point.prediction!.lower_bound_seconds),
        line.map((point) => point.prediction!.makespan_seconds),
      ]),
    );
    const series = lines.flatMap((_, index): uPlot.Series[] => [
      {
        label: "lower bound",
        stroke: colors(lines.length === 1 ? "budget" : lookOf(index).color),
        width: 1.5,
        dash: [4, 4],
        spanGaps: true,
        points: { show: false },
      },
      {
        label: "makespan",
        stroke: colors(lookOf(index).color),
        width: 2.5,
        spanGaps: true,
        points: { show: false },
      },
    ]);
    const plot = new uPlot(
      {
        ...size(),
        padding: [14, kMargin, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false },
        scales: {
          x: { time: false, range: () => [low - (high - low) * 0.03, high + (high - low) * 0.03] },
          y: { range: () => [Math.max(least - room, 0), most + room] },
        },
        axes: [
          {
            ...axis,
            size: 28,
            space: 80,
            incrs: Array.from({ length: 62 }, (_, i) => 2 ** i),
            values: (_, values) => values.map(tickBytes),
          },
          {
            ...axis,
            size: gutterOf(element.clientWidth),
            values: (_, values) => values.map(tickSeconds),
          },
        ],
        series: [{}, ...series],
        hooks: {
          draw: [
            (drawn) => {
              drawVertical(drawn, Number(view.memory_floor_bytes), "memory floor", colors);
              drawVertical(drawn, Number(view.most_memory_bytes), "store all", colors);
              frontiers.forEach((frontier, index) => {
                if (frontier.minimum_memory_bytes !== undefined)
                  drawVertical(drawn, Number(frontier.minimum_memory_bytes), "", colors);
                drawPoints(drawn, lines[index]!, index, colors);
                const knee =
                  frontier.knee === undefined ? undefined : frontier.points[frontier.knee];
                if (knee?.prediction !== undefined) drawKnee(drawn, knee, colors);
              });
            },
          ],
        },
      },
      data,
      element,
    );
    // By the click's own place: a touch moves no cursor before it.
    plot.over.onclick = (event) => {
      const bytes = plot.posToVal(event.offsetX, "x");
      const chosen = nearest(lines, bytes, plot.posToVal(event.offsetY, "y"));
      if (chosen !== undefined) choose.current(chosen.index, chosen.point);
    };
    const observer = new ResizeObserver(() => plot.setSize(size()));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [frontiers, scheme]);
  return (
    <div
      class="budget-chart"
      ref={root}
      role="img"
      aria-label="Makespan over memory; the table below has the figures"
    />
  );
}
