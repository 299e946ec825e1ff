// Jobs, such as one training in several batches: which devices each fits, what takes the memory,
// and the plan behind a verdict.
import { useEffect, useMemo } from "preact/hooks";
import type { ViewedJob, ViewedVerdict } from "../../generated/stowage/v1/view";
import { Figure, figuresOf, ViewPath } from "../parts/figure";
import { type JobsRoute, jobsRouteText, useJobsRoute } from "../parts/route";
import { ScheduleView } from "../schedule/schedule_view";
import { MemoryBar, mostBytesOf, partNumbersOf } from "./jobs_chart";
import { JobsLines } from "./jobs_lines";
import { deviceName, devicesOf, jobName, verdictIndex } from "./jobs_names";
import { PartsTable } from "./jobs_table";

type Go = (change: Partial<JobsRoute>) => void;

function fits({ verdict }: ViewedVerdict): boolean {
  return verdict!.fit === "FITS" || verdict!.fit === "FITS_WITH_PLAN";
}

function JobSlider({ jobs, job, go }: { jobs: ViewedJob[]; job: number; go: Go }) {
  return (
    <div class="slider">
      <label for="job">job</label>
      <input
        id="job"
        type="range"
        min={0}
        max={jobs.length - 1}
        step={1}
        value={job}
        onInput={(event) => go({ job: Number(event.currentTarget.value) })}
        aria-valuetext={jobName(jobs, job)}
      />
      <output for="job">
        <bdi>{jobName(jobs, job)}</bdi>
      </output>
    </div>
  );
}

function VerdictText({ viewed, at }: { viewed: ViewedVerdict; at: string }) {
  const { verdict, plan } = viewed;
  const least = figuresOf(verdict, `${at}.verdict`)("minimum_memory_bytes", "bytes");
  const prediction = plan?.schedules[0]?.answer?.prediction;
  const predictionAt = `${at}.plan.schedules.0.answer.prediction`;
  const overhead = figuresOf(prediction, predictionAt)("overhead", "excess");
  return (
    <span class={`verdict ${fits(viewed) ? "good" : "bad"}`}>
      {fits(viewed) ? "fits" : "does not fit"}
      {verdict!.fit === "FITS_WITH_PLAN" && " with a plan"}
      {overhead && <>, {overhead}</>}
      {least && <>, {least} at least</>}
    </span>
  );
}

function DeviceFigures({ viewed, at }: { viewed: ViewedVerdict; at: string }) {
  const { device } = viewed;
  const figure = figuresOf(viewed, at);
  return (
    <span class="muted">
      <Figure
        value={device!.platform!.memory_bytes ?? "0"}
        unit="bytes"
        at={`${at}.device.platform.memory_bytes`}
      />
      {device!.price > 0 && <> for {figure("device.price", "count")} an hour</>}
      , {figure("step_seconds", "seconds")} for the layers of a step
    </span>
  );
}

interface DevicesProps {
  jobs: ViewedJob[];
  job: number;
  chosen: number; // device
}

// In the order of the request, whatever the verdicts: no row moves with the slider.
function Devices({ jobs, job, chosen }: DevicesProps) {
  const numbers = useMemo(() => partNumbersOf(jobs), [jobs]);
  const mostBytes = useMemo(() => mostBytesOf(jobs), [jobs]);
  const { verdicts } = jobs[job]!;
  const row = (device: number) => {
    const v = verdictIndex(jobs[job]!, device);
    const viewed = verdicts[v]!;
    const at = `jobs.${job}.verdicts.${v}`;
    const name = deviceName(jobs, device);
    // The response lists the cheapest one first, where there are prices.
    const isCheapest = v === 0 && verdicts.length > 1 && viewed.device!.price > 0 && fits(viewed);
    return (
      <li key={device} class={device === chosen ? "chosen" : ""}>
        <div class="job-device">
          <h2>
            <a
              href={jobsRouteText({ job, device, isPlan: false })}
              aria-current={device === chosen ? "true" : undefined}
            >
              <bdi>{name}</bdi>
            </a>
          </h2>
          <VerdictText viewed={viewed} at={at} />
          {viewed.plan !== undefined && (
            <a href={jobsRouteText({ job, device, isPlan: true })}>show the plan</a>
          )}
          <DeviceFigures viewed={viewed} at={at} />
          {isCheapest && <span class="muted">the cheapest that it fits</span>}
        </div>
        <MemoryBar
          viewed={viewed}
          at={at}
          label={`Memory at the peak: ${name}`}
          numbers={numbers}
          mostBytes={mostBytes}
        />
      </li>
    );
  };
  return (
    <>
      <section class="panel wide" aria-label="Devices">
        <ul class="job-devices">{devicesOf([jobs[job]!]).map(row)}</ul>
        <p class="muted">The line is the memory of the device; all bars have one scale.</p>
      </section>
      <PartsTable jobs={jobs} job={job} device={chosen} numbers={numbers} />
    </>
  );
}

