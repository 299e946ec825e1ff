// Names of jobs and devices, and which verdict is of which device.
import type { ViewedJob, ViewedVerdict } from "../../generated/stowage/v1/view";
import { plain } from "../parts/names";

export function jobName(jobs: ViewedJob[], job: number): string {
  const { name } = jobs[job]!;
  return name === "" ? `job ${job + 1}` : plain(name);
}

// Its end, since what differs between jobs, such as the batch, mostly stands there.
export function shortJobName(jobs: ViewedJob[], job: number, most: number): string {
  const name = jobName(jobs, job);
  const characters = Array.from(name);
  return characters.length <= most ? name : `…${characters.slice(1 - most).join("")}`;
}

// `device` is that of Verdict: it is the same for all jobs, while the order of verdicts is not.
export function verdictIndex(job: ViewedJob, device: number): number {
  return job.verdicts.findIndex(({ verdict }) => verdict!.device === device);
}

export function verdictOn(job: ViewedJob, device: number): ViewedVerdict | undefined {
  return job.verdicts[verdictIndex(job, device)];
}

// Ascending, those of all jobs.
export function devicesOf(jobs: ViewedJob[]): number[] {
  const all = jobs.flatMap(({ verdicts }) => verdicts.map(({ verdict }) => verdict!.device));
  return [...new Set(all)].sort((a, b) => a - b);
}

export function deviceName(jobs: ViewedJob[], device: number): string {
  const job = jobs.find((one) => verdictIndex(one, device) >= 0);
  const name = job === undefined ? "" : verdictOn(job, device)!.device!.platform!.name;
  return name === "" ? `device ${device + 1}` : plain(name);
}
