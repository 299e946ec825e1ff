// A budget that is solved as it is moved.
import { useState } from "preact/hooks";
import { formatBytes } from "../parts/units";
import type { Live } from "./live";

interface Props {
  live: Live;
  budget: number; // of what is shown
  isSolved: boolean; // what is shown was solved for the slider
}

export function BudgetSlider({ live, budget, isSolved }: Props) {
  const low = Number(live.view.memory_floor_bytes);
  const high = Math.max(Number(live.view.most_memory_bytes), low + 1);
  const [asked, setAsked] = useState<number>();
  const isAsked = asked !== undefined && (isSolved || live.status !== "");
  const shown = isAsked ? asked : Math.min(Math.max(budget, low), high);
  const moved = (event: Event) => {
    const bytes = Number((event.currentTarget as HTMLInputElement).value);
    setAsked(bytes);
    live.solve(bytes);
  };
  return (
    <div class="slider">
      <label for="budget">budget</label>
      <input
        id="budget"
        type="range"
        min={low}
        max={high}
        step={Math.max(Math.floor((high - low) / 1000), 1)}
        value={shown}
        onInput={moved}
        aria-valuetext={formatBytes(shown)}
      />
      <output for="budget">{formatBytes(shown)}</output>
      <span class="muted" role="status">
        {live.status}
      </span>
    </div>
  );
}
