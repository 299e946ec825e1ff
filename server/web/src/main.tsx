// The page: reads its data from the document, and shows the view that the address names.
import "uplot/dist/uPlot.min.css";
import "./palette.css";
import "./style.css";
import { render } from "preact";
import { useEffect } from "preact/hooks";
import type { View } from "../generated/stowage/v1/view";
import { BudgetSlider } from "./budget_slider";
import { BudgetsView } from "./budgets_view";
import { ChainView } from "./chain_view";
import { useLive } from "./live";
import { chainName } from "./names";
import { type Route, routeText, useRoute, type ViewName } from "./route";
import { scheduleLabel, ScheduleView } from "./schedule_view";
import { ServiceView } from "./service_view";

const kTitles: Record<ViewName, string> = {
  schedule: "Schedule",
  budgets: "Budgets",
  chain: "Chain",
};

function Page({ data }: { data: View }) {
  const [asked, go] = useRoute();
  const live = useLive(data, (schedule) =>
    go({ view: "schedule", schedule, op: undefined, from: undefined, to: undefined }),
  );
  const { view } = live;
  const chain = view.chain!;
  const has: Record<ViewName, boolean> = {
    schedule: view.schedules.length > 0,
    budgets: view.live || view.frontiers.length > 0,
    chain: true,
  };
  // Without an address of its own a file of budgets opens with them.
  const start: ViewName =
    location.hash === "" && data.frontiers.length > 0 ? "budgets" : asked.view;
  const route: Route = {
    ...asked,
    view: has[start] ? start : has.schedule ? "schedule" : has.budgets ? "budgets" : "chain",
    schedule: Math.min(asked.schedule, Math.max(view.schedules.length - 1, 0)),
  };
  useEffect(() => {
    document.title = `${chainName(chain)} · ${kTitles[route.view]} · Stowage`;
  }, [route.view]);
  const lacksBudgets = route.view === "budgets" && view.frontiers.length === 0;
  useEffect(() => {
    if (lacksBudgets) live.findBudgets();
  }, [lacksBudgets]);
  const viewed = view.schedules[route.schedule];
  const frontier = view.frontiers[0];
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
                href={routeText({ view: name, schedule: route.schedule })}
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
        {route.view === "budgets" && frontier !== undefined && (
          <BudgetsView
            view={view}
            viewed={frontier}
            index={0}
            go={go}
            solve={view.live ? live.solve : undefined}
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

const data = JSON.parse(document.getElementById("view")!.textContent!) as View;
render(
  data.service === undefined ? (
    <Page data={data} />
  ) : (
    <ServiceView needsToken={data.service.needs_token} />
  ),
  document.getElementById("page")!,
);
