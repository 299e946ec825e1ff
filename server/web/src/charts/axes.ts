// What the axes of all charts share, so that charts below each other line up.
import type uPlot from "uplot";
import type { Colors } from "./colors";

export const kMargin = 16;

// Left of the plots, where the axis has its labels.
export function gutterOf(width: number): number {
  return width < 480 ? 62 : 84;
}

export function axisOf(colors: Colors): uPlot.Axis {
  return {
    stroke: colors("muted"),
    font: "11px system-ui, sans-serif",
    grid: { stroke: colors("grid"), width: 1 },
    ticks: { stroke: colors("grid"), size: 4 },
  };
}

// Steps of an axis of bytes: its ticks are round in KiB, MiB and GiB.
export const kByteSteps = Array.from({ length: 62 }, (_, i) => 2 ** i);
