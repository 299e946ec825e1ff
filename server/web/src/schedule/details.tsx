// What is said about one operation, one stage, the peak and the waits.
import type { Chain, Schedule } from "../../generated/stowage/v1/model";
import type { Explanation } from "../../generated/stowage/v1/scheduler";
import { figuresOf, located, Pair } from "../parts/figure";
import { holdingName, namedOperation, operationName, stageName } from "../parts/names";
import { fateText } from "./stage_strip";
import { bytesOf, kMemoryKinds, kMemoryNames, type Step, type Timeline } from "./timeline";

export interface Place {
  chain: Chain;
  at: string; // the path of the ViewedSchedule
  choose: (operation: number) => void;
}

function OperationLink({
  place,
  schedule,
  index,
}: {
  place: Place;
  schedule: Schedule;
  index: number;
}) {
  const operation = schedule.operations[index];
  if (operation === undefined) return <span>[{index}] END</span>;
  return (
    <button type="button" class="link" onClick={() => place.choose(index)}>
      [{index}] {operationName(place.chain, operation)}
    </button>
  );
}

interface OperationProps {
  place: Place;
  schedule: Schedule;
  step: Step;
  name?: string; // where there are several
}

// What takes an operation's memory, each with a bar.
function MemoryPairs({ place, step }: { place: Place; step: Step }) {
  const { entry, detail, index } = step;
  const total = Number(entry.memory_bytes);
  const figure = figuresOf(detail, `${place.at}.details.${index}`);
  const isMeasured = detail.measured_bytes !== undefined;
  const kinds = kMemoryKinds.filter(
    (kind) => detail[`${kind}_bytes`] !== undefined && (kind === "measured") === isMeasured,
  );
  return (
    <>
      {kinds.map((kind) => (
        <>
          <dt class="sub">
            <span class={`swatch ${kind}`} />
            {kMemoryNames[kind]}
          </dt>
          <dd>
            {figure(`${kind}_bytes`, "bytes")}
            <span
              class={`bar ${kind}`}
              style={{ width: `${total > 0 ? (60 * bytesOf(detail, kind)) / total : 0}px` }}
            />
          </dd>
        </>
      ))}
    </>
  );
}

export function OperationDetails({ place, schedule, step, name = "Operation" }: OperationProps) {
  const { entry, detail, index } = step;
  const figure = figuresOf(entry, `${place.at}.simulation.timeline.${index}`);
  const before = detail.waits_for;
  return (
    <section class="panel" aria-label={name}>
      <h2>operations[{index}]</h2>
      <p class="title">
        <bdi>{namedOperation(place.chain, step.operation)}</bdi>
      </p>
      <dl class="pairs">
        <Pair name="starts">{figure("start_seconds", "seconds")}</Pair>
        <Pair name="ends">{figure("end_seconds", "seconds")}</Pair>
        {before !== undefined && (
          <Pair name="waits for">
            <OperationLink place={place} schedule={schedule} index={Number(before)} />
          </Pair>
        )}
        <Pair name="memory">{figure("memory_bytes", "bytes")}</Pair>
        <MemoryPairs place={place} step={step} />
        {entry.host_bytes !== "0" && (
          <Pair name="on the host">{figure("host_bytes", "bytes")}</Pair>
        )}
      </dl>
    </section>
  );
}

interface ExplanationProps {
  place: Place;
  schedule: Schedule;
  explanation: Explanation;
}

export function PeakDetails({ place, schedule, explanation }: ExplanationProps) {
  const at = `${place.at}.simulation.explanation.peaks`;
  const [peak, ...others] = located(explanation.peaks, at);
  if (peak === undefined) return null;
  const link = (operation: string) => (
    <OperationLink place={place} schedule={schedule} index={Number(operation)} />
  );
  return (
    <section class="panel" aria-label="Peak">
      <h2>Held at the peak</h2>
      <p>{link(peak.of.operation)}</p>
      <table>
        <tbody>
          {located(peak.of.holdings, `${peak.at}.holdings`).map(({ of, at }) => (
            <tr key={at}>
              <td class="number">{figuresOf(of, at)("bytes", "bytes")}</td>
              <td>
                <span class={`swatch ${of.kind.toLowerCase()}`} />
                <bdi>{holdingName(place.chain, of)}</bdi>
              </td>
            </tr>
          ))}
          {peak.of.other_bytes !== "0" && (
            <tr>
              <td class="number">{figuresOf(peak.of, peak.at)("other_bytes", "bytes")}</td>
              <td>other values</td>
            </tr>
          )}
        </tbody>
      </table>
      {others.length > 0 && (
        <p class="muted">
          then{" "}
          {others.map(({ of, at }, i) => (
            <span key={at}>
              {i > 0 && ", "}
              {figuresOf(of, at)("memory_bytes", "bytes")} at {link(of.operation)}
            </span>
          ))}
        </p>
      )}
    </section>
  );
}

export function WaitDetails({ place, schedule, explanation }: ExplanationProps) {
  const idles = located(explanation.idles, `${place.at}.simulation.explanation.idles`);
  const link = (operation: string) => (
    <OperationLink place={place} schedule={schedule} index={Number(operation)} />
  );
  return (
    <section class="panel" aria-label="Waits">
      <h2>Longest waits</h2>
      {idles.length === 0 && <p class="muted">The compute queue never waits.</p>}
      <table>
        <tbody>
          {idles.map(({ of, at }, i) => (
            <tr key={at}>
              <td class="badge-cell">
                <span class="badge">{i + 1}</span>
              </td>
              <td class="number">{figuresOf(of, at)("seconds", "seconds")}</td>
              <td>
                {link(of.operation)}
                {of.waits_for !== undefined && <> for {link(of.waits_for)}</>}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </section>
  );
}

interface StageProps {
  place: Place;
  schedule: Schedule;
  explanation: Explanation;
  timeline: Timeline;
  stage: number;
}

// Of a stage, in this order wherever they are shown.
export const kStageFigures = [
  { head: "forward", path: "forward_seconds", unit: "seconds" },
  { head: "backward", path: "backward_seconds", unit: "seconds" },
  { head: "output", path: "output_bytes", unit: "bytes" },
  { head: "saved", path: "saved_bytes", unit: "bytes" },
] as const;

export function StageDetails({ place, schedule, explanation, timeline, stage }: StageProps) {
  const { chain } = place;
  const own = chain.stages[stage - 1];
  const fate = explanation.stages[stage - 1];
  if (own === undefined || fate === undefined) return null;
  const figure = figuresOf(own, `chain.stages.${stage - 1}`);
  const operations = timeline.steps.filter((step) => step.operation.stage === stage);
  return (
    <section class="panel" aria-label="Stage">
      <h2>Stage {stage}</h2>
      <p class="title">
        <bdi>{stageName(chain, stage)}</bdi>
      </p>
      <p>{fateText(fate)}</p>
      <dl class="pairs">
        {kStageFigures.map(({ head, path, unit }) => (
          <Pair key={path} name={head}>
            {figure(path, unit)}
          </Pair>
        ))}
      </dl>
      <p class="links">
        {operations.slice(0, 24).map((step) => (
          <OperationLink key={step.index} place={place} schedule={schedule} index={step.index} />
        ))}
        {operations.length > 24 && <span class="muted">and {operations.length - 24} more</span>}
      </p>
    </section>
  );
}
