// Figures of the JSON: each one says where it is from, and has the exact value beside the text.
import { type ComponentChildren, createContext } from "preact";
import { useContext } from "preact/hooks";
import { format, type Unit } from "./units";

// Where the view stands in the document's JSON, as in "jobs.1.verdicts.0.plan."; the document itself
// is the view by default.
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
