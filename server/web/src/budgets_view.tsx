// The makespan for each of many memory budgets: what another gigabyte would buy.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { FrontierPoint, FrontierResponse } from "../generated/stowage/v1/scheduler";
import type { View, ViewedFrontier } from "../generated/stowage/v1/view";
import { type Colors, readColors, useScheme } from "./colors";
import { Card, Figure } from "./figure";
import { gutterOf, kMargin } from "./memory_chart";
import { plain } from "./names";
import type { Go } from "./route";
import { tickBytes, tickSeconds } from "./units";

function isFeasible(point: FrontierPoint): boolean {
  return point.outcome !== "INFEASIBLE";
}

// The index of the schedule that was found for a point's budget.
function scheduleOf(view: View, viewed: ViewedFrontier, point: FrontierPoint): number | undefined {
  const index = view.schedules.findIndex(
    ({ answer }) =>
      answer?.platform?.memory_bytes === point.memory_bytes &&
      answer.platform.offload_bytes_per_second === viewed.platform?.offload_bytes_per_second,
  );
  return index < 0 ? undefined : index;
}

function drawLabel(plot: uPlot, x: number, y: number, text: string, colors: Colors): void {
  const { ctx: context, bbox } = plot;
  const ratio = devicePixelRatio;
  const isLeft = x > bbox.left + bbox.width * 0.7;
  context.fillStyle = colors("text");
  context.font = `${11 * ratio}px system-ui, sans-serif`;
  context.textAlign = isLeft ? "right" : "left";
  context.textBaseline = "bottom";
  context.fillText(text, x + (isLeft ? -8 : 8) * ratio, y - 4 * ratio);
}

function drawVertical(plot: uPlot, bytes: number, text: string, colors: Colors): void {
  const { ctx: context, bbox } = plot;
  const x = plot.valToPos(bytes, "x", true);
  if (x < bbox.left - 1 || x > bbox.left + bbox.width + 1) return;
  const ratio = devicePixelRatio;
  context.strokeStyle = colors("muted");
  context.setLineDash([2 * ratio, 3 * ratio]);
  context.beginPath();
  context.moveTo(x, bbox.top);
  context.lineTo(x, bbox.top + bbox.height);
  context.stroke();
  context.setLineDash([]);
  drawLabel(plot, x, bbox.top + 16 * ratio, text, colors);
}

function drawKnee(plot: uPlot, point: FrontierPoint, colors: Colors): void {
  const { ctx: context } = plot;
  const ratio = devicePixelRatio;
  const x = plot.valToPos(Number(point.memory_bytes), "x", true);
  const y = plot.valToPos(point.prediction?.makespan_seconds ?? 0, "y", true);
  context.strokeStyle = colors("accent");
  context.lineWidth = 2.5 * ratio;
  context.beginPath();
  context.arc(x, y, 8 * ratio, 0, 2 * Math.PI);
  context.stroke();
  drawLabel(plot, x, y - 6 * ratio, "knee", colors);
}

interface ChartProps {
  view: View;
  frontier: FrontierResponse;
  onChoose: (point: FrontierPoint) => void;
}

