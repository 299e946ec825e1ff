// One schedule: its figures, its memory and queues over time, its stages.
import { useMemo, useState } from "preact/hooks";
import type { SolveResponse } from "../../generated/stowage/v1/scheduler";
import type { View, ViewedSchedule } from "../../generated/stowage/v1/view";
import { Card, Figure, figuresOf } from "../parts/figure";
import { namedOperation, operationName, plain } from "../parts/names";
import type { Go, Route } from "../parts/route";
import { formatBytes, formatPercent } from "../parts/units";
import { OperationDetails, PeakDetails, type Place, StageDetails, WaitDetails } from "./details";
import { fateOf, StageStrip } from "./stage_strip";
import {
  kindsOf,
  kMemoryNames,
  type MemoryKind,
  type Step,
  type Timeline,
  timelineOf,
} from "./timeline";
import { TimelineView } from "./timeline_view";

const kLimits: Record<string, string> = {
  HEURISTIC: "heuristic",
  ROUNDING: "up to rounding",
  TIME: "time ran out",
  CLASS: "the best of its class",
};

// "rotor · 977.04 MiB": a schedule's name where there are several.
export function scheduleLabel(viewed: ViewedSchedule): string {
  const { origin, platform } = viewed.answer ?? {};
  const own = viewed.name === "" ? "schedule" : plain(viewed.name);
  const name = origin === undefined ? own : plain(origin.solver);
  return `${name} · ${formatBytes(Number(platform?.memory_bytes ?? 0))}`;
}

function titleOf(viewed: ViewedSchedule): string {
  const { origin } = viewed.answer ?? {};
  if (origin !== undefined) return plain(origin.solver);
  return viewed.name === "" ? "schedule" : plain(viewed.name);
}

function Verdict({ answer, viewed }: { answer: SolveResponse; viewed: ViewedSchedule }) {
  if (viewed.measured) return <span class="verdict">a measured step</span>;
  if (answer.origin === undefined) {
    const fits = viewed.simulation?.feasible === true;
    return (
      <span class={`verdict ${fits ? "good" : "bad"}`}>
        {fits ? "within every limit" : "over a limit"}
      </span>
    );
  }
  const limit = kLimits[answer.limit];
  const tone = answer.outcome === "OPTIMAL" ? "good" : answer.outcome === "INFEASIBLE" ? "bad" : "";
  return (
    <span class={`verdict ${tone}`}>
      {answer.outcome}
      {limit !== undefined && ` (${limit})`}
    </span>
  );
}

interface Props {
  view: View;
  viewed: ViewedSchedule;
  route: Route;
  go: Go;
}

