// Schedules and budgets that `stowage view` solves while the page is open.
import { useMemo, useRef, useState } from "preact/hooks";
import type { View, ViewedFrontier, ViewedSchedule } from "../../generated/stowage/v1/view";

export interface Live {
  view: View; // what came with the page, and what was solved since
  status: string; // what is being done or went wrong; empty: nothing
  solve: (memoryBytes: number) => void;
  findBudgets: () => void;
}

// Fetches JSON; null where a later request has taken this one's place.
async function fetchJson<T>(address: string, signal: AbortSignal): Promise<T | null> {
  let response: Response;
  try {
    response = await fetch(address, { signal });
    if (response.ok) return (await response.json()) as T;
  } catch {
    if (signal.aborted) return null;
    throw new Error("stowage view has ended: start it again to solve");
  }
  const problem = await response.text();
  if (signal.aborted) return null;
  throw new Error(problem);
}

export function useLive(data: View, onSolved: (schedule: number) => void): Live {
  const [solved, setSolved] = useState<ViewedSchedule>();
  const [frontier, setFrontier] = useState<ViewedFrontier>();
  const [status, setStatus] = useState("");
  const newest = useRef<AbortController | undefined>(undefined);

  // The newest request takes the place of the one before, here and where it is solved.
  const ask = async <T>(address: string, doing: string, done: (result: T) => void) => {
    newest.current?.abort();
    const own = (newest.current = new AbortController());
    setStatus(doing);
    try {
      const result = await fetchJson<T>(address, own.signal);
      if (result === null || own.signal.aborted) return;
      setStatus("");
      done(result);
    } catch (error) {
      if (!own.signal.aborted) setStatus((error as Error).message);
    }
  };
  const view = useMemo(
    () => ({
      ...data,
      schedules: solved === undefined ? data.schedules : [...data.schedules, solved],
      frontiers: frontier === undefined ? data.frontiers : [...data.frontiers, frontier],
    }),
    [data, solved, frontier],
  );
  return {
    view,
    status,
    solve: (memoryBytes) =>
      void ask<ViewedSchedule>(
        `solve?memory_bytes=${Math.round(memoryBytes)}`,
        "solving…",
        (result) => {
          setSolved(result);
          onSolved(data.schedules.length);
        },
      ),
    findBudgets: () => void ask<ViewedFrontier>("frontier", "solving many budgets…", setFrontier),
  };
}
