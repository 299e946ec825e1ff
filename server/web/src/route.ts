// What is shown, as the part of the address after "#": it can be kept, or sent with the file.
//   #/schedule/0?op=59&stage=27&from=0.1&to=0.2    #/compare/0/1    #/budgets    #/chain?stage=27
//   #/memory    #/bandwidth/3, of an experiment
import { useCallback, useEffect, useState } from "preact/hooks";

export const kViews = ["schedule", "compare", "budgets", "chain"] as const;
export type ViewName = (typeof kViews)[number];

export interface Route {
  view: ViewName;
  schedule: number; // index in View.schedules
  other?: number | undefined; // another one, to compare with
  op?: number | undefined; // index in its operations
  stage?: number | undefined; // from 1
  from?: number | undefined; // the seconds that are shown
  to?: number | undefined;
}

function readNumber(value: string | null): number | undefined {
  const number = Number(value ?? "");
  return value === null || value === "" || !Number.isFinite(number) || number < 0
    ? undefined
    : number;
}

export function parseRoute(hash: string): Route {
  const [path = "", query = ""] = hash.replace(/^#/, "").split("?", 2);
  const [, name, index, other] = path.split("/");
  const route: Route = {
    view: kViews.find((view) => view === name) ?? "schedule",
    schedule: Math.floor(readNumber(index ?? null) ?? 0),
  };
  if (route.view === "compare") route.other = Math.floor(readNumber(other ?? null) ?? 1);
  const values = new URLSearchParams(query);
  for (const key of ["op", "stage", "from", "to"] as const) {
    const number = readNumber(values.get(key));
    if (number !== undefined) route[key] = number;
  }
  return route;
}

export function routeText(route: Route): string {
  const values = new URLSearchParams();
  for (const key of ["op", "stage", "from", "to"] as const) {
    const number = route[key];
    if (number !== undefined) values.set(key, String(number));
  }
  const query = values.toString();
  const paths: Partial<Record<ViewName, string>> = {
    schedule: `schedule/${route.schedule}`,
    compare: `compare/${route.schedule}/${route.other ?? 1}`,
  };
  const path = paths[route.view] ?? route.view;
  return `#/${path}${query === "" ? "" : `?${query}`}`;
}

export type Go = (change: Partial<Route>) => void;

// The route, and a function that changes it. A change of view is a step of the browser's history.
export function useRoute(): [Route, Go] {
  const [route, setRoute] = useState(() => parseRoute(location.hash));
  useEffect(() => {
    const read = () => setRoute(parseRoute(location.hash));
    addEventListener("popstate", read);
    return () => removeEventListener("popstate", read);
  }, []);
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

export const kQuantities = ["memory", "bandwidth", "ratio"] as const;
export type Quantity = (typeof kQuantities)[number];

// Of an experiment: all pictures of a kind, or one with its figures.
export interface ExperimentRoute {
  quantity: Quantity | undefined; // none in the address
  picture: number | undefined;
}

function parseExperimentRoute(hash: string): ExperimentRoute {
  const [, name, index] = hash.replace(/^#/, "").split("/");
  const picture = readNumber(index ?? null);
  return {
    quantity: kQuantities.find((quantity) => quantity === name),
    picture: picture === undefined ? undefined : Math.floor(picture),
  };
}

export function experimentRouteText(quantity: Quantity, picture?: number): string {
  return `#/${quantity}${picture === undefined ? "" : `/${picture}`}`;
}

// Its links are steps of the browser's history.
export function useExperimentRoute(): ExperimentRoute {
  const [route, setRoute] = useState(() => parseExperimentRoute(location.hash));
  useEffect(() => {
    const read = () => setRoute(parseExperimentRoute(location.hash));
    addEventListener("popstate", read);
    return () => removeEventListener("popstate", read);
  }, []);
  return route;
}
