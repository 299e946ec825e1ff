// Draws the three queues: a box an operation, with its letter and stage where they fit.
import type { Colors } from "../charts/colors";
import { kLanes, type Step, type Timeline } from "./timeline";

export const kLaneHeight = 30;
const kGap = 6;

// A letter for each kind of work, so that its colour is not its only sign.
const kLetters = {
  forward: "F",
  recomputed: "R",
  backward: "B",
  offload: "↑",
  prefetch: "↓",
  release: "",
};

export interface Frame {
  left: number; // of the plot, in CSS pixels
  width: number;
  from: number; // the seconds at its left
  to: number;
}

export function pixelOf(frame: Frame, seconds: number): number {
  return frame.left + ((seconds - frame.from) / (frame.to - frame.from)) * frame.width;
}
export function secondsOf(frame: Frame, pixel: number): number {
  return frame.from + ((pixel - frame.left) / frame.width) * (frame.to - frame.from);
}

export function laneCount(timeline: Timeline): number {
  return timeline.usesLink ? kLanes.length : 1;
}
export function lanesHeight(timeline: Timeline): number {
  return laneCount(timeline) * (kLaneHeight + kGap);
}
export function laneTop(lane: number): number {
  return lane * (kLaneHeight + kGap);
}

// What the rest of the page wants to be seen.
export interface Marks {
  op: number | undefined;
  stage: number | undefined;
  waits: { from: number; to: number }[]; // of the compute queue, seconds
}

function drawBox(
  context: CanvasRenderingContext2D,
  frame: Frame,
  step: Step,
  colors: Colors,
): void {
  const left = pixelOf(frame, step.entry.start_seconds);
  const right = pixelOf(frame, step.entry.end_seconds);
  const top = laneTop(step.lane);
  context.fillStyle = colors(step.work);
  if (step.work === "release") {
    // a wait on the copy's lane: a tick where it ends
    context.fillRect(right - 1, top, 2, 5);
    return;
  }
  // A hair's breadth between neighbours, as long as there is something to see of them.
  const width = Math.max(right - left - (right - left > 3 ? 1 : 0), 0.6);
  context.fillRect(left, top, width, kLaneHeight);
  if (step.work === "recomputed" && width > 4) {
    context.fillStyle = colors("stripe");
    context.fillRect(left, top + kLaneHeight - 5, width, 2);
  }
  const text = `${kLetters[step.work]}${step.operation.stage}`;
  if (width < 9 + 7 * text.length) return;
  context.fillStyle = colors(`on-${step.work}`);
  context.fillText(text, left + width / 2, top + kLaneHeight / 2);
}

function drawOutline(
  context: CanvasRenderingContext2D,
  frame: Frame,
  step: Step,
  color: string,
  thick: number,
): void {
  const left = pixelOf(frame, step.entry.start_seconds);
  const right = pixelOf(frame, step.entry.end_seconds);
  context.strokeStyle = color;
  context.lineWidth = thick;
  context.strokeRect(
    left,
    laneTop(step.lane) + thick / 2,
    Math.max(right - left, 2),
    kLaneHeight - thick,
  );
}

function drawWait(
  context: CanvasRenderingContext2D,
  frame: Frame,
  from: number,
  to: number,
  number: number,
  colors: Colors,
): void {
  const left = Math.max(pixelOf(frame, from), frame.left);
  const right = Math.min(pixelOf(frame, to), frame.left + frame.width);
  if (right - left < 1) return;
  context.save();
  context.beginPath();
  context.rect(left, 0, right - left, kLaneHeight);
  context.clip();
  context.strokeStyle = colors("wait");
  context.lineWidth = 1.5;
  context.beginPath();
  for (let x = left - kLaneHeight; x < right; x += 6) {
    context.moveTo(x, kLaneHeight);
    context.lineTo(x + kLaneHeight, 0);
  }
  context.stroke();
  context.restore();
  if (right - left < 16) return;
  context.fillStyle = colors("surface");
  context.fillRect((left + right) / 2 - 8, 7, 16, kLaneHeight - 14);
  context.fillStyle = colors("text");
  context.fillText(String(number), (left + right) / 2, kLaneHeight / 2);
}

export function drawLanes(
  canvas: HTMLCanvasElement,
  frame: Frame,
  timeline: Timeline,
  marks: Marks,
  colors: Colors,
): void {
  const context = canvas.getContext("2d")!;
  const ratio = devicePixelRatio;
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, canvas.width, canvas.height);
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  context.textBaseline = "middle";
  context.save();
  context.beginPath();
  context.rect(frame.left, 0, frame.width, canvas.height);
  context.clip();
  for (let lane = 0; lane < laneCount(timeline); ++lane) {
    context.fillStyle = colors("lane");
    context.fillRect(frame.left, laneTop(lane), frame.width, kLaneHeight);
  }
  marks.waits.forEach((wait, i) => drawWait(context, frame, wait.from, wait.to, i + 1, colors));
  // In the order of colours, since changing the colour costs more than a box.
  const outlined: Step[] = [];
  for (const lane of timeline.lanes) {
    for (const step of lane) {
      if (step.entry.end_seconds < frame.from || step.entry.start_seconds > frame.to) continue;
      drawBox(context, frame, step, colors);
      if (step.operation.stage === marks.stage && step.work !== "release") outlined.push(step);
    }
  }
  for (const step of outlined) drawOutline(context, frame, step, colors("text"), 2);
  const selected = marks.op === undefined ? undefined : timeline.steps[marks.op];
  if (selected !== undefined) drawOutline(context, frame, selected, colors("accent"), 3);
  context.restore();
}