function JobPage({ jobs, job, chosen, go }: DevicesProps & { go: Go }) {
  const devices = useMemo(() => devicesOf(jobs), [jobs]);
  const { verdicts } = jobs[job]!;
  return (
    <>
      <div class="headline">
        <h1>
          <bdi>{jobName(jobs, job)}</bdi>
        </h1>
        <span class="verdict">
          fits {verdicts.filter(fits).length} of {verdicts.length}{" "}
          {verdicts.length === 1 ? "device" : "devices"}
        </span>
      </div>
      {jobs.length > 1 && <JobSlider jobs={jobs} job={job} go={go} />}
      <Devices jobs={jobs} job={job} chosen={chosen} />
      {jobs.length > 2 && (
        <JobsLines
          jobs={jobs}
          devices={devices}
          chosen={job}
          onChoose={(nextJob, device) => go({ job: nextJob, device })}
        />
      )}
    </>
  );
}

interface PlanProps {
  jobs: ViewedJob[];
  route: JobsRoute;
  device: number;
  go: Go;
}

function PlanPage({ jobs, route, device, go }: PlanProps) {
  const { job } = route;
  const v = verdictIndex(jobs[job]!, device);
  const view = jobs[job]!.verdicts[v]!.plan!;
  return (
    <ViewPath.Provider value={`jobs.${job}.verdicts.${v}.plan.`}>
      <p class="chooser">
        <a href={jobsRouteText({ job, device, isPlan: false })}>
          ← back to <bdi>{jobName(jobs, job)}</bdi> on <bdi>{deviceName(jobs, device)}</bdi>
        </a>
      </p>
      <ScheduleView
        view={view}
        viewed={view.schedules[0]!}
        route={{ ...route, view: "schedule", schedule: 0 }}
        go={go}
      />
    </ViewPath.Provider>
  );
}

export function JobsView({ jobs }: { jobs: ViewedJob[] }) {
  const [asked, go] = useJobsRoute();
  const job = Math.min(asked.job, jobs.length - 1);
  const { verdicts } = jobs[job]!;
  const first = Math.min(...verdicts.map(({ verdict }) => verdict!.device));
  const wanted = asked.device ?? first;
  const device = verdictIndex(jobs[job]!, wanted) < 0 ? first : wanted;
  const plan = verdicts[verdictIndex(jobs[job]!, device)]?.plan;
  const isPlan = asked.isPlan && plan?.schedules[0] !== undefined;
  const name = jobName(jobs, job);
  useEffect(() => {
    document.title = `${name} · ${isPlan ? "Plan" : "Jobs"} · Stowage`;
  }, [name, isPlan]);
  return (
    <>
      <header>
        <span class="brand">Stowage</span>
        <span class="chain">
          <bdi>{name}</bdi>
        </span>
        <nav aria-label="Views">
          <a
            href={jobsRouteText({ job, device, isPlan: false })}
            aria-current={isPlan ? "true" : "page"}
          >
            Jobs
          </a>
        </nav>
      </header>
      <main>
        {isPlan ? (
          <PlanPage jobs={jobs} route={{ ...asked, job }} device={device} go={go} />
        ) : (
          <JobPage jobs={jobs} job={job} chosen={device} go={go} />
        )}
      </main>
    </>
  );
}
