// The last minutes, as far as the page has seen them: calls, hit ratio, latency.
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { axisOf, gutterOf, kMargin } from "../charts/axes";
import { readColors, useScheme } from "../charts/colors";
import { formatPercent, formatPerSecond, formatSeconds, tickSeconds } from "../parts/units";
import { kHistorySeconds, type Moment } from "./status_watch";

interface Line {
  key: Exclude<keyof Moment, "unixSeconds">;
  color: string;
  name: string;
  dash?: number[]; // told apart without its colour
}

interface ChartProps {
  title: string;
  lines: Line[];
  history: Moment[];
  most: number | undefined; // of the vertical axis; undefined: of what is shown
  tick: (value: number) => string;
}

function LineChart({ title, lines, history, most, tick }: ChartProps) {
  const root = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | undefined>(undefined);
  const scheme = useScheme();
  const now = history.at(-1);
  const data = [
    history.map(({ unixSeconds }) => unixSeconds),
    ...lines.map(({ key }) => history.map((moment) => moment[key])),
  ] as uPlot.AlignedData;
  const newest = useRef(data);
  newest.current = data;
  useEffect(() => {
    const element = root.current!;
    const colors = readColors();
    const axis = axisOf(colors);
    const size = () => ({ width: element.clientWidth, height: 150 });
    const made = new uPlot(
      {
        ...size(),
        padding: [10, kMargin, 0, 0],
        legend: { show: false },
        cursor: { show: false },
        scales: {
          x: { range: (_, __, last) => [(last ?? 0) - kHistorySeconds, last ?? 0] },
          y: { range: (_, __, top) => [0, most ?? Math.max(top ?? 0, 1e-6) * 1.1] },
        },
        axes: [
          {
            ...axis,
            size: 28,
            space: 50,
            values: (_, values) =>
              values.map((seconds) =>
                new Date(seconds * 1000).toLocaleTimeString([], {
                  hour: "2-digit",
                  minute: "2-digit",
                  hourCycle: "h23",
                }),
              ),
            incrs: [60, 120, 300],
          },
          {
            ...axis,
            size: gutterOf(element.clientWidth),
            space: 32,
            values: (_, values) => values.map(tick),
          },
        ],
        series: [
          {},
          ...lines.map((line): uPlot.Series => ({
            label: line.name,
            stroke: colors(line.color),
            width: 2,
            points: { show: false },
            ...(line.dash === undefined ? {} : { dash: line.dash }),
          })),
        ],
      },
      newest.current,
      element,
    );
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize(size()));
    observer.observe(element);
    return () => {
      observer.disconnect();
      made.destroy();
      plot.current = undefined;
    };
  }, [scheme]);
  useEffect(() => plot.current?.setData(newest.current), [history]);
  const said = lines
    .map(({ key, name }) => {
      const value = now?.[key];
      return `${name} ${value === null || value === undefined ? "unknown" : tick(value)}`;
    })
    .join(", ");
  return (
    <figure class="moments">
      <figcaption>
        {title}
        {lines.length > 1 &&
          lines.map(({ key, name, dash }) => (
            <span key={key} class={`sample ${dash === undefined ? "" : "dashed"}`}>
              {name}
            </span>
          ))}
      </figcaption>
      <div ref={root} role="img" aria-label={`${title} over the last five minutes; now: ${said}`} />
    </figure>
  );
}

export function ServiceCharts({ history }: { history: Moment[] }) {
  return (
    <section class="panel wide" aria-label="The last minutes">
      <h2>The last minutes, since this page opened</h2>
      <div class="moment-charts">
        <LineChart
          title="calls a second"
          lines={[{ key: "callsPerSecond", color: "saved", name: "all methods" }]}
          history={history}
          most={undefined}
          tick={(value) => formatPerSecond(value, 1)}
        />
        <LineChart
          title="hit ratio"
          lines={[{ key: "hitRatio", color: "gradient", name: "of all answers" }]}
          history={history}
          most={1}
          tick={formatPercent}
        />
        <LineChart
          title="latency of Solve"
          lines={[
            { key: "p50", color: "saved", name: "p50" },
            { key: "p99", color: "recomputed", name: "p99", dash: [6, 4] },
          ]}
          history={history}
          most={undefined}
          tick={(value) => (value === 0 ? tickSeconds(value) : formatSeconds(value))}
        />
      </div>
    </section>
  );
}
