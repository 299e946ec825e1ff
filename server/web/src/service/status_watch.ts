// Reads the status of the server that serves the page, again and again while somebody looks.
import { useEffect, useRef, useState } from "preact/hooks";
import type { ServerStatus } from "../../generated/stowage/v1/status";

const kPeriod = 2000; // ms, from an answer to the next request
const kPatience = 5000; // ms
export const kHistorySeconds = 300;

// Of the last ten seconds before a moment; null where nothing was observed.
export interface Moment {
  unixSeconds: number;
  callsPerSecond: number | null;
  hitRatio: number | null;
  p50: number | null; // of Solve, seconds
  p99: number | null;
}

export interface Watch {
  status: ServerStatus | undefined; // the last one that was read
  readAt: Date | undefined; // when that was
  problem: { since: Date; reason: string } | undefined; // it does not answer
  restarts: number; // while it was watched
  history: Moment[];
  token: { isMissing: boolean; refusal: string }; // refusal: why the last one was not accepted
  useToken: (token: string) => void;
}

function momentOf(status: ServerStatus): Moment {
  const window = status.recent[0];
  const calls = (window?.calls ?? []).reduce((sum, method) => sum + Number(method.calls), 0);
  const latency = window?.calls.find(({ method }) => method === "Solve")?.latency_seconds;
  return {
    unixSeconds: Date.now() / 1000,
    callsPerSecond: window !== undefined && window.seconds > 0 ? calls / window.seconds : null,
    hitRatio: window?.hit_ratio ?? null,
    p50: latency?.p50 ?? null,
    p99: latency?.p99 ?? null,
  };
}

function gap(): Moment {
  const unixSeconds = Date.now() / 1000;
  return { unixSeconds, callsPerSecond: null, hitRatio: null, p50: null, p99: null };
}

class RefusedToken extends Error {}

// Pages that are open share one status a second, so that many cost the server no more than one.
async function readStatus(token: string): Promise<ServerStatus> {
  let response: Response;
  try {
    response = await fetch("status?max_age=1", {
      headers: token === "" ? {} : { Authorization: `Bearer ${token}` },
      cache: "no-store",
      credentials: "omit",
      signal: AbortSignal.timeout(kPatience),
    });
  } catch (error) {
    const isLate = (error as Error).name === "TimeoutError";
    throw new Error(isLate ? "no answer within 5 s" : "it cannot be reached");
  }
  if (response.status === 401) throw new RefusedToken((await response.text()).trim());
  if (response.status === 403) throw new Error((await response.text()).trim());
  if (!response.ok) throw new Error(`it answers with ${response.status}`);
  const status = (await response.json().catch(() => undefined)) as ServerStatus | undefined;
  if (typeof status?.version !== "string" || !Array.isArray(status.recent))
    throw new Error("what answers is no stowage-server");
  return status;
}

function after(watch: Watch, status: ServerStatus): Watch {
  const isAnother =
    watch.status !== undefined && watch.status.start_unix_seconds !== status.start_unix_seconds;
  return {
    ...watch,
    status,
    readAt: new Date(),
    problem: undefined,
    restarts: watch.restarts + (isAnother ? 1 : 0),
    history: extended(watch.history, momentOf(status)),
    token: { isMissing: false, refusal: "" },
  };
}

function extended(history: Moment[], moment: Moment): Moment[] {
  const oldest = moment.unixSeconds - kHistorySeconds;
  return [...history.filter(({ unixSeconds }) => unixSeconds > oldest), moment];
}

export function useStatusWatch(needsToken: boolean): Watch {
  const token = useRef(""); // of this page alone: a reload asks again
  const [watch, setWatch] = useState<Watch>({
    status: undefined,
    readAt: undefined,
    problem: undefined,
    restarts: 0,
    history: [],
    token: { isMissing: needsToken, refusal: "" },
    useToken: (text) => {
      // Others cannot be sent in a header.
      const isSendable = /^[\x21-\x7e]*$/.test(text);
      if (isSendable) token.current = text;
      const refusal = isSendable ? "" : "a token has ASCII characters alone, without spaces";
      setWatch((old) => ({ ...old, token: { isMissing: !isSendable, refusal } }));
    },
  });
  const isAsking = watch.token.isMissing;
  useEffect(() => {
    if (isAsking) return undefined;
    let timer = 0;
    let isReading = false;
    let isOver = false;
    const failed = (error: Error) => {
      if (error instanceof RefusedToken) {
        setWatch((old) => ({ ...old, token: { isMissing: true, refusal: error.message } }));
        return;
      }
      setWatch((old) => ({
        ...old,
        problem: { since: old.problem?.since ?? new Date(), reason: error.message },
        history: extended(old.history, gap()),
      }));
    };
    const read = async () => {
      clearTimeout(timer);
      if (isReading || isOver || document.hidden) return;
      isReading = true;
      try {
        const status = await readStatus(token.current);
        if (!isOver) setWatch((old) => after(old, status));
      } catch (error) {
        if (!isOver) failed(error as Error);
      }
      isReading = false;
      if (!isOver) timer = setTimeout(read, kPeriod);
    };
    // Nobody looks at a hidden page: it reads nothing until it is seen again.
    document.addEventListener("visibilitychange", read);
    void read();
    return () => {
      isOver = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", read);
    };
  }, [isAsking]);
  return watch;
}
