// Memory above, queues below, on one time axis that can be zoomed and panned. Draws by itself while
// it is moved, and tells its owner where it came to rest.
import type uPlot from "uplot";
import { gutterOf, kMargin } from "../charts/axes";
import type { Colors } from "../charts/colors";
import {
  drawLanes,
  type Frame,
  laneTop,
  kLaneHeight,
  lanesHeight,
  type Marks,
  pixelOf,
  secondsOf,
} from "./lanes";
import { makeMemoryChart, type MemoryMarks } from "./memory_chart";
import { type Step, stepAt, type Timeline } from "./timeline";

export interface Range {
  from: number;
  to: number;
}

// What charts that are compared have in common.
export interface Extent {
  seconds: number;
  bytes: number;
}

interface ChartOwner {
  moving(range: Range): void;
  moved(range: Range): void; // at rest
  hovered(step: Step | undefined): void;
  chosen(step: Step): void;
}

const kMaxZoom = 1e5;

export class TimelineChart {
  private plot: uPlot | undefined;
  private readonly canvas = document.createElement("canvas");
  private readonly line = document.createElement("div");
  private readonly memory = document.createElement("div");
  private frame: Frame;
  private marks: Marks & MemoryMarks;
  private colors: Colors;
  private pending = 0; // a requested animation frame
  private rest = 0; // a timer that reports the range
  private drag: { pointer: number; x: number; range: Range; isMoved: boolean } | undefined;

  constructor(
    private readonly root: HTMLElement,
    private readonly timeline: Timeline,
    private readonly owner: ChartOwner,
    marks: Marks & MemoryMarks,
    colors: Colors,
    private readonly extent: Extent | undefined,
  ) {
    this.marks = marks;
    this.colors = colors;
    this.frame = { left: 0, width: 1, from: 0, to: this.seconds };
    this.canvas.className = "lanes";
    this.line.className = "cursor-line";
    this.line.hidden = true;
    root.replaceChildren(this.memory, this.canvas, this.line);
    root.onpointerdown = (event) => this.pressed(event);
    root.onpointermove = (event) => this.pointed(event);
    root.onpointerup = (event) => this.released(event);
    root.onpointercancel = () => {
      this.drag = undefined;
    };
    root.onpointerleave = () => this.left();
    root.ondblclick = (event) => this.zoom(0.5, this.secondsUnder(event));
    root.addEventListener("wheel", (event) => this.wheeled(event), { passive: false });
  }

  destroy(): void {
    cancelAnimationFrame(this.pending);
    clearTimeout(this.rest);
    this.plot?.destroy();
    this.root.replaceChildren();
  }

  // Of the whole time axis.
  private get seconds(): number {
    return Math.max(this.extent?.seconds ?? this.timeline.seconds, 1e-12);
  }

  get range(): Range {
    return { from: this.frame.from, to: this.frame.to };
  }

  resize(width: number, height: number, colors: Colors): void {
    this.colors = colors;
    this.plot?.destroy();
    const left = gutterOf(width);
    this.frame = { ...this.frame, left, width: Math.max(width - left - kMargin, 1) };
    const tall = lanesHeight(this.timeline);
    this.canvas.width = Math.round(width * devicePixelRatio);
    this.canvas.height = Math.round(tall * devicePixelRatio);
    this.canvas.style.width = `${width}px`;
    this.canvas.style.height = `${tall}px`;
    this.plot = makeMemoryChart(
      this.memory,
      this.timeline,
      this.marks,
      { width, height },
      colors,
      this.extent?.bytes,
    );
    // For those who cannot see the curve: its maximum.
    let most = 0;
    for (const bytes of this.plot.data[1]!) most = Math.max(most, bytes ?? 0);
    this.root.dataset.mostBytes = String(most);
    this.draw();
  }

  mark(marks: Marks): void {
    this.marks = { ...this.marks, ...marks };
    this.drawSoon();
  }

  // What its owner wants to be shown, all where it names no range: the owner is not told.
  show(range: Range | undefined): void {
    const { from, to } = range ?? { from: 0, to: this.seconds };
    if (from !== this.frame.from || to !== this.frame.to) this.place({ from, to });
  }

  all(): void {
    this.move({ from: 0, to: this.seconds });
  }