function Cards({
  view,
  viewed,
  at,
  choose,
}: {
  view: View;
  viewed: ViewedSchedule;
  at: string;
  choose: (op: number) => void;
}) {
  const answer = viewed.answer!;
  const simulation = viewed.simulation!;
  const schedule = answer.schedule!;
  const [prediction, from] =
    answer.prediction !== undefined
      ? ([answer.prediction, `${at}.answer.prediction`] as const)
      : ([simulation.prediction!, `${at}.simulation.prediction`] as const);
  const budget = Number(answer.platform?.memory_bytes ?? 0);
  const low = Number(view.memory_floor_bytes);
  const high = Number(view.most_memory_bytes);
  const isWithin = budget < high && high > low;
  const peak = Number(prediction.peak_memory_bytes);
  const peakAt = simulation.explanation?.peaks[0]?.operation;
  const peakOperation = schedule.operations[Number(peakAt ?? 0)];
  const platform = answer.platform;
  const figure = figuresOf(prediction, from);
  const ofView = figuresOf(view, "");
  return (
    <dl class="cards">
      <Card name="makespan" note={<>{figure("overhead", "excess")} over storing everything</>}>
        {figure("makespan_seconds", "seconds")}
      </Card>
      <Card
        name="peak"
        tone={simulation.feasible ? undefined : "bad"}
        note={
          <>
            {budget > 0 && `${formatPercent(peak / budget)} of the budget, at `}
            {peakAt !== undefined && peakOperation !== undefined && (
              <button type="button" class="link" onClick={() => choose(Number(peakAt))}>
                {operationName(view.chain!, peakOperation)}
              </button>
            )}
          </>
        }
      >
        {figure("peak_memory_bytes", "bytes")}
      </Card>
      <Card
        name="budget"
        note={
          <>
            {isWithin && `${formatPercent((budget - low) / (high - low))} of the way `}from{" "}
            {ofView("memory_floor_bytes", "bytes")} to {ofView("most_memory_bytes", "bytes")}
          </>
        }
      >
        <Figure
          value={answer.platform?.memory_bytes ?? "0"}
          unit="bytes"
          at={`${at}.answer.platform.memory_bytes`}
        />
      </Card>
      <Card name="recompute" note="what runs more than once">
        {figure("recompute_seconds", "seconds")}
      </Card>
      <Card name="idle" note="waiting for transfers">
        {figure("idle_seconds", "seconds")}
      </Card>
      {prediction.peak_host_bytes !== "0" && platform !== undefined && (
        <Card
          name="on the host"
          note={
            <>
              over {figuresOf(answer, `${at}.answer`)("platform.offload_bytes_per_second", "rate")}
              {platform.half_duplex ? ", one link for both ways" : " each way"}
            </>
          }
        >
          {figure("peak_host_bytes", "bytes")}
        </Card>
      )}
      <Card name="lower bound" note={<>no schedule takes less; gap {figure("gap", "percent")}</>}>
        {figure("lower_bound_seconds", "seconds")}
      </Card>
    </dl>
  );
}

function Infeasible({ view, answer, at }: { view: View; answer: SolveResponse; at: string }) {
  const floor = answer.memory_floor_operation;
  const figure = figuresOf(answer, `${at}.answer`);
  const least = figure("minimum_memory_bytes", "bytes");
  return (
    <section class="panel" aria-label="Infeasible">
      <p>
        {plain(answer.origin?.solver ?? "")} has no schedule within{" "}
        <Figure
          value={answer.platform?.memory_bytes ?? "0"}
          unit="bytes"
          at={`${at}.answer.platform.memory_bytes`}
        />
        .
      </p>
      {least && <p>It works with {least} or more.</p>}
      <p>
        No solver works below {figure("memory_floor_bytes", "bytes")}
        {floor !== undefined && (
          <>
            , which <bdi>{namedOperation(view.chain!, floor)}</bdi> needs by itself
          </>
        )}
        .
      </p>
    </section>
  );
}

export function Legend({ timeline, kinds }: { timeline: Timeline; kinds: MemoryKind[] }) {
  const queues = [
    ["forward", "F forward"],
    ["recomputed", "R recomputed"],
    ["backward", "B backward"],
    ...(timeline.usesLink
      ? [
          ["offload", "↑ to host"],
          ["prefetch", "↓ to device"],
          ["wait", "compute waits"],
        ]
      : []),
  ] as [string, string][];
  return (
    <ul class="legend">
      {[...kinds].reverse().map((kind) => (
        <li key={kind}>
          <span class={`swatch ${kind}`} />
          {kMemoryNames[kind]}
        </li>
      ))}
      <li class="divider" aria-hidden="true" />
      {queues.map(([work, name]) => (
        <li key={work}>
          <span class={`swatch ${work}`} />
          {name}
        </li>
      ))}
    </ul>
  );
}

function FateCounts({ viewed }: { viewed: ViewedSchedule }) {
  const stages = viewed.simulation?.explanation?.stages ?? [];
  const count = (fate: string) => stages.filter((stage) => fateOf(stage) === fate).length;
  const recomputed = stages.filter((stage) => stage.recomputed > 0).length;
  const names = [
    ["saved", "S saved"],
    ["checkpoint", "c kept as checkpoint"],
    ["dropped", "· dropped"],
    ["offloaded", "O offloaded"],
  ] as const;
  return (
    <ul class="legend">
      {names
        .filter(([fate]) => fate !== "offloaded" || count(fate) > 0)
        .map(([fate, name]) => (
          <li key={fate}>
            <span class={`swatch fate-${fate}`} />
            {count(fate)} {name}
          </li>
        ))}
      <li>{recomputed} recomputed (times below)</li>
    </ul>
  );
}