function BudgetChart({ view, frontier, onChoose }: ChartProps) {
  const root = useRef<HTMLDivElement>(null);
  const choose = useRef(onChoose);
  choose.current = onChoose;
  const scheme = useScheme();
  const points = frontier.points.filter(isFeasible);
  useEffect(() => {
    const element = root.current!;
    const colors = readColors();
    const xs = points.map((point) => Number(point.memory_bytes));
    const makespans = points.map((point) => point.prediction!.makespan_seconds);
    const bounds = points.map((point) => point.prediction!.lower_bound_seconds);
    const low = Math.min(Number(view.memory_floor_bytes), ...xs);
    const high = Math.max(Number(view.most_memory_bytes), ...xs);
    const least = Math.min(view.store_all_seconds, ...bounds);
    const most = Math.max(...makespans);
    const room = (most - least || most || 1) * 0.15;
    const axis: uPlot.Axis = {
      stroke: colors("muted"),
      font: "11px system-ui, sans-serif",
      grid: { stroke: colors("grid"), width: 1 },
      ticks: { stroke: colors("grid"), size: 4 },
    };
    const size = () => ({
      width: element.clientWidth,
      height: Math.min(Math.max(innerHeight * 0.45, 220), 520),
    });
    const knee = frontier.knee === undefined ? undefined : frontier.points[frontier.knee];
    const plot = new uPlot(
      {
        ...size(),
        padding: [14, kMargin, 0, 0],
        legend: { show: false },
        cursor: { drag: { x: false, y: false }, y: false },
        scales: {
          x: { time: false, range: () => [low - (high - low) * 0.03, high + (high - low) * 0.03] },
          y: { range: () => [Math.max(least - room, 0), most + room] },
        },
        axes: [
          {
            ...axis,
            size: 28,
            space: 80,
            incrs: Array.from({ length: 62 }, (_, i) => 2 ** i),
            values: (_, values) => values.map(tickBytes),
          },
          {
            ...axis,
            size: gutterOf(element.clientWidth),
            values: (_, values) => values.map(tickSeconds),
          },
        ],
        series: [
          {},
          {
            label: "lower bound",
            stroke: colors("budget"),
            width: 1.5,
            dash: [4, 4],
            points: { show: false },
          },
          {
            label: "makespan",
            stroke: colors("saved"),
            width: 2.5,
            points: { show: true, size: 8, fill: colors("saved") },
          },
        ],
        hooks: {
          draw: [
            (drawn) => {
              drawVertical(drawn, Number(view.memory_floor_bytes), "memory floor", colors);
              if (frontier.minimum_memory_bytes !== undefined) {
                drawVertical(drawn, Number(frontier.minimum_memory_bytes), "", colors);
              }
              drawVertical(drawn, Number(view.most_memory_bytes), "store all", colors);
              if (knee !== undefined) drawKnee(drawn, knee, colors);
            },
          ],
        },
      },
      [xs, bounds, makespans],
      element,
    );
    // By the click's own place: a touch moves no cursor before it.
    plot.over.onclick = (event) => {
      const bytes = plot.posToVal(event.offsetX, "x");
      const distance = (point: FrontierPoint) => Math.abs(Number(point.memory_bytes) - bytes);
      const [first, ...others] = points;
      if (first === undefined) return;
      choose.current(others.reduce((a, b) => (distance(b) < distance(a) ? b : a), first));
    };
    const observer = new ResizeObserver(() => plot.setSize(size()));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.destroy();
    };
  }, [frontier, scheme]);
  return (
    <div
      class="budget-chart"
      ref={root}
      role="img"
      aria-label="Makespan over memory; the table below has the figures"
    />
  );
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

interface Props {
  view: View;
  viewed: ViewedFrontier;
  index: number;
  go: Go;
  solve: ((memoryBytes: number) => void) | undefined; // where somebody solves for the page
}

export function BudgetsView({ view, viewed, index, go, solve }: Props) {
  const frontier = viewed.frontier!;
  const at = `frontiers.${index}.frontier`;
  const open = (point: FrontierPoint) => {
    if (!isFeasible(point)) return undefined;
    const schedule = scheduleOf(view, viewed, point);
    if (schedule === undefined) return solve && (() => solve(Number(point.memory_bytes)));
    return () => go({ view: "schedule", schedule, op: undefined, from: undefined, to: undefined });
  };
  const knee = frontier.knee === undefined ? undefined : frontier.points[frontier.knee];
  return (
    <>
      <div class="headline">
        <h1>{plain(frontier.origin?.solver ?? "")}</h1>
        <span class="verdict">{frontier.points.length} budgets</span>
      </div>
      {frontier.notes.map((note, i) => (
        <p key={i} class="muted">
          note: {note}
        </p>
      ))}
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
      {frontier.points.some(isFeasible) && (
        <section class="panel wide" aria-label="Makespan over memory">
          <ul class="legend">
            <li>
              <span class="swatch saved" />
              makespan
            </li>
            <li>
              <span class="swatch bound" />
              lower bound: no schedule takes less
            </li>
          </ul>
          <BudgetChart view={view} frontier={frontier} onChoose={(point) => open(point)?.()} />
        </section>
      )}
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
                at={at}
                open={open(point)}
              />
            ))}
          </tbody>
        </table>
      </section>
    </>
  );
}
