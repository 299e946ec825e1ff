// One schedule's operations with their times and memory, as arrays that charts draw from.
import type { Operation, Operation_Kind } from "../../generated/stowage/v1/model";
import type { TimelineEntry } from "../../generated/stowage/v1/scheduler";
import type { OperationDetail, ViewedSchedule } from "../../generated/stowage/v1/view";

export const kLanes = ["compute", "to host", "to device"] as const;

type Work = "forward" | "recomputed" | "backward" | "offload" | "prefetch" | "release";

export interface Step {
  index: number; // in the schedule
  operation: Operation;
  entry: TimelineEntry;
  detail: OperationDetail;
  work: Work;
  lane: number; // of kLanes
}

export const kMemoryKinds = ["output", "saved", "gradient", "overhead", "measured"] as const;
export type MemoryKind = (typeof kMemoryKinds)[number];
export const kMemoryNames: Record<MemoryKind, string> = {
  output: "input and outputs",
  saved: "saved for the backward",
  gradient: "gradients",
  overhead: "temporary",
  measured: "measured",
};

export function bytesOf(detail: OperationDetail, kind: MemoryKind): number {
  return Number(detail[`${kind}_bytes`] ?? 0);
}

// Those that a schedule's bytes are divided into: nobody knows what measured ones hold.
export function kindsOf(viewed: ViewedSchedule): MemoryKind[] {
  return kMemoryKinds.filter((kind) => (kind === "measured") === viewed.measured);
}

export interface Timeline {
  steps: Step[];
  lanes: Step[][]; // by lane, each in the order of its queue
  seconds: number; // the makespan
  usesLink: boolean;
  // The memory over time, a staircase: memory[k][i] bytes of kMemoryKinds[k] from times[i] on.
  times: number[];
  memory: number[][];
  curve: number[]; // by operation, the first index in `times` of its memory
}

function workOf(kind: Operation_Kind, isAgain: boolean): Work {
  switch (kind) {
    case "BACKWARD":
      return "backward";
    case "OFFLOAD":
      return "offload";
    case "PREFETCH":
      return "prefetch";
    case "RELEASE":
      return "release";
    default:
      return isAgain ? "recomputed" : "forward";
  }
}

function laneOf(work: Work): number {
  if (work === "offload" || work === "release") return 1;
  return work === "prefetch" ? 2 : 0;
}

// Memory follows the program: an operation's counts once the one listed before it is done, whenever
// its copy runs. A RELEASE holds up what is listed after it, a copy does not. What takes no time
// and is no higher than what follows is left out.
function addCurve(timeline: Timeline): void {
  let now = 0;
  let before = 0; // the last total
  for (const { lane, work, entry, detail } of timeline.steps) {
    if (lane === 0) now = Math.max(now, entry.start_seconds);
    const total = Number(entry.memory_bytes);
    if (timeline.times.at(-1) === now && before <= total) {
      timeline.times.pop();
      for (const bytes of timeline.memory) bytes.pop();
    }
    before = total;
    timeline.curve.push(timeline.times.length);
    timeline.times.push(now);
    kMemoryKinds.forEach((kind, k) => timeline.memory[k]!.push(bytesOf(detail, kind)));
    if (lane === 0 || work === "release") now = Math.max(now, entry.end_seconds);
  }
  timeline.times.push(timeline.seconds);
  for (const bytes of timeline.memory) bytes.push(bytes.at(-1) ?? 0);
}

export function timelineOf(viewed: ViewedSchedule): Timeline {
  const entries = viewed.simulation?.timeline ?? [];
  const seen = new Set<number>();
  const steps = (viewed.answer?.schedule?.operations ?? []).map((operation, index): Step => {
    const isForward = operation.kind.startsWith("FORWARD");
    const work = workOf(operation.kind, isForward && seen.has(operation.stage));
    if (isForward) seen.add(operation.stage);
    const entry = entries[index]!;
    return { index, operation, entry, detail: viewed.details[index]!, work, lane: laneOf(work) };
  });
  const timeline: Timeline = {
    steps,
    lanes: kLanes.map((_, lane) => steps.filter((step) => step.lane === lane)),
    seconds: viewed.simulation?.prediction?.makespan_seconds ?? 0,
    usesLink: steps.some((step) => step.lane > 0),
    times: [],
    memory: kMemoryKinds.map(() => []),
    curve: [],
  };
  addCurve(timeline);
  return timeline;
}

// The operation of a lane that runs at that time, or the nearest one within `slack` seconds.
export function stepAt(lane: Step[], seconds: number, slack: number): Step | undefined {
  let low = 0;
  let high = lane.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane[middle]!.entry.start_seconds <= seconds) low = middle + 1;
    else high = middle;
  }
  let best: Step | undefined;
  let least = slack;
  for (const step of lane.slice(Math.max(low - 2, 0), low + 1)) {
    const { start_seconds, end_seconds } = step.entry;
    const distance = Math.max(start_seconds - seconds, seconds - end_seconds, 0);
    if (distance > least) continue;
    best = step;
    least = distance;
  }
  return best;
}
