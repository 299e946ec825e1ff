// What is shown, as the part of the address after "#": it can be kept, or sent with the file.
//   #/schedule/0?op=59&stage=27&from=0.1&to=0.2    #/compare/0/1    #/budgets    #/chain?stage=27
//   #/jobs/1?device=0    #/jobs/1/plan/0?op=59, of jobs
import { useCallback, useEffect, useState } from "preact/hooks";

const kViews = ["schedule", "compare", "budgets", "chain"] as const;
export type ViewName = (typeof kViews)[number];

const kPlaceKeys = ["op", "stage", "from", "to"] as const;

// What is shown of a schedule.
interface SchedulePlace {
  op?: number | undefined; // index in its operations
  stage?: number | undefined; // from 1
  from?: number | undefined; // the seconds that are shown
  to?: number | undefined;
}

export interface Route extends SchedulePlace {
  view: ViewName;
  schedule: number; // index in View.schedules
  other?: number | undefined; // another one, to compare with
}

function readNumber(value: string | null): number | undefined {
  const number = Number(value ?? "");
  return value === null || value === "" || !Number.isFinite(number) || number < 0
    ? undefined
    : number;
}

function readIndex(value: string | null | undefined): number | undefined {
  const number = readNumber(value ?? null);
  return number === undefined ? undefined : Math.floor(number);
}

// The parts of the path, and what is behind "?".
function splitHash(hash: string): [string[], URLSearchParams] {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  return [path.split("/").slice(1), new URLSearchParams(query)];
}

function joinHash(path: string, values: URLSearchParams): string {
  const query = values.toString();
  return `#/${path}${query === "" ? "" : `?${query}`}`;
}

function readPlace(values: URLSearchParams): SchedulePlace {
  const place: SchedulePlace = {};
  for (const key of kPlaceKeys) {
    const number = readNumber(values.get(key));
    if (number !== undefined) place[key] = number;
  }
  return place;
}

function placeValues(place: SchedulePlace): URLSearchParams {
  const values = new URLSearchParams();
  for (const key of kPlaceKeys) {
    const number = place[key];
    if (number !== undefined) values.set(key, String(number));
  }
  return values;
}

function parseRoute(hash: string): Route {
  const [[name, index, other], values] = splitHash(hash);
  const route: Route = {
    view: kViews.find((view) => view === name) ?? "schedule",
    schedule: readIndex(index) ?? 0,
    ...readPlace(values),
  };
  if (route.view === "compare") route.other = readIndex(other) ?? 1;
  return route;
}

export function routeText(route: Route): string {
  const paths: Partial<Record<ViewName, string>> = {
    schedule: `schedule/${route.schedule}`,
    compare: `compare/${route.schedule}/${route.other ?? 1}`,
  };
  return joinHash(paths[route.view] ?? route.view, placeValues(route));
}

export type Go = (change: Partial<Route>) => void;

// What the address says, now and after each step of the browser's history, and who sets it.
function useAddress<T>(parse: (hash: string) => T): [T, (route: T) => void] {
  const [route, setRoute] = useState(() => parse(location.hash));
  useEffect(() => {
    const read = () => setRoute(parse(location.hash));
    addEventListener("popstate", read);
    return () => removeEventListener("popstate", read);
  }, []);
  return [route, setRoute];
}

// The route, and a function that changes it. A change of view is a step of the browser's history.
export function useRoute(): [Route, Go] {
  const [route, setRoute] = useAddress(parseRoute);
  const go = useCallback((change: Partial<Route>) => {
    const before = parseRoute(location.hash);
    const after = { ...before, ...change };
    // Without an address of its own the page may show any view.
    const isNamed = location.hash !== "" || change.view === undefined;
    const isSame = after.view === before.view && after.schedule === before.schedule;
    const isStep = !isNamed || !isSame;
    history[isStep ? "pushState" : "replaceState"](null, "", routeText(after));
    setRoute(after);
  }, []);
  return [route, go];
}

// Of jobs: one with its devices, or the plan of one device.
export interface JobsRoute extends SchedulePlace {
  job: number; // index in View.jobs
  device: number | undefined; // as in Verdict, which is the same for all jobs
  isPlan: boolean;
}

function parseJobsRoute(hash: string): JobsRoute {
  const [[, job, plan, device], values] = splitHash(hash);
  const isPlan = plan === "plan";
  return {
    job: readIndex(job) ?? 0,
    device: readIndex(isPlan ? device : values.get("device")),
    isPlan,
    ...readPlace(values),
  };
}

export function jobsRouteText(route: JobsRoute): string {
  const { job, device, isPlan } = route;
  if (isPlan) return joinHash(`jobs/${job}/plan/${device ?? 0}`, placeValues(route));
  const values = new URLSearchParams();
  if (device !== undefined) values.set("device", String(device));
  return joinHash(`jobs/${job}`, values);
}

// A link is a step of the browser's history; the slider and what is chosen of a plan are none.
export function useJobsRoute(): [JobsRoute, (change: Partial<JobsRoute>) => void] {
  const [route, setRoute] = useAddress(parseJobsRoute);
  const go = useCallback((change: Partial<JobsRoute>) => {
    const after = { ...parseJobsRoute(location.hash), ...change };
    history.replaceState(null, "", jobsRouteText(after));
    setRoute(after);
  }, []);
  return [route, go];
}
