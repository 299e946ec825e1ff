// A job's memory on a device: what is there at the peak as a stacked bar, against what the device
// has. Parts differ in pattern as well as in colour.
import { useState } from "preact/hooks";
import type { Component } from "../../generated/stowage/v1/model";
import type { ViewedJob, ViewedVerdict } from "../../generated/stowage/v1/view";
import { kColors } from "../charts/lines_chart";
import { Figure } from "../parts/figure";
import { plain } from "../parts/names";
import { formatBytes } from "../parts/units";

const kPatterns = 6; // of jobs.css

// The number of each part, over all jobs: with it come its colour and its pattern.
export type PartNumbers = Map<string, number>;

// A part is known by its name; those of one name by their order.
export function partKeys(parts: Component[]): string[] {
  const counts = new Map<string, number>();
  return parts.map(({ name }) => {
    const count = counts.get(name) ?? 0;
    counts.set(name, count + 1);
    return `${count} ${name}`;
  });
}

export function partNumbersOf(jobs: ViewedJob[]): PartNumbers {
  const keys = jobs.flatMap(({ verdicts }) => verdicts.flatMap(({ parts }) => partKeys(parts)));
  return new Map([...new Set(keys)].map((key, number) => [key, number]));
}

export function partName({ name }: Component): string {
  return name === "" ? "unnamed" : plain(name);
}

// The most that any bar has to show, so that all have one scale.
export function mostBytesOf(jobs: ViewedJob[]): number {
  const bytes = jobs.flatMap(({ verdicts }) =>
    verdicts.flatMap(({ verdict, device }) => [
      Number(verdict!.peak_bytes),
      Number(device!.platform!.memory_bytes ?? 0),
    ]),
  );
  return bytes.reduce((most, one) => Math.max(most, one), 1);
}

function lookOf(number: number): { class: string; style: { backgroundColor: string } } {
  // Another pair of pattern and colour once all patterns are taken.
  const color = kColors[(number + Math.floor(number / kPatterns)) % kColors.length]!;
  return {
    class: `pattern-${number % kPatterns}`,
    style: { backgroundColor: `var(--${color})` },
  };
}

export function PartSwatch({ number }: { number: number }) {
  const look = lookOf(number);
  return <span class={`swatch ${look.class}`} style={look.style} />;
}

function exactly({ bytes }: Component): string {
  return `${formatBytes(Number(bytes))} (${BigInt(bytes).toLocaleString("en")} bytes)`;
}

interface BarProps {
  viewed: ViewedVerdict;
  at: string; // the path of the ViewedVerdict
  label: string;
  numbers: PartNumbers;
  mostBytes: number; // of the scale
}

// What the job takes in all; the part that is pointed at instead.
function Caption({ viewed, at, part }: { viewed: ViewedVerdict; at: string; part?: Component }) {
  if (part !== undefined) {
    return (
      <p class="muted">
        <bdi>{partName(part)}</bdi>: {exactly(part)}
      </p>
    );
  }
  const { verdict } = viewed;
  const isPlain = verdict!.fit === "DOES_NOT_FIT";
  return (
    <p class="muted">
      takes <Figure value={verdict!.peak_bytes} unit="bytes" at={`${at}.verdict.peak_bytes`} />
      {isPlain && " with all layers kept"}
      {verdict!.peak_outside_layers && ", outside of the layers"}
    </p>
  );
}

// One stop of the Tab key; arrows go from part to part.
export function MemoryBar({ viewed, at, label, numbers, mostBytes }: BarProps) {
  const { parts, device } = viewed;
  const [pointed, setPointed] = useState<number>();
  const keys = partKeys(parts);
  const share = (bytes: string | undefined) => `${(100 * Number(bytes ?? 0)) / mostBytes}%`;
  const part = parts[pointed ?? -1];
  const steps: Record<string, number> = {
    ArrowLeft: -1,
    ArrowDown: -1,
    ArrowRight: 1,
    ArrowUp: 1,
    Home: -parts.length,
    End: parts.length,
  };
  const pressed = (event: KeyboardEvent) => {
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    setPointed(Math.min(Math.max((pointed ?? 0) + step, 0), parts.length - 1));
  };
  return (
    <>
      <div
        class="job-bar"
        role="slider"
        tabIndex={0}
        aria-label={label}
        aria-valuemin={1}
        aria-valuemax={Math.max(parts.length, 1)}
        aria-valuenow={(pointed ?? 0) + 1}
        aria-valuetext={part && `${partName(part)}: ${exactly(part)}`}
        onKeyDown={pressed}
        onFocus={() => setPointed((before) => before ?? 0)}
        onBlur={() => setPointed(undefined)}
        onPointerLeave={() => setPointed(undefined)}
      >
        <span class="room" style={{ width: share(device!.platform!.memory_bytes) }} />
        <span class="parts">
          {parts.map((one, i) => {
            const look = lookOf(numbers.get(keys[i]!)!);
            return (
              <span
                key={keys[i]}
                class={`part ${look.class} ${i === pointed ? "pointed" : ""}`}
                style={{ ...look.style, width: share(one.bytes) }}
                onPointerEnter={() => setPointed(i)}
                onClick={() => setPointed(i)}
              />
            );
          })}
        </span>
        <span class="limit" style={{ left: share(device!.platform!.memory_bytes) }} />
      </div>
      <Caption viewed={viewed} at={at} {...(part === undefined ? {} : { part })} />
    </>
  );
}
