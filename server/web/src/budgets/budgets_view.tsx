// The makespan for each of many memory budgets: what another gigabyte would buy.
import { useMemo, useState } from "preact/hooks";
import type { FrontierPoint, FrontierResponse } from "../../generated/stowage/v1/scheduler";
import type { View, ViewedFrontier, ViewedSchedule } from "../../generated/stowage/v1/view";
import { Shape } from "../charts/lines_chart";
import { Card, figuresOf, type Located, located } from "../parts/figure";
import { plain } from "../parts/names";
import type { Go } from "../parts/route";
import { type Column, Table } from "../parts/table";
import { formatRate } from "../parts/units";
import { BudgetChart, isFeasible } from "./budget_chart";

// Whether a schedule is a point's: of its budget, and of its solver and link where both are known.
// A file's schedule names no solver, and is told by its makespan.
function isOf(schedule: ViewedSchedule, viewed: ViewedFrontier, point: FrontierPoint): boolean {
  const { answer, simulation } = schedule;
  const platform = answer?.platform;
  if (schedule.measured || platform?.memory_bytes !== point.memory_bytes) return false;
  const link = viewed.platform?.offload_bytes_per_second;
  if (link !== undefined && link !== platform.offload_bytes_per_second) return false;
  const solver = answer?.origin?.solver;
  if (solver !== undefined) return link !== undefined || solver === point.solver;
  const makespan = simulation?.prediction?.makespan_seconds ?? 0;
  const expected = point.prediction?.makespan_seconds ?? 0;
  return Math.abs(makespan - expected) <= 1e-3 * expected;
}

function scheduleOf(view: View, viewed: ViewedFrontier, point: FrontierPoint): number | undefined {
  const index = view.schedules.findIndex((schedule) => isOf(schedule, viewed, point));
  return index < 0 ? undefined : index;
}

// "pofo · 6.0 GB/s", "pofo · slow-link.json".
function nameOf(viewed: ViewedFrontier): string {
  const solver = plain(viewed.frontier?.origin?.solver ?? "");
  const link = Number(viewed.platform?.offload_bytes_per_second ?? 0);
  if (viewed.name !== "") return `${solver} · ${plain(viewed.name)}`;
  return link > 0 ? `${solver} · ${formatRate(link)}` : solver;
}

interface FrontierProps {
  view: View;
  viewed: ViewedFrontier;
  index: number; // in View.frontiers
}

function Cards({ view, viewed, index }: FrontierProps) {
  const frontier = viewed.frontier!;
  const at = `frontiers.${index}.frontier`;
  const { knee } = frontier;
  const own = figuresOf(frontier, at);
  const least = own("minimum_memory_bytes", "bytes");
  const atKnee = figuresOf(frontier.points[knee ?? -1], `${at}.points.${knee}`);
  const kneeSeconds = atKnee("prediction.makespan_seconds", "seconds");
  const floor = own("memory_floor_bytes", "bytes");
  const storeAll = figuresOf(view, "")("store_all_seconds", "seconds");
  return (
    <dl class="cards">
      {least && (
        <Card name="least memory" note={<>no solver works below {floor}</>}>
          {least}
        </Card>
      )}
      {kneeSeconds && (
        <Card name="knee" note={<>takes {kneeSeconds}, more memory gains little</>}>
          {atKnee("memory_bytes", "bytes")}
        </Card>
      )}
      <Card name="store all" note={<>takes {storeAll}</>}>
        {own("most_memory_bytes", "bytes")}
      </Card>
    </dl>
  );
}

const kPredicted: Column<FrontierPoint>[] = [
  { head: "makespan", path: "prediction.makespan_seconds", unit: "seconds" },
  { head: "overhead", path: "prediction.overhead", unit: "excess" },
  { head: "peak", path: "prediction.peak_memory_bytes", unit: "bytes" },
  { head: "gap", path: "prediction.gap", unit: "percent" },
  { head: "outcome", cell: ({ of }) => of.outcome },
  { head: "solver", cell: ({ of }) => plain(of.solver) },
];

// What a click on a point does, if anything.
type Open = (point: FrontierPoint) => (() => void) | undefined;

// The budget, which leads to the point's schedule where there is one.
function Budget({ point, open }: { point: Located<FrontierPoint>; open: Open }) {
  const budget = figuresOf(point.of, point.at)("memory_bytes", "bytes");
  const opened = open(point.of);
  if (opened === undefined) return <>{budget}</>;
  return (
    <button type="button" class="link" onClick={opened}>
      {budget}
    </button>
  );
}

