// Tables of a server's status. Counts are of the chosen window; names are text of others.
import type { ComponentChildren } from "preact";
import type {
  CacheLookups,
  CacheStatus,
  ClientCalls,
  MethodCalls,
  NamedCount,
  Quantiles,
  ServerStatus,
  SolveProgress,
  StatusWindow,
} from "../../generated/stowage/v1/status";
import { figuresOf, type Located, located } from "../parts/figure";
import { plain } from "../parts/names";
import { type Column, Table } from "../parts/table";
import { formatPercent, formatPerSecond } from "../parts/units";

// A window of the status, and its path.
export interface Window {
  window: StatusWindow;
  at: string; // "recent.1", "since_start"
}

// Per second; "+" joins the paths of the counts that are added.
export function Rate({ count, at, seconds }: { count: number; at: string; seconds: number }) {
  return <span data-rate={at}>{formatPerSecond(count, seconds)}</span>;
}

// What of the second counts the first are.
function Share({ part, whole, at, of }: { part: number; whole: number; at: string; of: string }) {
  if (whole === 0) return <>–</>;
  return (
    <span data-share={at} data-of={of}>
      {formatPercent(part / whole)}
    </span>
  );
}

interface PanelProps<Row> {
  name: string;
  columns: Column<Row>[];
  rows: Located<Row>[];
  none: string; // what is said where there are no rows
  note?: ComponentChildren;
}

function Panel<Row>({ name, columns, rows, none, note }: PanelProps<Row>) {
  return (
    <section class="panel scrolls" aria-label={name} tabIndex={0}>
      <h2>{name}</h2>
      {note}
      {rows.length === 0 ? (
        <p class="muted">{none}</p>
      ) : (
        <Table columns={columns} rows={rows} />
      )}
    </section>
  );
}

const kRunning: Column<SolveProgress>[] = [
  { head: "solver", name: "solver" },
  { head: "thread", path: "thread", unit: "count" },
  { head: "stages", path: "stages", unit: "count" },
  { head: "for", path: "seconds", unit: "seconds" },
  {
    head: "done",
    isNumber: true,
    cell: ({ of, at }) => (
      <>
        <progress max={1} value={of.fraction} aria-label={`progress of thread ${of.thread}`} />{" "}
        {figuresOf(of, at)("fraction", "percent")}
      </>
    ),
  },
];

export function RunningSolves({ status }: { status: ServerStatus }) {
  const rows = located(status.running, "running");
  return <Panel name="Running solves" columns={kRunning} rows={rows} none="no solve runs" />;
}

function OpenCalls({ status, method }: { status: ServerStatus; method: string }) {
  const open = located(status.calls_in_flight, "calls_in_flight");
  const own = open.find(({ of }) => of.name === method);
  return <>{own && figuresOf(own.of, own.at)("count", "count")}</>;
}

function Errors({ errors }: { errors: Located<NamedCount>[] }) {
  return (
    <>
      {errors
        .filter(({ of }) => of.count !== "0")
        .map(({ of, at }) => (
          <span key={of.name}>
            {figuresOf(of, at)("count", "count")} <bdi>{plain(of.name)}</bdi>
          </span>
        ))}
    </>
  );
}

export function Calls({ status, window, at }: { status: ServerStatus } & Window) {
  const columns: Column<MethodCalls>[] = [
    { head: "method", name: "method" },
    {
      head: "open",
      isNumber: true,
      cell: ({ of }) => <OpenCalls status={status} method={of.method} />,
    },
    rateColumn(window.seconds),
    { head: "ended", path: "calls", unit: "count" },
    { head: "p50", path: "latency_seconds.p50", unit: "seconds", none: "–" },
    { head: "p90", path: "latency_seconds.p90", unit: "seconds", none: "–" },
    { head: "p99", path: "latency_seconds.p99", unit: "seconds", none: "–" },
    {
      head: "errors",
      isNumber: true,
      class: "list",
      cell: (row) => <Errors errors={located(row.of.errors, `${row.at}.errors`)} />,
    },
  ];
  const rows = located(window.calls, `${at}.calls`);
  return <Panel name="Calls" columns={columns} rows={rows} none="no call yet" />;
}

// The calls of a row in a window of so many seconds.
function rateColumn<Row extends { calls: string }>(seconds: number): Column<Row> {
  return {
    head: "a second",
    isNumber: true,
    cell: ({ of, at }) => <Rate count={Number(of.calls)} at={`${at}.calls`} seconds={seconds} />,
  };
}

