// Two schedules, one above the other on the same axes, and what differs: before and after, two
// solvers, predicted and measured.
import { useMemo, useState } from "preact/hooks";
import type { Prediction } from "../../generated/stowage/v1/scheduler";
import type { View, ViewedSchedule } from "../../generated/stowage/v1/view";
import { Figure } from "../parts/figure";
import type { Go, Route } from "../parts/route";
import { format, formatPercent, type Unit } from "../parts/units";
import { OperationDetails } from "./details";
import { Legend, marksOf, scheduleLabel } from "./schedule_view";
import { kindsOf, type Step, timelineOf } from "./timeline";
import type { Extent, Range } from "./timeline_chart";
import { LinkedCharts, TimelineView } from "./timeline_view";

// All figures are the better the smaller they are.
function toneOf(before: number, after: number): string {
  return after < before ? "good" : after > before ? "bad" : "";
}

interface Side {
  viewed: ViewedSchedule;
  index: number; // in View.schedules
  letter: "A" | "B";
}

type Row = readonly [key: keyof Prediction, name: string, unit: Unit];
const kRows: Row[] = [
  ["makespan_seconds", "makespan", "seconds"],
  ["overhead", "overhead over storing everything", "excess"],
  ["peak_memory_bytes", "peak", "bytes"],
  ["recompute_seconds", "recompute", "seconds"],
  ["idle_seconds", "idle", "seconds"],
  ["peak_host_bytes", "on the host", "bytes"],
];

function predictionOf({ viewed, index }: Side): { prediction: Prediction; at: string } {
  const own = viewed.answer?.prediction;
  return own !== undefined
    ? { prediction: own, at: `schedules.${index}.answer.prediction` }
    : {
        prediction: viewed.simulation!.prediction!,
        at: `schedules.${index}.simulation.prediction`,
      };
}

// A trace has no memory of the host, and that of the device only where a meter ran.
function isUnknown({ viewed }: Side, prediction: Prediction, key: keyof Prediction): boolean {
  return viewed.measured && key.startsWith("peak_") && prediction[key] === "0";
}

// "+12.3 ms, +4.5 %"; of shares "+4.5 points".
function differenceText(before: number, after: number, unit: Unit): string {
  const by = after - before;
  if (by === 0) return "the same";
  const sign = by < 0 ? "−" : "+";
  if (unit === "excess") return `${sign}${(Math.abs(by) * 100).toFixed(1)} points`;
  const absolute = `${sign}${format(Math.abs(by), unit)}`;
  return before === 0 ? absolute : `${absolute}, ${sign}${formatPercent(Math.abs(by) / before)}`;
}

