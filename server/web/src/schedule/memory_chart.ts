// The device's memory over time, stacked by what takes it, with the budget as a line.
import uPlot from "uplot";
import { axisOf, gutterOf, kByteSteps, kMargin } from "../charts/axes";
import type { Colors } from "../charts/colors";
import { formatBytes, tickBytes, tickSeconds } from "../parts/units";
import { kMemoryKinds, type Timeline } from "./timeline";

export interface MemoryMarks {
  budget: number;
  peak: { seconds: number; bytes: number } | undefined;
}

// Cumulative from the bottom: the tallest is drawn first, the others over it.
function stacked(timeline: Timeline): uPlot.AlignedData {
  const sums: number[][] = [];
  let below: number[] = timeline.times.map(() => 0);
  for (const bytes of timeline.memory) {
    below = below.map((sum, i) => sum + bytes[i]!);
    sums.unshift(below);
  }
  return [timeline.times, ...sums];
}

function drawMarks(plot: uPlot, marks: MemoryMarks, colors: Colors): void {
  const { ctx: context, bbox } = plot;
  const ratio = devicePixelRatio;
  context.save();
  context.beginPath();
  context.rect(bbox.left, bbox.top - 12 * ratio, bbox.width, bbox.height + 12 * ratio);
  context.clip();
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.lineWidth = 1.5 * ratio;
  const budget = plot.valToPos(marks.budget, "y", true);
  context.strokeStyle = colors("budget");
  context.setLineDash([6 * ratio, 4 * ratio]);
  context.beginPath();
  context.moveTo(bbox.left, budget);
  context.lineTo(bbox.left + bbox.width, budget);
  context.stroke();
  context.setLineDash([]);
  context.fillStyle = colors("budget");
  // At the end that is farther from the peak's words.
  const isRight =
    marks.peak !== undefined &&
    plot.valToPos(marks.peak.seconds, "x", true) < bbox.left + bbox.width / 2;
  context.textAlign = isRight ? "right" : "left";
  context.textBaseline = "bottom";
  context.fillText(
    `budget ${formatBytes(marks.budget)}`,
    isRight ? bbox.left + bbox.width - 6 * ratio : bbox.left + 6 * ratio,
    budget - 3 * ratio,
  );
  if (marks.peak !== undefined) drawPeak(plot, marks.peak, colors);
  context.restore();
}

// A triangle that stands on the curve, and its words on the side that has room.
function drawPeak(plot: uPlot, peak: { seconds: number; bytes: number }, colors: Colors): void {
  const { ctx: context, bbox } = plot;
  const ratio = devicePixelRatio;
  const x = plot.valToPos(peak.seconds, "x", true);
  const y = plot.valToPos(peak.bytes, "y", true);
  context.fillStyle = colors("text");
  context.beginPath();
  context.moveTo(x, y + 1);
  context.lineTo(x - 5 * ratio, y - 8 * ratio);
  context.lineTo(x + 5 * ratio, y - 8 * ratio);
  context.fill();
  const isLeft = x > bbox.left + bbox.width * 0.75;
  context.textAlign = isLeft ? "right" : "left";
  context.textBaseline = "middle";
  context.fillText("peak", x + (isLeft ? -9 : 9) * ratio, y - 14 * ratio);
}

export function makeMemoryChart(
  root: HTMLElement,
  timeline: Timeline,
  marks: MemoryMarks,
  size: { width: number; height: number },
  colors: Colors,
  leastTop = 0, // bytes that the axis reaches at least
): uPlot {
  const steps = uPlot.paths.stepped!({ align: 1 });
  const fills = kMemoryKinds.map((kind): uPlot.Series => ({
    label: kind,
    fill: colors(kind),
    stroke: colors("surface"),
    width: 0.5,
    paths: steps,
    points: { show: false },
  }));
  const top = Math.max(marks.budget, marks.peak?.bytes ?? 0, leastTop) * 1.12;
  const axis = axisOf(colors);
  return new uPlot(
    {
      ...size,
      padding: [14, kMargin, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      select: { show: false, left: 0, top: 0, width: 0, height: 0 },
      scales: {
        x: { time: false, auto: false, range: (_, min, max) => [min, max] },
        y: { auto: false, range: () => [0, top > 0 ? top : 1] },
      },
      axes: [
        { ...axis, size: 28, space: 80, values: (_, values) => values.map(tickSeconds) },
        {
          ...axis,
          size: gutterOf(size.width),
          space: 40,
          incrs: kByteSteps,
          values: (_, values) => values.map(tickBytes),
        },
      ],
      series: [{}, ...fills.reverse()],
      hooks: { draw: [(plot) => drawMarks(plot, marks, colors)] },
    },
    stacked(timeline),
    root,
  );
}
