// Tables of a server's status. Counts are of the chosen window; names are text of others.
import type { ComponentChildren } from "preact";
import type {
  NamedCount,
  Quantiles,
  ServerStatus,
  StatusWindow,
} from "../generated/stowage/v1/status";
import { Figure } from "./figure";
import { plain } from "./names";
import { formatPercent, formatPerSecond, type Unit } from "./units";

// A window of the status, and its path.
export interface Window {
  window: StatusWindow;
  at: string; // "recent.1", "since_start"
}

function Name({ text }: { text: string }) {
  return <bdi>{plain(text)}</bdi>;
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

interface PanelProps {
  name: string;
  head: string[]; // of the columns; those after the first are numbers
  rows: ComponentChildren[];
  none: string; // what is said where there are no rows
  note?: ComponentChildren;
}

function Panel({ name, head, rows, none, note }: PanelProps) {
  return (
    <section class="panel scrolls" aria-label={name} tabIndex={0}>
      <h2>{name}</h2>
      {note}
      {rows.length === 0 ? (
        <p class="muted">{none}</p>
      ) : (
        <table class="grid">
          <thead>
            <tr>
              {head.map((column, i) => (
                <th key={column} class={i > 0 ? "number" : ""}>
                  {column}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>{rows}</tbody>
        </table>
      )}
    </section>
  );
}

function Cell({ children }: { children: ComponentChildren }) {
  return <td class="number">{children}</td>;
}

function QuantileCells({
  quantiles,
  at,
  unit,
}: {
  quantiles: Quantiles | undefined;
  at: string;
  unit: Unit;
}) {
  return (
    <>
      {(["p50", "p90", "p99"] as const).map((key) => (
        <Cell key={key}>
          {quantiles === undefined ? (
            "–"
          ) : (
            <Figure value={quantiles[key]} unit={unit} at={`${at}.${key}`} />
          )}
        </Cell>
      ))}
    </>
  );
}

export function RunningSolves({ status }: { status: ServerStatus }) {
  return (
    <Panel
      name="Running solves"
      head={["solver", "thread", "stages", "for", "done"]}
      none="no solve runs"
      rows={status.running.map((solve, i) => (
        <tr key={solve.thread}>
          <td>
            <Name text={solve.solver} />
          </td>
          <Cell>
            <Figure value={solve.thread} unit="count" at={`running.${i}.thread`} />
          </Cell>
          <Cell>
            <Figure value={solve.stages} unit="count" at={`running.${i}.stages`} />
          </Cell>
          <Cell>
            <Figure value={solve.seconds} unit="seconds" at={`running.${i}.seconds`} />
          </Cell>
          <Cell>
            <progress
              max={1}
              value={solve.fraction}
              aria-label={`progress of thread ${solve.thread}`}
            />{" "}
            <Figure value={solve.fraction} unit="percent" at={`running.${i}.fraction`} />
          </Cell>
        </tr>
      ))}
    />
  );
}

export function Calls({ status, window, at }: { status: ServerStatus } & Window) {
  return (
    <Panel
      name="Calls"
      head={["method", "open", "a second", "ended", "p50", "p90", "p99", "errors"]}
      none="no call yet"
      rows={window.calls.map((calls, i) => {
        const from = `${at}.calls.${i}`;
        const open = status.calls_in_flight.findIndex(({ name }) => name === calls.method);
        const errors = calls.errors.map((error, k) => ({ error, k }));
        return (
          <tr key={calls.method}>
            <td>
              <Name text={calls.method} />
            </td>
            <Cell>
              {open >= 0 && (
                <Figure
                  value={status.calls_in_flight[open]!.count}
                  unit="count"
                  at={`calls_in_flight.${open}.count`}
                />
              )}
            </Cell>
            <Cell>
              <Rate count={Number(calls.calls)} at={`${from}.calls`} seconds={window.seconds} />
            </Cell>
            <Cell>
              <Figure value={calls.calls} unit="count" at={`${from}.calls`} />
            </Cell>
            <QuantileCells
              quantiles={calls.latency_seconds}
              at={`${from}.latency_seconds`}
              unit="seconds"
            />
            <td class="number list">
              {errors
                .filter(({ error }) => error.count !== "0")
                .map(({ error, k }) => (
                  <span key={error.name}>
                    <Figure value={error.count} unit="count" at={`${from}.errors.${k}.count`} />{" "}
                    <Name text={error.name} />
                  </span>
                ))}
            </td>
          </tr>
        );
      })}
    />
  );
}

export function Answers({ window, at }: Window) {
  const all = window.answers.reduce((sum, { count }) => sum + Number(count), 0);
  const allAt = window.answers.map((_, i) => `${at}.answers.${i}.count`).join("+");
  return (
    <Panel
      name="Answers by source"
      head={["source", "answers", "share"]}
      none="no answer yet"
      note={
        window.hit_ratio !== undefined && (
          <p>
            hit ratio <Figure value={window.hit_ratio} unit="percent" at={`${at}.hit_ratio`} />:
            answers without a solve of their own
          </p>
        )
      }
      rows={window.answers.map((source, i) => (
        <tr key={source.name}>
          <td>
            <Name text={source.name} />
          </td>
          <Cell>
            <Figure value={source.count} unit="count" at={`${at}.answers.${i}.count`} />
          </Cell>
          <Cell>
            <Share
              part={Number(source.count)}
              whole={all}
              at={`${at}.answers.${i}.count`}
              of={allAt}
            />
          </Cell>
        </tr>
      ))}
    />
  );
}

export function Lookups({ window, at }: Window) {
  return (
    <Panel
      name="Tiers below memory"
      head={["tier", "hits", "misses", "failed", "hit ratio"]}
      none="no tier below memory"
      rows={window.lookups.map((tier, i) => {
        const from = `${at}.lookups.${i}`;
        return (
          <tr key={tier.name}>
            <td>
              <Name text={tier.name} />
            </td>
            {(["hits", "misses", "failed"] as const).map((key) => (
              <Cell key={key}>
                <Figure value={tier[key]} unit="count" at={`${from}.${key}`} />
              </Cell>
            ))}
            <Cell>
              <Share
                part={Number(tier.hits)}
                whole={Number(tier.hits) + Number(tier.misses)}
                at={`${from}.hits`}
                of={`${from}.hits+${from}.misses`}
              />
            </Cell>
          </tr>
        );
      })}
    />
  );
}

// Counts by name, those that are not 0.
export function Counts({
  name,
  counts,
  at,
  what,
  none,
}: {
  name: string;
  counts: NamedCount[];
  at: string;
  what: string; // the names are
  none: string;
}) {
  const some = counts.map(({ name, count }, i) => ({ name, count, i }));
  return (
    <Panel
      name={name}
      head={[what, "count"]}
      none={none}
      rows={some
        .filter(({ count }) => count !== "0")
        .map(({ name, count, i }) => (
          <tr key={name}>
            <td>
              <Name text={name} />
            </td>
            <Cell>
              <Figure value={count} unit="count" at={`${at}.${i}.count`} />
            </Cell>
          </tr>
        ))}
    />
  );
}

export function Executions({ window, at }: Window) {
  const { executions } = window;
  const reports = executions?.reports ?? "0";
  const from = `${at}.executions`;
  return (
    <Panel
      name="Executions: measured against predicted"
      head={["off by", "p50", "p90", "p99"]}
      none="no job has reported an execution"
      note={
        reports !== "0" && (
          <p>
            <Figure value={reports} unit="count" at={`${from}.reports`} /> reports; shares of what
            was predicted
          </p>
        )
      }
      rows={
        reports === "0"
          ? []
          : (
              [
                ["time of a step", "time_error"],
                ["peak of memory", "peak_error"],
              ] as const
            ).map(([name, key]) => (
              <tr key={key}>
                <td>{name}</td>
                <QuantileCells quantiles={executions?.[key]} at={`${from}.${key}`} unit="percent" />
              </tr>
            ))
      }
    />
  );
}

export function Clients({ window, at }: Window) {
  return (
    <Panel
      name="Clients"
      head={["client", "a second", "refused", "solving"]}
      none="no client is known by name"
      rows={window.clients
        .map((client, i) => ({ client, i }))
        .filter(({ client }) => client.calls !== "0")
        .map(({ client, i }) => (
          <tr key={client.client}>
            <td>
              <Name text={client.client} />
            </td>
            <Cell>
              <Rate
                count={Number(client.calls)}
                at={`${at}.clients.${i}.calls`}
                seconds={window.seconds}
              />
            </Cell>
            <Cell>
              <Figure value={client.refused} unit="count" at={`${at}.clients.${i}.refused`} />
            </Cell>
            <Cell>
              <Figure
                value={client.solve_seconds}
                unit="seconds"
                at={`${at}.clients.${i}.solve_seconds`}
              />
            </Cell>
          </tr>
        ))}
    />
  );
}

export function Caches({ status }: { status: ServerStatus }) {
  return (
    <Panel
      name="Caches"
      head={["cache", "entries", "size", "limit"]}
      none="none"
      rows={status.caches.map((cache, i) => (
        <tr key={cache.name}>
          <td>
            <Name text={cache.name} />
            {!cache.in_use && " (not in use)"}
          </td>
          <Cell>
            <Figure value={cache.entries} unit="count" at={`caches.${i}.entries`} />
          </Cell>
          <Cell>
            <Figure value={cache.bytes} unit="bytes" at={`caches.${i}.bytes`} />
          </Cell>
          <Cell>
            {cache.limit_bytes === "0" ? (
              "–"
            ) : (
              <Figure value={cache.limit_bytes} unit="bytes" at={`caches.${i}.limit_bytes`} />
            )}
          </Cell>
        </tr>
      ))}
    />
  );
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
