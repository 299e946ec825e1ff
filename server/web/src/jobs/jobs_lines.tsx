// The peak of each job on each device, a line for each device.
import { useMemo } from "preact/hooks";
import type { ViewedJob } from "../../generated/stowage/v1/view";
import { kByteSteps } from "../charts/axes";
import { LinesChart, type LinesPlot, Shape } from "../charts/lines_chart";
import { tickBytes } from "../parts/units";
import { mostBytesOf } from "./jobs_chart";
import { deviceName, shortJobName, verdictOn } from "./jobs_names";

const kCountSteps = [1, 2, 5, 10, 20, 50, 100];

function plotOf(jobs: ViewedJob[], devices: number[], chosen: number): LinesPlot {
  const lineOf = (bytes: (job: number, device: number) => string | undefined) =>
    devices.map((device) =>
      jobs.map((_, x) => {
        const y = bytes(x, device);
        return { x, y: y === undefined ? null : Number(y) };
      }),
    );
  return {
    lines: lineOf((job, device) => verdictOn(jobs[job]!, device)?.verdict!.peak_bytes),
    bounds: lineOf((job, device) => verdictOn(jobs[job]!, device)?.device!.platform!.memory_bytes),
    xRange: [-0.25, jobs.length - 0.75],
    yRange: [0, mostBytesOf(jobs) * 1.08],
    xTick: (x) => (jobs[x] === undefined ? "" : shortJobName(jobs, x, 14)),
    xSteps: kCountSteps,
    yTick: tickBytes,
    ySteps: kByteSteps,
    verticals: [{ x: chosen, text: "" }],
    height: 0.3,
  };
}

interface Props {
  jobs: ViewedJob[];
  devices: number[];
  chosen: number; // index of the job
  onChoose: (job: number, device: number) => void;
}

export function JobsLines({ jobs, devices, chosen, onChoose }: Props) {
  const plot = useMemo(() => plotOf(jobs, devices, chosen), [jobs, devices, chosen]);
  return (
    <section class="panel wide" aria-label="Peak of each job">
      <h2>Peak of each job</h2>
      <ul class="legend">
        {devices.map((device, i) => (
          <li key={device}>
            <Shape index={i} />
            <bdi>{deviceName(jobs, device)}</bdi>
          </li>
        ))}
        <li>
          <span class="swatch bound" />
          memory of the device, in its line's colour
        </li>
      </ul>
      <LinesChart
        plot={plot}
        label="Peak memory of each job; the table has the figures"
        onChoose={({ line, point }) => onChoose(point, devices[line]!)}
      />
    </section>
  );
}
