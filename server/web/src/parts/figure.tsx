// Figures of the JSON: each one says where it is from, and has the exact value beside the text.
import { type ComponentChildren, createContext } from "preact";
import { useContext } from "preact/hooks";
import { format, type Unit } from "./units";

// Where the view stands in the document's JSON, as in "jobs.1.verdicts.0.plan."; by default the
// document itself is the view.
export const ViewPath = createContext("");

interface FigureProps {
  value: number | string;
  unit: Unit;
  at: string; // the path in the view's JSON, as in "schedules.0.answer.prediction.gap"
}

export function Figure({ value, unit, at }: FigureProps) {
  const path = useContext(ViewPath);
  return (
    <data value={String(value)} data-at={path + at} data-unit={unit}>
      {format(value, unit)}
    </data>
  );
}

// A message and its path.
export interface Located<T> {
  of: T;
  at: string;
}

// The messages of a list whose path is `at`.
export function located<T>(list: T[], at: string): Located<T>[] {
  return list.map((of, i) => ({ of, at: `${at}.${i}` }));
}

// Where a message has a number or a text: "makespan_seconds", or "prediction.makespan_seconds".
export type Path<T> = {
  [K in keyof T & string]-?: NonNullable<T[K]> extends number | string
    ? K
    : NonNullable<T[K]> extends boolean | readonly unknown[]
      ? never
      : `${K}.${Path<NonNullable<T[K]>>}`;
}[keyof T & string];

// Undefined where a message on the way is not set, or the field itself.
export function valueAt<T>(of: T, path: Path<T>): number | string | undefined {
  let inner: unknown = of;
  for (const key of path.split(".")) inner = (inner as Record<string, unknown> | undefined)?.[key];
  return inner as number | string | undefined;
}

// Makes the figures of one message; undefined where it is not set, or does not have the value.
export function figuresOf<T>(of: T | undefined, at: string) {
  return (path: Path<T>, unit: Unit): ComponentChildren => {
    const value = of && valueAt(of, path);
    if (value === undefined) return undefined;
    return <Figure value={value} unit={unit} at={at === "" ? path : `${at}.${path}`} />;
  };
}

interface CardProps {
  name: string;
  children: ComponentChildren;
  note?: ComponentChildren;
  tone?: "good" | "bad" | undefined;
}

export function Card({ name, children, note, tone }: CardProps) {
  return (
    <div class={`card ${tone ?? ""}`}>
      <dt>{name}</dt>
      <dd>
        <span class="value">{children}</span>
        <span class="note">{note}</span>
      </dd>
    </div>
  );
}

// A name and what it is, of a list of class "pairs".
export function Pair({ name, children }: { name: string; children: ComponentChildren }) {
  return (
    <>
      <dt>{name}</dt>
      <dd>{children}</dd>
    </>
  );
}
