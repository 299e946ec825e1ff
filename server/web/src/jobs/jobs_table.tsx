// What is in a device's memory at the peak of each job, in figures.
import type { ComponentChildren } from "preact";
import type { Component } from "../../generated/stowage/v1/model";
import type { ViewedJob, ViewedVerdict } from "../../generated/stowage/v1/view";
import { Figure } from "../parts/figure";
import { jobsRouteText } from "../parts/route";
import { partKeys, partName, type PartNumbers, PartSwatch } from "./jobs_chart";
import { deviceName, shortJobName, verdictIndex } from "./jobs_names";

const kPhases: Record<Component["phase"], string> = {
  STEP: "the whole step",
  LAYERS: "forward and backward",
  UPDATE: "the optimizer's step",
  AROUND: "before and after the layers",
};

interface Row {
  key: string;
  part: Component; // of the first job that has it
}

function rowsOf(jobs: ViewedJob[], device: number): Row[] {
  const rows = new Map<string, Row>();
  for (const job of jobs) {
    const parts = job.verdicts[verdictIndex(job, device)]?.parts ?? [];
    partKeys(parts).forEach((key, i) => {
      if (!rows.has(key)) rows.set(key, { key, part: parts[i]! });
    });
  }
  return [...rows.values()];
}

interface Props {
  jobs: ViewedJob[];
  job: number; // the chosen one
  device: number;
  numbers: PartNumbers;
}

export function PartsTable({ jobs, job, device, numbers }: Props) {
  const title = `Memory at the peak: ${deviceName(jobs, device)}`;
  const columnClass = (j: number) => (j !== job ? "other" : jobs.length > 1 ? "chosen" : "");
  const cells = (cell: (viewed: ViewedVerdict, at: string) => ComponentChildren) =>
    jobs.map((one, j) => {
      const v = verdictIndex(one, device);
      return (
        <td key={j} class={`number ${columnClass(j)}`}>
          {v >= 0 && cell(one.verdicts[v]!, `jobs.${j}.verdicts.${v}`)}
        </td>
      );
    });
  return (
    <section class="panel wide" aria-label={title} tabIndex={0}>
      <h2>
        <bdi>{title}</bdi>
      </h2>
      <table class="grid job-parts">
        <thead>
          <tr>
            <th>part</th>
            {jobs.map((_, j) => (
              <th key={j} class={`number ${columnClass(j)}`}>
                <a
                  href={jobsRouteText({ job: j, device, isPlan: false })}
                  aria-current={j === job ? "true" : undefined}
                >
                  <bdi>{shortJobName(jobs, j, 24)}</bdi>
                </a>
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {rowsOf(jobs, device).map(({ key, part }) => (
            <tr key={key}>
              <td class="name">
                <PartSwatch number={numbers.get(key)!} />
                <bdi>{partName(part)}</bdi>
                <span class="phase muted">{kPhases[part.phase]}</span>
              </td>
              {cells(({ parts }, at) => {
                const i = partKeys(parts).indexOf(key);
                const bytes = parts[i]?.bytes;
                if (bytes === undefined) return "–";
                return <Figure value={bytes} unit="bytes" at={`${at}.parts.${i}.bytes`} />;
              })}
            </tr>
          ))}
          <tr class="first">
            <td>together</td>
            {cells(({ verdict }, at) => (
              <Figure value={verdict!.peak_bytes} unit="bytes" at={`${at}.verdict.peak_bytes`} />
            ))}
          </tr>
          <tr>
            <td>the device has</td>
            {cells(({ device: one }, at) => (
              <Figure
                value={one!.platform!.memory_bytes ?? "0"}
                unit="bytes"
                at={`${at}.device.platform.memory_bytes`}
              />
            ))}
          </tr>
        </tbody>
      </table>
    </section>
  );
}
