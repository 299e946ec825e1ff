// What is said about one operation, one stage, the peak and the waits.
import type { Chain, Schedule } from "../generated/stowage/v1/model";
import type { Explanation } from "../generated/stowage/v1/scheduler";
import { Figure } from "./figure";
import { holdingName, namedOperation, operationName, stageName } from "./names";
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

export function OperationDetails({ place, schedule, step, name = "Operation" }: OperationProps) {
  const { entry, detail, index } = step;
  const entryAt = `${place.at}.simulation.timeline.${index}`;
  const total = Number(entry.memory_bytes);
  return (
    <section class="panel" aria-label={name}>
      <h2>operations[{index}]</h2>
      <p class="title">
        <bdi>{namedOperation(place.chain, step.operation)}</bdi>
      </p>
      <dl class="pairs">
        <dt>starts</dt>
        <dd>
          <Figure value={entry.start_seconds} unit="seconds" at={`${entryAt}.start_seconds`} />
        </dd>
        <dt>ends</dt>
        <dd>
          <Figure value={entry.end_seconds} unit="seconds" at={`${entryAt}.end_seconds`} />
        </dd>
        {detail.waits_for !== undefined && (
          <>
            <dt>waits for</dt>
            <dd>
              <OperationLink place={place} schedule={schedule} index={Number(detail.waits_for)} />
            </dd>
          </>
        )}
        <dt>memory</dt>
        <dd>
          <Figure value={entry.memory_bytes} unit="bytes" at={`${entryAt}.memory_bytes`} />
        </dd>
        {kMemoryKinds
          .filter((kind) => detail[`${kind}_bytes`] !== undefined)
          .filter((kind) => (kind === "measured") === (detail.measured_bytes !== undefined))
          .map((kind) => (
            <>
              <dt class="sub">
                <span class={`swatch ${kind}`} />
                {kMemoryNames[kind]}
              </dt>
              <dd>
                <Figure
                  value={detail[`${kind}_bytes`] ?? "0"}
                  unit="bytes"
                  at={`${place.at}.details.${index}.${kind}_bytes`}
                />
                <span
                  class={`bar ${kind}`}
                  style={{ width: `${total > 0 ? (60 * bytesOf(detail, kind)) / total : 0}px` }}
                />
              </dd>
            </>
          ))}
        {entry.host_bytes !== "0" && (
          <>
            <dt>on the host</dt>
            <dd>
              <Figure value={entry.host_bytes} unit="bytes" at={`${entryAt}.host_bytes`} />
            </dd>
          </>
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
  const peak = explanation.peaks[0];
  if (peak === undefined) return null;
  const at = `${place.at}.simulation.explanation.peaks`;
  return (
    <section class="panel" aria-label="Peak">
      <h2>Held at the peak</h2>
      <p>
        <OperationLink place={place} schedule={schedule} index={Number(peak.operation)} />
      </p>
      <table>
        <tbody>
          {peak.holdings.map((holding, i) => (
            <tr key={i}>
              <td class="number">
                <Figure value={holding.bytes} unit="bytes" at={`${at}.0.holdings.${i}.bytes`} />
              </td>
              <td>
                <span class={`swatch ${holding.kind.toLowerCase()}`} />
                <bdi>{holdingName(place.chain, holding)}</bdi>
              </td>
            </tr>
          ))}
          {peak.other_bytes !== "0" && (
            <tr>
              <td class="number">
                <Figure value={peak.other_bytes} unit="bytes" at={`${at}.0.other_bytes`} />
              </td>
              <td>other values</td>
            </tr>
          )}
        </tbody>
      </table>
      {explanation.peaks.length > 1 && (
        <p class="muted">
          then{" "}
          {explanation.peaks.slice(1).map((next, i) => (
            <span key={i}>
              {i > 0 && ", "}
              <Figure
                value={next.memory_bytes}
                unit="bytes"
                at={`${at}.${i + 1}.memory_bytes`}
              />{" "}
              at <OperationLink place={place} schedule={schedule} index={Number(next.operation)} />
            </span>
          ))}
        </p>
      )}
    </section>
  );
}

export function WaitDetails({ place, schedule, explanation }: ExplanationProps) {
  return (
    <section class="panel" aria-label="Waits">
      <h2>Longest waits</h2>
      {explanation.idles.length === 0 && <p class="muted">The compute queue never waits.</p>}
      <table>
        <tbody>
          {explanation.idles.map((idle, i) => (
            <tr key={i}>
              <td class="badge-cell">
                <span class="badge">{i + 1}</span>
              </td>
              <td class="number">
                <Figure
                  value={idle.seconds}
                  unit="seconds"
                  at={`${place.at}.simulation.explanation.idles.${i}.seconds`}
                />
              </td>
              <td>
                <OperationLink place={place} schedule={schedule} index={Number(idle.operation)} />
                {idle.waits_for !== undefined && (
                  <>
                    {" "}
                    for{" "}
                    <OperationLink
                      place={place}
                      schedule={schedule}
                      index={Number(idle.waits_for)}
                    />
                  </>
                )}
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

export function StageDetails({ place, schedule, explanation, timeline, stage }: StageProps) {
  const { chain } = place;
  const own = chain.stages[stage - 1];
  const fate = explanation.stages[stage - 1];
  if (own === undefined || fate === undefined) return null;
  const at = `chain.stages.${stage - 1}`;
  const operations = timeline.steps.filter((step) => step.operation.stage === stage);
  return (
    <section class="panel" aria-label="Stage">
      <h2>Stage {stage}</h2>
      <p class="title">
        <bdi>{stageName(chain, stage)}</bdi>
      </p>
      <p>{fateText(fate)}</p>
      <dl class="pairs">
        <dt>forward</dt>
        <dd>
          <Figure value={own.forward_seconds} unit="seconds" at={`${at}.forward_seconds`} />
        </dd>
        <dt>backward</dt>
        <dd>
          <Figure value={own.backward_seconds} unit="seconds" at={`${at}.backward_seconds`} />
        </dd>
        <dt>output</dt>
        <dd>
          <Figure value={own.output_bytes} unit="bytes" at={`${at}.output_bytes`} />
        </dd>
        <dt>saved</dt>
        <dd>
          <Figure value={own.saved_bytes} unit="bytes" at={`${at}.saved_bytes`} />
        </dd>
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