// What a schedule's chart is marked with: its budget, its peak, its longest waits.
export function marksOf(viewed: ViewedSchedule, timeline: Timeline) {
  const explanation = viewed.simulation?.explanation;
  const peak = explanation?.peaks[0];
  const start = (index: number) => timeline.steps[index]?.entry.start_seconds ?? timeline.seconds;
  return {
    budget: Number(viewed.answer?.platform?.memory_bytes ?? 0),
    peak: peak && {
      seconds: timeline.times[timeline.curve[Number(peak.operation)] ?? 0] ?? 0,
      bytes: Number(peak.memory_bytes),
    },
    waits: (explanation?.idles ?? []).map((idle) => {
      const to = start(Number(idle.operation));
      return { from: to - idle.seconds, to };
    }),
  };
}

export function ScheduleView({ view, viewed, route, go }: Props) {
  const chain = view.chain!;
  const at = `schedules.${route.schedule}`;
  const answer = viewed.answer!;
  const timeline = useMemo(() => timelineOf(viewed), [viewed]);
  const [hovered, setHovered] = useState<Step>();
  const explanation = viewed.simulation?.explanation;
  const choose = (op: number) => go({ op });
  const place: Place = { chain, at, choose };

  const marks = useMemo(() => marksOf(viewed, timeline), [viewed, timeline]);

  const title = (
    <div class="headline">
      <h1>{titleOf(viewed)}</h1>
      <Verdict answer={answer} viewed={viewed} />
    </div>
  );
  const notes = (
    <>
      {(answer.warnings ?? []).map((warning, i) => (
        <p key={i} class="warning">
          warning: {plain(warning.field)}: {warning.problem}
        </p>
      ))}
      {(answer.explanation?.notes ?? []).map((note, i) => (
        <p key={i} class="muted">
          note: {note}
        </p>
      ))}
    </>
  );
  if (explanation === undefined || answer.schedule === undefined) {
    return (
      <>
        {title}
        {notes}
        <Infeasible view={view} answer={answer} at={at} />
      </>
    );
  }
  const schedule = answer.schedule;
  const selected =
    route.op !== undefined && route.op < timeline.steps.length
      ? Math.floor(route.op)
      : Number(explanation.peaks[0]?.operation ?? 0);
  const stage =
    route.stage !== undefined && route.stage >= 1 && route.stage <= chain.stages.length
      ? Math.floor(route.stage)
      : undefined;
  const step = hovered ?? timeline.steps[selected];
  const range =
    route.from !== undefined && route.to !== undefined && route.from < route.to
      ? { from: route.from, to: route.to }
      : undefined;
  return (
    <>
      {title}
      {notes}
      <Cards view={view} viewed={viewed} at={at} choose={choose} />
      <section class="panel wide" aria-label="Memory and queues over time">
        <Legend timeline={timeline} kinds={kindsOf(viewed)} />
        <TimelineView
          chain={chain}
          timeline={timeline}
          range={range}
          marks={{ ...marks, op: selected, stage }}
          onRange={(next) => go({ from: next?.from, to: next?.to })}
          onHover={setHovered}
          onChoose={choose}
        />
      </section>
      <section class="panel wide" aria-label="Stages in the first sweep">
        <h2>Stages in the first sweep</h2>
        <FateCounts viewed={viewed} />
        <StageStrip
          chain={chain}
          stages={explanation.stages}
          selected={stage}
          onSelect={(next) => go({ stage: next })}
        />
      </section>
      <div class="panels">
        {step !== undefined && <OperationDetails place={place} schedule={schedule} step={step} />}
        {stage !== undefined && (
          <StageDetails
            place={place}
            schedule={schedule}
            explanation={explanation}
            timeline={timeline}
            stage={stage}
          />
        )}
        <PeakDetails place={place} schedule={schedule} explanation={explanation} />
        <WaitDetails place={place} schedule={schedule} explanation={explanation} />
      </div>
    </>
  );
}
