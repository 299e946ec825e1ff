// The chart of a schedule, its tools and its keys.
import { useEffect, useRef } from "preact/hooks";
import type { Chain } from "../../generated/stowage/v1/model";
import { readColors, useScheme } from "../charts/colors";
import { namedOperation } from "../parts/names";
import { formatBytes, formatSeconds } from "../parts/units";
import { kLaneHeight, laneCount, lanesHeight, laneTop, type Marks } from "./lanes";
import type { MemoryMarks } from "./memory_chart";
import { kLanes, type Step, type Timeline } from "./timeline";
import { type Extent, TimelineChart, type Range } from "./timeline_chart";

// Charts that move together.
export class LinkedCharts {
  private readonly charts = new Set<TimelineChart>();

  add(chart: TimelineChart): void {
    this.charts.add(chart);
  }
  remove(chart: TimelineChart): void {
    this.charts.delete(chart);
  }
  moved(range: Range): void {
    for (const chart of this.charts) chart.show(range);
  }
}

interface Props {
  chain: Chain;
  timeline: Timeline;
  marks: Marks & MemoryMarks;
  range: Range | undefined; // undefined: all
  onRange: (range: Range | undefined) => void;
  onHover: (step: Step | undefined) => void;
  onChoose: (index: number) => void;
  name?: string; // where there are several
  hasTools?: boolean;
  extent?: Extent | undefined; // shared with those that it is compared with
  linked?: LinkedCharts | undefined;
}

export function TimelineView({
  chain,
  timeline,
  marks,
  range,
  onRange,
  onHover,
  onChoose,
  name = "Operations over time",
  hasTools = true,
  extent,
  linked,
}: Props) {
  const root = useRef<HTMLDivElement>(null);
  const chart = useRef<TimelineChart | null>(null);
  const calls = useRef({ onRange, onHover, onChoose });
  calls.current = { onRange, onHover, onChoose };
  const scheme = useScheme();

  useEffect(() => {
    const element = root.current!;
    const made = new TimelineChart(
      element,
      timeline,
      {
        moving: (shown) => linked?.moved(shown),
        moved: ({ from, to }) => {
          const isAll = from <= 0 && to >= (extent?.seconds ?? timeline.seconds);
          calls.current.onRange(isAll ? undefined : { from, to });
        },
        hovered: (step) => calls.current.onHover(step),
        chosen: (step) => calls.current.onChoose(step.index),
      },
      marks,
      readColors(),
      extent,
    );
    chart.current = made;
    linked?.add(made);
    const resized = () => {
      const height = Math.min(Math.max(innerHeight * 0.34, 180), 420);
      made.resize(element.clientWidth, height, readColors());
    };
    const observer = new ResizeObserver(resized);
    observer.observe(element);
    return () => {
      observer.disconnect();
      linked?.remove(made);
      made.destroy();
    };
  }, [timeline, scheme, extent, linked]);
  useEffect(() => chart.current?.mark(marks), [marks.op, marks.stage, timeline]);
  useEffect(() => {
    chart.current?.show(range);
  }, [range?.from, range?.to, timeline, scheme, extent]);
  const revealed = useRef(marks.op); // an address that names a range is shown as it is
  useEffect(() => {
    const step = marks.op === undefined ? undefined : timeline.steps[marks.op];
    if (step !== undefined && marks.op !== revealed.current) chart.current?.reveal(step);
    revealed.current = marks.op;
  }, [marks.op, timeline]);

  const last = timeline.steps.length - 1;
  const op = Math.min(marks.op ?? 0, last);
  const keys: Record<string, () => void> = {
    ArrowLeft: () => onChoose(Math.max(op - 1, 0)),
    ArrowRight: () => onChoose(Math.min(op + 1, last)),
    ArrowUp: () => onChoose(Math.max(op - 1, 0)),
    ArrowDown: () => onChoose(Math.min(op + 1, last)),
    Home: () => onChoose(0),
    End: () => onChoose(last),
    PageUp: () => chart.current?.pan(-0.5),
    PageDown: () => chart.current?.pan(0.5),
    "+": () => chart.current?.zoom(0.5),
    "=": () => chart.current?.zoom(0.5),
    "-": () => chart.current?.zoom(2),
    "0": () => chart.current?.all(),
  };
  const pressed = (event: KeyboardEvent) => {
    const action = event.ctrlKey || event.metaKey || event.altKey ? undefined : keys[event.key];
    if (action === undefined) return;
    event.preventDefault();
    action();
  };
  const step = timeline.steps[op];
  const said =
    step === undefined
      ? ""
      : `operation ${op}, ${namedOperation(chain, step.operation)}, starts at ` +
        `${formatSeconds(step.entry.start_seconds)}, memory ` +
        formatBytes(Number(step.entry.memory_bytes));

  return (
    <div class="timeline">
      <div class="toolbar" role="toolbar" aria-label="Zoom and pan" hidden={!hasTools}>
        <button type="button" onClick={() => chart.current?.zoom(0.5)} aria-label="Zoom in">
          +
        </button>
        <button type="button" onClick={() => chart.current?.zoom(2)} aria-label="Zoom out">
          −
        </button>
        <button type="button" onClick={() => chart.current?.pan(-0.5)} aria-label="Earlier">
          ‹
        </button>
        <button type="button" onClick={() => chart.current?.pan(0.5)} aria-label="Later">
          ›
        </button>
        <button type="button" onClick={() => chart.current?.all()}>
          All
        </button>
        <span class="hint">drag pans · Ctrl+wheel zooms · arrow keys step through operations</span>
      </div>
      <div class="plot">
        <div
          class="chart"
          ref={root}
          tabIndex={0}
          role="slider"
          aria-label={name}
          aria-valuemin={0}
          aria-valuemax={last}
          aria-valuenow={op}
          aria-valuetext={said}
          onKeyDown={pressed}
        />
        <div class="lane-names" aria-hidden="true" style={{ height: `${lanesHeight(timeline)}px` }}>
          {kLanes.slice(0, laneCount(timeline)).map((name, lane) => (
            <span key={name} style={{ top: `${laneTop(lane)}px`, height: `${kLaneHeight}px` }}>
              {name}
            </span>
          ))}
        </div>
      </div>
    </div>
  );
}
