// A server, live: what it does, how fast, for whom, and whether it is still there.
import { useEffect, useState } from "preact/hooks";
import type { ServerStatus } from "../../generated/stowage/v1/status";
import { Card, Figure, figuresOf } from "../parts/figure";
import { plain } from "../parts/names";
import { formatDuration } from "../parts/units";
import { ServiceCharts } from "./service_charts";
import {
  Answers,
  Caches,
  Calls,
  Clients,
  Counts,
  Executions,
  Lookups,
  Options,
  Rate,
  RunningSolves,
  type Window,
} from "./service_tables";
import { useStatusWatch, type Watch } from "./status_watch";

function clock(time: Date): string {
  return time.toLocaleTimeString([], { hourCycle: "h23" });
}

const kWindowNames = ["last 10 s", "last minute", "last 5 minutes"];

function windowsOf(status: ServerStatus): (Window & { name: string })[] {
  const recent = status.recent.map((window, i) => ({
    window,
    at: `recent.${i}`,
    name: kWindowNames[i] ?? `last ${formatDuration(window.seconds)}`,
  }));
  const all = status.since_start;
  return all === undefined
    ? recent
    : [...recent, { window: all, at: "since_start", name: "since its start" }];
}

// The server's own words for a wrong token tell what to do.
function TokenForm({ watch }: { watch: Watch }) {
  const [text, setText] = useState("");
  const sent = (event: Event) => {
    event.preventDefault();
    watch.useToken(text.trim());
    setText("");
  };
  return (
    <form class="panel token" onSubmit={sent}>
      <h1>This server shows its status to those with a token</h1>
      {watch.token.refusal !== "" && (
        <p class="bad" role="alert">
          {plain(watch.token.refusal, 200)}
        </p>
      )}
      <p>
        <label>
          a token of its --http-token-file{" "}
          <input
            type="password"
            autocomplete="off"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>{" "}
        <button type="submit">show</button>
      </p>
      <p class="muted">This page forgets it when it is closed or loaded again.</p>
    </form>
  );
}

function Problem({ watch }: { watch: Watch }) {
  const { problem, readAt } = watch;
  if (problem === undefined) return null;
  const seconds = (Date.now() - problem.since.getTime()) / 1000;
  return (
    <p class="alarm" role="alert">
      NO ANSWER since {clock(problem.since)} ({formatDuration(seconds)}): {problem.reason}; trying
      again.
      {readAt !== undefined && ` The figures below are of its last answer, at ${clock(readAt)}.`}
    </p>
  );
}

function Cards({ status, minute }: { status: ServerStatus; minute: Window | undefined }) {
  const five = status.recent[2];
  const refused = (five?.rejected ?? []).map(({ count }) => Number(count));
  const calls = (minute?.window.calls ?? []).map(({ calls }) => Number(calls));
  const solve = minute?.window.calls.findIndex(({ method }) => method === "Solve") ?? -1;
  const ofMinute = figuresOf(minute?.window, minute?.at ?? "");
  const ofSolve = figuresOf(minute?.window.calls[solve], `${minute?.at}.calls.${solve}`);
  const median = ofSolve("latency_seconds.p50", "seconds");
  const figure = figuresOf(status, "");
  const sum = (counts: number[]) => counts.reduce((all, count) => all + count, 0);
  return (
    <dl class="cards">
      <Card name="calls" note="last minute, all methods">
        <Rate
          count={sum(calls)}
          at={calls.map((_, i) => `${minute!.at}.calls.${i}.calls`).join("+")}
          seconds={minute?.window.seconds ?? 0}
        />
      </Card>
      <Card name="hit ratio" note="last minute, without a solve of their own">
        {ofMinute("hit_ratio", "percent") ?? "–"}
      </Card>
      <Card
        name="Solve takes, p99"
        note={median ? <>last minute; p50 {median}</> : "last minute: none"}
      >
        {ofSolve("latency_seconds.p99", "seconds") ?? "–"}
      </Card>
      <Card
        name="solves running"
        note={
          <>
            of {figure("solves.running_limit", "count")} threads,{" "}
            {figure("solves.bytes", "bytes")} of {figure("solves.limit_bytes", "bytes")}
          </>
        }
      >
        {figure("solves.running", "count")}
      </Card>
      <Card
        name="queue"
        note={
          <>
            of {figure("solves.waiting_limit", "count")} places;{" "}
            {figure("requests_in_flight", "count")} requests wait or are solved
          </>
        }
      >
        {figure("solves.waiting", "count")}
      </Card>
      <Card name="refused" note="calls, last 5 minutes" tone={sum(refused) > 0 ? "bad" : undefined}>
        {refused.length === 0 ? (
          "0"
        ) : (
          <Figure
            value={sum(refused)}
            unit="count"
            at={refused.map((_, i) => `recent.2.rejected.${i}.count`).join("+")}
          />
        )}
      </Card>
      <Card name="memory" note={<>{figure("open_files", "count")} open files</>}>
        {figure("resident_bytes", "bytes")}
      </Card>
    </dl>
  );
}