function Differences({ a, b }: { a: Side; b: Side }) {
  const before = predictionOf(a);
  const after = predictionOf(b);
  return (
    <section class="panel scrolls" aria-label="Differences" tabIndex={0}>
      <table class="grid">
        <thead>
          <tr>
            <td />
            <th class="number">A</th>
            <th class="number">B</th>
            <th class="number">B against A</th>
          </tr>
        </thead>
        <tbody>
          {kRows.map(([key, name, unit]) => {
            const values = [Number(before.prediction[key]), Number(after.prediction[key])] as const;
            const lacks = [
              isUnknown(a, before.prediction, key),
              isUnknown(b, after.prediction, key),
            ];
            return (
              <tr key={key}>
                <th>{name}</th>
                {[before, after].map(({ prediction, at }, i) => (
                  <td key={i} class="number">
                    {lacks[i] ? (
                      "not measured"
                    ) : (
                      <Figure value={String(prediction[key])} unit={unit} at={`${at}.${key}`} />
                    )}
                  </td>
                ))}
                <td
                  class={`number ${lacks.includes(true) ? "" : toneOf(...values)}`}
                  data-difference={key}
                >
                  {lacks.includes(true) ? "–" : differenceText(values[0], values[1], unit)}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </section>
  );
}

interface ChartProps {
  view: View;
  side: Side;
  extent: Extent;
  linked: LinkedCharts;
  range: Range | undefined;
  onRange: (range: Range | undefined) => void;
}

function Chart({ view, side, extent, linked, range, onRange }: ChartProps) {
  const { viewed, index, letter } = side;
  const timeline = useMemo(() => timelineOf(viewed), [viewed]);
  const marks = useMemo(() => marksOf(viewed, timeline), [viewed, timeline]);
  const [op, setOp] = useState(Number(viewed.simulation?.explanation?.peaks[0]?.operation ?? 0));
  const [hovered, setHovered] = useState<Step>();
  const step = hovered ?? timeline.steps[op];
  const chain = view.chain!;
  return (
    <section class="panel wide" aria-label={`Schedule ${letter}`}>
      <h2>
        {letter}: <bdi>{scheduleLabel(viewed)}</bdi>
      </h2>
      <Legend timeline={timeline} kinds={kindsOf(viewed)} />
      <TimelineView
        name={`Operations of ${letter} over time`}
        hasTools={letter === "A"}
        chain={chain}
        timeline={timeline}
        range={range}
        marks={{ ...marks, op, stage: step?.operation.stage }}
        onRange={onRange}
        onHover={setHovered}
        onChoose={setOp}
        extent={extent}
        linked={linked}
      />
      {step !== undefined && (
        <OperationDetails
          place={{ chain, at: `schedules.${index}`, choose: setOp }}
          schedule={viewed.answer!.schedule!}
          step={step}
          name={`Operation of ${letter}`}
        />
      )}
    </section>
  );
}

interface Props {
  view: View;
  a: number; // indices in View.schedules
  b: number;
  route: Route;
  go: Go;
}

export function CompareView({ view, a, b, route, go }: Props) {
  const linked = useMemo(() => new LinkedCharts(), []);
  const sides: Side[] = [
    { viewed: view.schedules[a]!, index: a, letter: "A" },
    { viewed: view.schedules[b]!, index: b, letter: "B" },
  ];
  const shown = sides.filter(({ viewed }) => viewed.simulation !== undefined);
  const extent = useMemo(
    () => ({
      seconds: Math.max(
        ...shown.map(({ viewed }) => viewed.simulation!.prediction?.makespan_seconds ?? 0),
      ),
      bytes: Math.max(
        ...shown.map(({ viewed }) =>
          Math.max(
            Number(viewed.answer?.platform?.memory_bytes ?? 0),
            Number(viewed.simulation!.prediction?.peak_memory_bytes ?? 0),
          ),
        ),
      ),
    }),
    [view.schedules, a, b],
  );
  const range =
    route.from !== undefined && route.to !== undefined && route.from < route.to
      ? { from: route.from, to: route.to }
      : undefined;
  const chooser = (name: string, chosen: number, choose: (index: number) => void) => (
    <label>
      {name}{" "}
      <select
        value={String(chosen)}
        onChange={(event) => choose(Number(event.currentTarget.value))}
      >
        {view.schedules.map((one, i) => (
          <option key={i} value={String(i)}>
            {scheduleLabel(one)}
          </option>
        ))}
      </select>
    </label>
  );
  const whole = { from: undefined, to: undefined };
  return (
    <>
      <h1>Two schedules</h1>
      <p class="chooser choosers">
        {chooser("A", a, (schedule) => go({ schedule, other: b, ...whole }))}
        {chooser("B", b, (other) => go({ schedule: a, other, ...whole }))}
      </p>
      {shown.length < 2 ? (
        <p class="bad">One of them is INFEASIBLE: there is nothing to compare.</p>
      ) : (
        <Differences a={sides[0]!} b={sides[1]!} />
      )}
      {shown.map((side) => (
        <Chart
          key={`${side.letter} ${side.index}`}
          view={view}
          side={side}
          extent={extent}
          linked={linked}
          range={range}
          onRange={(next) => go({ from: next?.from, to: next?.to })}
        />
      ))}
    </>
  );
}
