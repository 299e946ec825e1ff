// The stages in lines, as the command line prints them: what the first sweep leaves of each, how
// often it is recomputed, and its mode. One of them can be selected.
import { useEffect, useRef, useState } from "preact/hooks";
import type { Chain } from "../../generated/stowage/v1/model";
import type { StageFate } from "../../generated/stowage/v1/scheduler";
import { type Colors, readColors, useScheme } from "../charts/colors";
import { stageName } from "../parts/names";

type Fate = "saved" | "checkpoint" | "dropped" | "offloaded";
const kLetters: Record<Fate, string> = {
  saved: "S",
  checkpoint: "c",
  dropped: "·",
  offloaded: "O",
};

// Offloading goes before the first sweep, since it may happen in any sweep.
export function fateOf(stage: StageFate): Fate {
  if (stage.offloaded > 0) return "offloaded";
  if (stage.first_sweep === "KEEPS_SAVED") return "saved";
  return stage.first_sweep === "KEEPS_OUTPUT" ? "checkpoint" : "dropped";
}

function times(count: number): string {
  return count === 1 ? "once" : `${count} times`;
}

export function fateText(stage: StageFate): string {
  const first = {
    saved: "saved",
    checkpoint: "kept as checkpoint",
    dropped: "dropped",
    offloaded: "",
  };
  const words =
    stage.offloaded > 0 ? [`offloaded ${times(stage.offloaded)}`] : [first[fateOf(stage)]];
  if (stage.recomputed > 0) words.push(`recomputed ${times(stage.recomputed)}`);
  if (stage.mode === "GRAPH") words.push("in graph mode");
  if (stage.fused_into !== undefined) words.push(`fused into stage ${stage.fused_into}`);
  return words.join(", ");
}

interface Grid {
  columns: number;
  cell: number; // width
  height: number;
}

function gridOf(width: number, stages: number): Grid {
  const kLines = 6;
  const cell = Math.min(Math.max(Math.floor((width * kLines) / stages), 2), 22);
  return { columns: Math.max(Math.floor(width / cell), 1), cell, height: cell >= 10 ? 34 : 14 };
}

function drawCell(
  context: CanvasRenderingContext2D,
  grid: Grid,
  stage: StageFate,
  colors: Colors,
): void {
  const { columns, cell, height } = grid;
  const at = stage.stage - 1;
  const left = (at % columns) * cell;
  const top = Math.floor(at / columns) * height;
  const fate = fateOf(stage);
  const box = cell > 4 ? cell - 1 : cell;
  const tall = cell >= 10 ? 18 : 9;
  context.fillStyle = colors(`fate-${fate}`);
  context.fillRect(left, top, box, tall);
  if (cell >= 10) {
    context.fillStyle = colors(`on-fate-${fate}`);
    context.fillText(kLetters[fate], left + box / 2, top + tall / 2 + 0.5);
  }
  context.fillStyle = colors("recomputed");
  if (stage.recomputed > 0 && cell < 10) context.fillRect(left, top + tall, box, 3);
  context.fillStyle = colors("text");
  if (stage.recomputed > 0 && cell >= 10) {
    context.fillText(
      stage.recomputed > 9 ? "+" : `${stage.recomputed}`,
      left + box / 2,
      top + tall + 7,
    );
  }
  if (stage.mode === "GRAPH") context.fillRect(left, top + tall - 2, box, 2);
}

interface Props {
  chain: Chain;
  stages: StageFate[];
  selected: number | undefined;
  onSelect: (stage: number) => void;
}

export function StageStrip({ chain, stages, selected, onSelect }: Props) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const [width, setWidth] = useState(0);
  const scheme = useScheme();
  useEffect(() => {
    const parent = canvas.current!.parentElement!;
    const observer = new ResizeObserver(() => setWidth(parent.clientWidth));
    observer.observe(parent);
    return () => observer.disconnect();
  }, []);
  const grid = gridOf(Math.max(width, 1), stages.length);
  useEffect(() => {
    const element = canvas.current!;
    const tall = Math.ceil(stages.length / grid.columns) * grid.height + 2;
    const ratio = devicePixelRatio;
    element.width = Math.round(width * ratio);
    element.height = Math.round(tall * ratio);
    element.style.height = `${tall}px`;
    const context = element.getContext("2d")!;
    context.scale(ratio, ratio);
    context.font = "11px ui-monospace, monospace";
    context.textAlign = "center";
    context.textBaseline = "middle";
    const colors = readColors();
    for (const stage of stages) drawCell(context, grid, stage, colors);
    if (selected === undefined) return;
    const at = selected - 1;
    context.strokeStyle = colors("accent");
    context.lineWidth = 2.5;
    context.strokeRect(
      (at % grid.columns) * grid.cell,
      Math.floor(at / grid.columns) * grid.height + 1,
      Math.max(grid.cell - 1, 3),
      grid.height - 2,
    );
  }, [stages, width, selected, scheme]);

  const stage = stages[(selected ?? 1) - 1];
  const clamp = (number: number) => Math.min(Math.max(number, 1), stages.length);
  const clicked = (event: MouseEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const column = Math.floor((event.clientX - box.left) / grid.cell);
    const number = Math.floor((event.clientY - box.top) / grid.height) * grid.columns + column + 1;
    if (column < grid.columns && number >= 1 && number <= stages.length) onSelect(number);
  };
  const steps: Record<string, number> = {
    ArrowLeft: -1,
    ArrowRight: 1,
    ArrowUp: -grid.columns,
    ArrowDown: grid.columns,
    Home: -stages.length,
    End: stages.length,
  };
  const pressed = (event: KeyboardEvent) => {
    const step = steps[event.key];
    if (step === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    onSelect(clamp(selected === undefined ? 1 : selected + step));
  };
  return (
    <div
      class="strip"
      role="slider"
      tabIndex={0}
      aria-label="Stages"
      aria-valuemin={1}
      aria-valuemax={stages.length}
      aria-valuenow={selected ?? 1}
      aria-valuetext={stage && `${stageName(chain, stage.stage)}: ${fateText(stage)}`}
      onClick={clicked}
      onKeyDown={pressed}
    >
      <canvas ref={canvas} />
    </div>
  );
}