export function Answers({ window, at }: Window) {
  const rows = located(window.answers, `${at}.answers`);
  const whole = window.answers.reduce((sum, { count }) => sum + Number(count), 0);
  const wholeAt = rows.map((row) => `${row.at}.count`).join("+");
  const columns: Column<NamedCount>[] = [
    { head: "source", name: "name" },
    { head: "answers", path: "count", unit: "count" },
    {
      head: "share",
      isNumber: true,
      cell: (row) => (
        <Share part={Number(row.of.count)} whole={whole} at={`${row.at}.count`} of={wholeAt} />
      ),
    },
  ];
  const ratio = figuresOf(window, at)("hit_ratio", "percent");
  const note = ratio && <p>hit ratio {ratio}: answers without a solve of their own</p>;
  return (
    <Panel
      name="Answers by source"
      columns={columns}
      rows={rows}
      none="no answer yet"
      note={note}
    />
  );
}

const kLookups: Column<CacheLookups>[] = [
  { head: "tier", name: "name" },
  { head: "hits", path: "hits", unit: "count" },
  { head: "misses", path: "misses", unit: "count" },
  { head: "failed", path: "failed", unit: "count" },
  {
    head: "hit ratio",
    isNumber: true,
    cell: ({ of: { hits, misses }, at }) => (
      <Share
        part={Number(hits)}
        whole={Number(hits) + Number(misses)}
        at={`${at}.hits`}
        of={`${at}.hits+${at}.misses`}
      />
    ),
  },
];

export function Lookups({ window, at }: Window) {
  const rows = located(window.lookups, `${at}.lookups`);
  const none = "no tier below memory";
  return <Panel name="Tiers below memory" columns={kLookups} rows={rows} none={none} />;
}

interface CountsProps {
  name: string;
  counts: NamedCount[];
  at: string;
  what: string; // the names are
  none: string;
}

// Counts by name, those that are not 0.
export function Counts({ name, counts, at, what, none }: CountsProps) {
  const columns: Column<NamedCount>[] = [
    { head: what, name: "name" },
    { head: "count", path: "count", unit: "count" },
  ];
  const rows = located(counts, at).filter(({ of }) => of.count !== "0");
  return <Panel name={name} columns={columns} rows={rows} none={none} />;
}

const kExecutions: Column<{ name: string } & Partial<Quantiles>>[] = [
  { head: "off by", cell: ({ of }) => of.name },
  { head: "p50", path: "p50", unit: "percent", none: "–" },
  { head: "p90", path: "p90", unit: "percent", none: "–" },
  { head: "p99", path: "p99", unit: "percent", none: "–" },
];

export function Executions({ window, at }: Window) {
  const { executions } = window;
  const from = `${at}.executions`;
  const isSome = executions !== undefined && executions.reports !== "0";
  const errors = [
    { of: { name: "time of a step", ...executions?.time_error }, at: `${from}.time_error` },
    { of: { name: "peak of memory", ...executions?.peak_error }, at: `${from}.peak_error` },
  ];
  const reports = figuresOf(executions, from)("reports", "count");
  return (
    <Panel
      name="Executions: measured against predicted"
      columns={kExecutions}
      rows={isSome ? errors : []}
      none="no job has reported an execution"
      note={isSome && <p>{reports} reports; shares of what was predicted</p>}
    />
  );
}

export function Clients({ window, at }: Window) {
  const columns: Column<ClientCalls>[] = [
    { head: "client", name: "client" },
    rateColumn(window.seconds),
    { head: "refused", path: "refused", unit: "count" },
    { head: "solving", path: "solve_seconds", unit: "seconds" },
  ];
  const rows = located(window.clients, `${at}.clients`).filter(({ of }) => of.calls !== "0");
  return <Panel name="Clients" columns={columns} rows={rows} none="no client is known by name" />;
}

const kCaches: Column<CacheStatus>[] = [
  {
    head: "cache",
    cell: ({ of }) => (
      <>
        <bdi>{plain(of.name)}</bdi>
        {!of.in_use && " (not in use)"}
      </>
    ),
  },
  { head: "entries", path: "entries", unit: "count" },
  { head: "size", path: "bytes", unit: "bytes" },
  {
    head: "limit",
    isNumber: true,
    cell: ({ of, at }) =>
      of.limit_bytes === "0" ? "–" : figuresOf(of, at)("limit_bytes", "bytes"),
  },
];

export function Caches({ status }: { status: ServerStatus }) {
  const rows = located(status.caches, "caches");
  return <Panel name="Caches" columns={kCaches} rows={rows} none="none" />;
}

export function Options({ status }: { status: ServerStatus }) {
  const kMax = 400; // characters of a value
  return (
    <section class="panel" aria-label="Options">
      <details>
        <summary>{status.options.length} options in force</summary>
        <table class="grid">
          <tbody>
            {status.options.map(({ name, value }) => (
              <tr key={name}>
                <td>--{plain(name)}</td>
                <td>
                  <bdi>{plain(value, kMax)}</bdi>
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </details>
    </section>
  );
}
