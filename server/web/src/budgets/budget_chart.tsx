// Makespans over memory budgets, a line for each solver and link.
import { useMemo } from "preact/hooks";
import type { FrontierPoint, FrontierResponse } from "../../generated/stowage/v1/scheduler";
import type { View } from "../../generated/stowage/v1/view";
import { kByteSteps } from "../charts/axes";
import { LinesChart, type LinesPlot } from "../charts/lines_chart";
import { tickBytes, tickSeconds } from "../parts/units";

export function isFeasible(point: FrontierPoint): boolean {
  return point.outcome !== "INFEASIBLE";
}

function plotOf(view: View, frontiers: FrontierResponse[], lines: FrontierPoint[][]): LinesPlot {
  const all = lines.flat();
  const xs = all.map((point) => Number(point.memory_bytes));
  const bounds = all.map((point) => point.prediction!.lower_bound_seconds);
  const low = Math.min(Number(view.memory_floor_bytes), ...xs);
  const high = Math.max(Number(view.most_memory_bytes), ...xs);
  const least = Math.min(view.store_all_seconds, ...bounds);
  const most = Math.max(...all.map((point) => point.prediction!.makespan_seconds));
  const room = (most - least || most || 1) * 0.15;
  const drawn = (seconds: (point: FrontierPoint) => number) =>
    lines.map((line) =>
      line.map((point) => ({ x: Number(point.memory_bytes), y: seconds(point) })),
    );
  return {
    lines: drawn((point) => point.prediction!.makespan_seconds),
    bounds: drawn((point) => point.prediction!.lower_bound_seconds),
    xRange: [low - (high - low) * 0.03, high + (high - low) * 0.03],
    yRange: [Math.max(least - room, 0), most + room],
    xTick: tickBytes,
    xSteps: kByteSteps,
    yTick: tickSeconds,
    verticals: [
      { x: Number(view.memory_floor_bytes), text: "memory floor" },
      { x: Number(view.most_memory_bytes), text: "store all" },
      ...frontiers.flatMap(({ minimum_memory_bytes }) =>
        minimum_memory_bytes === undefined ? [] : [{ x: Number(minimum_memory_bytes), text: "" }],
      ),
    ],
    mark: frontiers.flatMap(({ knee, points }) => {
      const point = knee === undefined ? undefined : points[knee];
      if (point?.prediction === undefined) return [];
      const y = point.prediction.makespan_seconds;
      return [{ x: Number(point.memory_bytes), y, text: "knee" }];
    }),
    height: 0.45,
  };
}

interface ChartProps {
  view: View;
  frontiers: FrontierResponse[];
  onChoose: (frontier: number, point: FrontierPoint) => void;
}

export function BudgetChart({ view, frontiers, onChoose }: ChartProps) {
  const lines = useMemo(
    () => frontiers.map(({ points }) => points.filter(isFeasible)),
    [frontiers],
  );
  const plot = useMemo(() => plotOf(view, frontiers, lines), [frontiers]);
  return (
    <LinesChart
      plot={plot}
      label="Makespan over memory; the table below has the figures"
      onChoose={({ line, point }) => onChoose(line, lines[line]![point]!)}
    />
  );
}
