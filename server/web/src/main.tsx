// The page: reads its data from the document, and shows the view that the address names.
import "uplot/dist/uPlot.min.css";
import "./palette.css";
import "./style.css";
import "./jobs/jobs.css";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import type { View } from "../generated/stowage/v1/view";
import { BudgetSlider } from "./budgets/budget_slider";
import { BudgetsView } from "./budgets/budgets_view";
import { useLive } from "./budgets/live";
import { JobsView } from "./jobs/jobs_view";
import { chainName } from "./parts/names";
import { type Route, routeText, useRoute, type ViewName } from "./parts/route";
import { ChainView } from "./schedule/chain_view";
import { CompareView } from "./schedule/compare_view";
import { scheduleLabel, ScheduleView } from "./schedule/schedule_view";
import { ServiceView } from "./service/service_view";

const kTitles: Record<ViewName, string> = {
  schedule: "Schedule",
  compare: "Compare",
  budgets: "Budgets",
  chain: "Chain",
};

// Without an address of its own a file opens with its budgets, and two schedules side by side.
function firstView(data: View): ViewName {
  if (data.frontiers.length > 0) return "budgets";
  return data.schedules.length === 2 ? "compare" : "schedule";
}

function Page({ data }: { data: View }) {
  const [asked, go] = useRoute();
  const live = useLive(data, (schedule) =>
    go({ view: "schedule", schedule, op: undefined, from: undefined, to: undefined }),
  );
  const { view } = live;
  const chain = view.chain!;
  const has: Record<ViewName, boolean> = {
    schedule: view.schedules.length > 0,
    compare: view.schedules.length > 1,
    budgets: view.live || view.frontiers.length > 0,
    chain: true,
  };
  const start = location.hash === "" ? firstView(data) : asked.view;
  const last = Math.max(view.schedules.length - 1, 0);
  const route: Route = {
    ...asked,
    view: has[start] ? start : has.schedule ? "schedule" : has.budgets ? "budgets" : "chain",
    schedule: Math.min(asked.schedule, last),
    other: Math.min(asked.other ?? 1, last),
  };
  useEffect(() => {
    document.title = `${chainName(chain)} · ${kTitles[route.view]} · Stowage`;
  }, [route.view]);
  const lacksBudgets = route.view === "budgets" && view.frontiers.length === 0;
  useEffect(() => {
    if (lacksBudgets) live.findBudgets();
  }, [lacksBudgets]);
  const viewed = view.schedules[route.schedule];
  return (
    <>
      <header>
        <span class="brand">Stowage</span>
        <span class="chain">
          <bdi>{chainName(chain)}</bdi>
        </span>
        <nav aria-label="Views">
          {(Object.keys(kTitles) as ViewName[])
            .filter((name) => has[name])
            .map((name) => (
              <a
                key={name}
                href={routeText({
                  view: name,
                  schedule: name === "compare" && route.view !== name ? 0 : route.schedule,
                  other: route.other,
                })}
                aria-current={name === route.view ? "page" : undefined}
              >
                {kTitles[name]}
              </a>
            ))}
        </nav>
      </header>
      <main>
        {route.view === "schedule" && view.schedules.length > 1 && (
          <p class="chooser">
            <label>
              schedule{" "}
              <select
                value={String(route.schedule)}
                onChange={(event) =>
                  go({
                    view: "schedule",
                    schedule: Number(event.currentTarget.value),
                    op: undefined,
                    from: undefined,
                    to: undefined,
                  })
                }
              >
                {view.schedules.map((one, i) => (
                  <option key={i} value={String(i)}>
                    {scheduleLabel(one)}
                  </option>
                ))}
              </select>
            </label>
          </p>
        )}
        {route.view === "schedule" && view.live && (
          <BudgetSlider
            live={live}
            budget={Number(viewed?.answer?.platform?.memory_bytes ?? 0)}
            isSolved={route.schedule === data.schedules.length}
          />
        )}
        {route.view === "schedule" && viewed !== undefined && (
          <ScheduleView view={view} viewed={viewed} route={route} go={go} />
        )}
        {route.view === "compare" && (
          <CompareView
            view={view}
            a={route.schedule}
            b={route.other ?? 1}
            route={route}
            go={(change) => go({ view: "compare", ...change })}
          />
        )}
        {route.view === "budgets" && view.frontiers.length > 0 && (
          <BudgetsView
            view={view}
            go={go}
            solve={view.live ? live.solve : undefined}
            solvesFrom={data.frontiers.length}
          />
        )}
        {route.view === "budgets" && (
          <p class="muted" role="status">
            {live.status}
          </p>
        )}
        {route.view === "chain" && <ChainView view={view} selected={route.stage} go={go} />}
      </main>
    </>
  );
}

function Start({ data }: { data: View }) {
  if (data.service !== undefined) return <ServiceView needsToken={data.service.needs_token} />;
  if (data.jobs.length > 0) return <JobsView jobs={data.jobs} />;
  return <Page data={data} />;
}

const data = JSON.parse(document.getElementById("view")!.textContent!) as View;
render(<Start data={data} />, document.getElementById("page")!);