  // Multiplies what is shown by `factor`; `around` stays where it is.
  zoom(factor: number, around = (this.frame.from + this.frame.to) / 2): void {
    const { from, to } = this.frame;
    this.move({ from: around - (around - from) * factor, to: around + (to - around) * factor });
  }

  pan(share: number): void {
    const by = (this.frame.to - this.frame.from) * share;
    this.move({ from: this.frame.from + by, to: this.frame.to + by });
  }

  // Pans as little as it takes to see the operation.
  reveal(step: Step): void {
    const { from, to } = this.frame;
    const middle = (step.entry.start_seconds + step.entry.end_seconds) / 2;
    if (middle < from || middle > to) this.pan((middle - (from + to) / 2) / (to - from));
  }

  // What somebody who looks at it wants to be shown.
  private move(range: Range): void {
    this.place(range);
    this.owner.moving(this.range);
    clearTimeout(this.rest);
    this.rest = setTimeout(() => this.owner.moved(this.range), 150);
  }

  private place({ from, to }: Range): void {
    const whole = this.seconds;
    const length = Math.min(Math.max(to - from, whole / kMaxZoom), whole);
    from = Math.min(Math.max(from, 0), whole - length);
    this.frame = { ...this.frame, from, to: from + length };
    this.drawSoon();
  }

  private drawSoon(): void {
    if (this.pending === 0) this.pending = requestAnimationFrame(() => this.draw());
  }

  private draw(): void {
    this.pending = 0;
    this.plot?.setScale("x", { min: this.frame.from, max: this.frame.to });
    drawLanes(this.canvas, this.frame, this.timeline, this.marks, this.colors);
  }

  private secondsUnder(event: MouseEvent): number {
    return secondsOf(this.frame, event.clientX - this.root.getBoundingClientRect().left);
  }

  // In the lanes the operation of that lane, above them the computation at that time.
  private stepUnder(event: MouseEvent): Step | undefined {
    const seconds = this.secondsUnder(event);
    if (seconds < this.frame.from || seconds > this.frame.to) return undefined;
    const slack = ((this.frame.to - this.frame.from) / this.frame.width) * 3;
    const y = event.clientY - this.canvas.getBoundingClientRect().top;
    if (y < 0) return stepAt(this.timeline.lanes[0]!, seconds, Infinity);
    const lane = this.timeline.lanes.findIndex(
      (_, i) => y >= laneTop(i) && y < laneTop(i) + kLaneHeight,
    );
    return lane < 0 ? undefined : stepAt(this.timeline.lanes[lane]!, seconds, slack);
  }

  private wheeled(event: WheelEvent): void {
    const isZoom = event.ctrlKey || event.metaKey;
    if (isZoom) this.zoom(Math.exp(event.deltaY / 300), this.secondsUnder(event));
    else if (event.deltaX !== 0 || event.shiftKey)
      this.pan((event.deltaX || event.deltaY) / this.frame.width);
    else return; // the page scrolls
    event.preventDefault();
  }

  private pressed(event: PointerEvent): void {
    if (event.button !== 0) return;
    this.drag = { pointer: event.pointerId, x: event.clientX, range: this.range, isMoved: false };
  }

  private pointed(event: PointerEvent): void {
    const { drag } = this;
    if (drag !== undefined && drag.pointer === event.pointerId) {
      const by = event.clientX - drag.x;
      if (!drag.isMoved && Math.abs(by) < 4) return;
      if (!drag.isMoved) this.root.setPointerCapture(event.pointerId);
      drag.isMoved = true;
      const seconds = (by / this.frame.width) * (drag.range.to - drag.range.from);
      this.move({ from: drag.range.from - seconds, to: drag.range.to - seconds });
      return;
    }
    const x = pixelOf(this.frame, this.secondsUnder(event));
    this.line.style.transform = `translateX(${x}px)`;
    this.line.hidden = x < this.frame.left || x > this.frame.left + this.frame.width;
    this.owner.hovered(this.stepUnder(event));
  }

  private released(event: PointerEvent): void {
    const wasClick = this.drag !== undefined && !this.drag.isMoved;
    this.drag = undefined;
    const step = wasClick ? this.stepUnder(event) : undefined;
    if (step !== undefined) this.owner.chosen(step);
  }

  private left(): void {
    this.line.hidden = true;
    this.owner.hovered(undefined);
  }
}