function Waited({ window, at }: Window) {
  const figure = figuresOf(window.queue_seconds, `${at}.queue_seconds`);
  return (
    <p class="muted">
      solves waited for a thread:{" "}
      {window.queue_seconds === undefined
        ? "none began"
        : (["p50", "p90", "p99"] as const).map((key) => (
            <span key={key} class="item">
              {key} {figure(key, "seconds")}
            </span>
          ))}
    </p>
  );
}

function Status({ watch, status }: { watch: Watch; status: ServerStatus }) {
  const windows = windowsOf(status);
  const [chosen, choose] = useState(1);
  const shown = windows[Math.min(chosen, windows.length - 1)];
  const started = new Date(status.start_unix_seconds * 1000);
  return (
    <>
      <div class="headline">
        <h1>stowage {plain(status.version)}</h1>
        <span class={`verdict ${status.ready ? "good" : "bad"}`}>
          {status.ready ? "ready" : "NOT READY: starting or draining"}
        </span>
        <span>
          up {figuresOf(status, "")("uptime_seconds", "duration")}, since{" "}
          {started.toLocaleDateString()} {clock(started)}
        </span>
        {watch.restarts > 0 && (
          <span class="bad">
            restarted {watch.restarts === 1 ? "once" : `${watch.restarts} times`} while watched
          </span>
        )}
      </div>
      <Cards status={status} minute={windows.find(({ at }) => at === "recent.1")} />
      <ServiceCharts history={watch.history} />
      <RunningSolves status={status} />
      {shown !== undefined && (
        <>
          <p class="chooser">
            <label>
              counts of the{" "}
              <select
                value={String(chosen)}
                onChange={(event) => choose(Number(event.currentTarget.value))}
              >
                {windows.map(({ at, name }, i) => (
                  <option key={at} value={String(i)}>
                    {name}
                  </option>
                ))}
              </select>
            </label>{" "}
            <span class="muted">
              ({figuresOf(shown.window, shown.at)("seconds", "duration")})
            </span>
          </p>
          <Waited {...shown} />
          <Calls status={status} {...shown} />
          <div class="panels">
            <Answers {...shown} />
            <Lookups {...shown} />
            <Counts
              name="Refused calls"
              counts={shown.window.rejected}
              at={`${shown.at}.rejected`}
              what="reason"
              none="no call was refused"
            />
            <Executions {...shown} />
            <Clients {...shown} />
            <Caches status={status} />
            <Counts
              name="Evicted entries"
              counts={shown.window.evictions}
              at={`${shown.at}.evictions`}
              what="cache"
              none="nothing was evicted"
            />
            <Counts
              name="Failures of tiers"
              counts={shown.window.store_failures}
              at={`${shown.at}.store_failures`}
              what="reason"
              none="no tier has failed"
            />
          </div>
        </>
      )}
      <Options status={status} />
    </>
  );
}

export function ServiceView({ needsToken }: { needsToken: boolean }) {
  const watch = useStatusWatch(needsToken);
  const { status, problem, token } = watch;
  const state =
    problem !== undefined
      ? "NO ANSWER"
      : status === undefined
        ? "…"
        : status.ready
          ? "ready"
          : "NOT READY";
  useEffect(() => {
    document.title = `${state} · ${location.host} · Stowage`;
  }, [state]);
  return (
    <>
      <header>
        <span class="brand">Stowage</span>
        <span class="chain">
          <bdi>{location.host}</bdi>
        </span>
      </header>
      <main data-uptime={status?.uptime_seconds} class={problem === undefined ? "" : "stale"}>
        {token.isMissing ? (
          <TokenForm watch={watch} />
        ) : (
          <>
            <Problem watch={watch} />
            {status !== undefined ? (
              <Status watch={watch} status={status} />
            ) : (
              <h1>{problem === undefined ? "reading the server's status…" : "no status yet"}</h1>
            )}
          </>
        )}
      </main>
    </>
  );
}
