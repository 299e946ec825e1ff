// The makespan for each of many memory budgets: what another gigabyte would buy.
import { useMemo, useState } from "preact/hooks";
import type { FrontierPoint, FrontierResponse } from "../generated/stowage/v1/scheduler";
import type { View, ViewedFrontier, ViewedSchedule } from "../generated/stowage/v1/view";
import { BudgetChart, isFeasible } from "./budget_chart";
import { Card, Figure } from "./figure";
import { Shape } from "./lines_chart";
import { plain } from "./names";
import type { Go } from "./route";
import { formatRate } from "./units";

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

function PointRow({
  view,
  frontier,
  point,
  index,
  at,
  open,
}: {
  view: View;
  frontier: FrontierResponse;
  point: FrontierPoint;
  index: number;
  at: string;
  open: (() => void) | undefined;
}) {
  const prediction = point.prediction;
  const from = `${at}.points.${index}`;
  const remarks: string[] = [];
  if (frontier.knee === index) remarks.push("knee");
  if (point.memory_bytes === frontier.minimum_memory_bytes)
    remarks.push(`least for ${plain(frontier.origin?.solver ?? "")}`);
  if (point.memory_bytes === view.most_memory_bytes) remarks.push("store all");
  const budget = <Figure value={point.memory_bytes} unit="bytes" at={`${from}.memory_bytes`} />;
  return (
    <tr class={frontier.knee === index ? "knee" : ""}>
      <td class="number">
        {open === undefined ? (
          budget
        ) : (
          <button type="button" class="link" onClick={open}>
            {budget}
          </button>
        )}
      </td>
      <td class="number">
        {prediction && (
          <Figure
            value={prediction.makespan_seconds}
            unit="seconds"
            at={`${from}.prediction.makespan_seconds`}
          />
        )}
      </td>
      <td class="number">
        {prediction && (
          <Figure value={prediction.overhead} unit="excess" at={`${from}.prediction.overhead`} />
        )}
      </td>
      <td class="number">
        {prediction && (
          <Figure
            value={prediction.peak_memory_bytes}
            unit="bytes"
            at={`${from}.prediction.peak_memory_bytes`}
          />
        )}
      </td>
      <td class="number">
        {prediction && (
          <Figure value={prediction.gap} unit="percent" at={`${from}.prediction.gap`} />
        )}
      </td>
      <td>{point.outcome}</td>
      <td>{plain(point.solver)}</td>
      <td>{remarks.join(", ")}</td>
    </tr>
  );
}

interface FrontierProps {
  view: View;
  viewed: ViewedFrontier;
  index: number; // in View.frontiers
}

function Cards({ view, viewed, index }: FrontierProps) {
  const frontier = viewed.frontier!;
  const at = `frontiers.${index}.frontier`;
  const knee = frontier.knee === undefined ? undefined : frontier.points[frontier.knee];
  return (
    <dl class="cards">
      {frontier.minimum_memory_bytes !== undefined && (
        <Card
          name="least memory"
          note={
            <>
              no solver works below{" "}
              <Figure
                value={frontier.memory_floor_bytes}
                unit="bytes"
                at={`${at}.memory_floor_bytes`}
              />
            </>
          }
        >
          <Figure
            value={frontier.minimum_memory_bytes}
            unit="bytes"
            at={`${at}.minimum_memory_bytes`}
          />
        </Card>
      )}
      {knee?.prediction !== undefined && (
        <Card
          name="knee"
          note={
            <>
              takes{" "}
              <Figure
                value={knee.prediction.makespan_seconds}
                unit="seconds"
                at={`${at}.points.${frontier.knee}.prediction.makespan_seconds`}
              />
              , more memory gains little
            </>
          }
        >
          <Figure
            value={knee.memory_bytes}
            unit="bytes"
            at={`${at}.points.${frontier.knee}.memory_bytes`}
          />
        </Card>
      )}
      <Card
        name="store all"
        note={
          <>
            takes <Figure value={view.store_all_seconds} unit="seconds" at="store_all_seconds" />
          </>
        }
      >
        <Figure value={frontier.most_memory_bytes} unit="bytes" at={`${at}.most_memory_bytes`} />
      </Card>
    </dl>
  );
}

function PointTable({
  view,
  viewed,
  index,
  open,
}: FrontierProps & { open: (point: FrontierPoint) => (() => void) | undefined }) {
  const frontier = viewed.frontier!;
  return (
    <section class="panel wide" aria-label="Budgets" tabIndex={0}>
      <table class="grid">
        <thead>
          <tr>
            <th class="number">budget</th>
            <th class="number">makespan</th>
            <th class="number">overhead</th>
            <th class="number">peak</th>
            <th class="number">gap</th>
            <th>outcome</th>
            <th>solver</th>
            <td />
          </tr>
        </thead>
        <tbody>
          {frontier.points.map((point, i) => (
            <PointRow
              key={i}
              view={view}
              frontier={frontier}
              point={point}
              index={i}
              at={`frontiers.${index}.frontier`}
              open={open(point)}
            />
          ))}
        </tbody>
      </table>
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