function remarksOf(view: View, frontier: FrontierResponse, point: FrontierPoint, index: number) {
  const remarks: string[] = [];
  if (frontier.knee === index) remarks.push("knee");
  if (point.memory_bytes === frontier.minimum_memory_bytes)
    remarks.push(`least for ${plain(frontier.origin?.solver ?? "")}`);
  if (point.memory_bytes === view.most_memory_bytes) remarks.push("store all");
  return remarks.join(", ");
}

function PointTable({ view, viewed, index, open }: FrontierProps & { open: Open }) {
  const frontier = viewed.frontier!;
  const columns: Column<FrontierPoint>[] = [
    { head: "budget", isNumber: true, cell: (point) => <Budget point={point} open={open} /> },
    ...kPredicted,
    { head: "", cell: ({ of }, i) => remarksOf(view, frontier, of, i) },
  ];
  return (
    <section class="panel wide" aria-label="Budgets" tabIndex={0}>
      <Table
        columns={columns}
        rows={located(frontier.points, `frontiers.${index}.frontier.points`)}
        rowClass={(_, i) => (frontier.knee === i ? "knee" : "")}
      />
    </section>
  );
}

function Legend({ frontiers }: { frontiers: ViewedFrontier[] }) {
  const isOne = frontiers.length === 1;
  return (
    <ul class="legend">
      {frontiers.map((viewed, i) => (
        <li key={i}>
          <Shape index={i} />
          {isOne ? "makespan" : <bdi>{nameOf(viewed)}</bdi>}
        </li>
      ))}
      <li>
        <span class="swatch bound" />
        {isOne ? "lower bound: no schedule takes less" : "its lower bound, in its colour"}
      </li>
      <li>
        <span class="swatch least" />
        {isOne ? "least memory" : "least memory of each"}
      </li>
    </ul>
  );
}

interface Props {
  view: View;
  go: Go;
  // Where somebody solves for the page: the frontiers from this one on are of that solver.
  solve: ((memoryBytes: number) => void) | undefined;
  solvesFrom: number;
}

export function BudgetsView({ view, go, solve, solvesFrom }: Props) {
  const { frontiers } = view;
  const [asked, choose] = useState(0);
  const index = Math.min(asked, frontiers.length - 1);
  const viewed = frontiers[index]!;
  const responses = useMemo(() => frontiers.map(({ frontier }) => frontier!), [frontiers]);
  const open = (of: number, point: FrontierPoint) => {
    if (!isFeasible(point)) return undefined;
    const schedule = scheduleOf(view, frontiers[of]!, point);
    if (schedule !== undefined)
      return () =>
        go({ view: "schedule", schedule, op: undefined, from: undefined, to: undefined });
    return of < solvesFrom ? undefined : solve && (() => solve(Number(point.memory_bytes)));
  };
  return (
    <>
      <div class="headline">
        <h1>{frontiers.length === 1 ? nameOf(viewed) : `${frontiers.length} solvers and links`}</h1>
        <span class="verdict">
          {frontiers.reduce((sum, { frontier }) => sum + frontier!.points.length, 0)} budgets
        </span>
      </div>
      {frontiers.length > 1 && (
        <p class="chooser">
          <label>
            figures of{" "}
            <select
              value={String(index)}
              onChange={(event) => choose(Number(event.currentTarget.value))}
            >
              {frontiers.map((one, i) => (
                <option key={i} value={String(i)}>
                  {nameOf(one)}
                </option>
              ))}
            </select>
          </label>
        </p>
      )}
      {viewed.frontier!.notes.map((note, i) => (
        <p key={i} class="muted">
          note: {note}
        </p>
      ))}
      <Cards view={view} viewed={viewed} index={index} />
      {responses.some((frontier) => frontier.points.some(isFeasible)) && (
        <section class="panel wide" aria-label="Makespan over memory">
          <Legend frontiers={frontiers} />
          <BudgetChart
            view={view}
            frontiers={responses}
            onChoose={(of, point) => {
              choose(of);
              open(of, point)?.();
            }}
          />
        </section>
      )}
      <PointTable view={view} viewed={viewed} index={index} open={(point) => open(index, point)} />
    </>
  );
}
