// The pictures of an experiment: one for each network and link, or network and budget.
import type {
  Experiment,
  ExperimentAnswer,
  ExperimentNetwork,
  ExperimentPoint,
} from "../../generated/stowage/v1/view";
import { kByteSteps } from "../charts/axes";
import { type LinePoint, type LinesPlot } from "../charts/lines_chart";
import type { Quantity } from "../parts/route";
import { formatPercent, formatRate, tickBytes, tickRate, tickSeconds } from "../parts/units";

interface Kind {
  title: string;
  x: (point: ExperimentPoint) => number;
  y: (answer: ExperimentAnswer) => number | undefined;
  // What is equal in one picture, and what is said of it beside the network's name.
  fixed: (point: ExperimentPoint) => string;
  name: (point: ExperimentPoint) => string;
}

const link = ({ platform }: ExperimentPoint) => platform?.offload_bytes_per_second ?? 0;
const memory = ({ platform }: ExperimentPoint) => Number(platform?.memory_bytes ?? 0);
const makespan = ({ prediction }: ExperimentAnswer) => prediction?.makespan_seconds;
const linkName = (point: ExperimentPoint) => formatRate(link(point));

export const kKinds: Record<Quantity, Kind> = {
  memory: {
    title: "Makespan over memory",
    x: memory,
    y: makespan,
    fixed: (point) => String(link(point)),
    name: linkName,
  },
  bandwidth: {
    title: "Makespan over bandwidth",
    x: link,
    y: makespan,
    fixed: (point) => String(memory(point)),
    name: ({ alpha }) => `α ${formatPercent(alpha)}`,
  },
  ratio: {
    title: "Ratio to the bound of transfers over memory",
    x: memory,
    y: ({ transfer_ratio }) => transfer_ratio,
    fixed: (point) => String(link(point)),
    name: linkName,
  },
};

export interface Picture {
  network: number; // index in Experiment.networks
  name: string; // beside the network's
  points: number[]; // indices in its points, by ascending x
}

// Those with two points and more, or all where none has them.
export function picturesOf(experiment: Experiment, quantity: Quantity): Picture[] {
  const { x, fixed, name } = kKinds[quantity];
  const all = experiment.networks.flatMap(({ points }, network) => {
    const groups = new Map<string, Picture>();
    points.forEach((point, index) => {
      const key = fixed(point);
      const group = groups.get(key) ?? { network, name: name(point), points: [] };
      group.points.push(index);
      groups.set(key, group);
    });
    for (const group of groups.values()) group.points.sort((a, b) => x(points[a]!) - x(points[b]!));
    return [...groups.values()];
  });
  const lines = all.filter(({ points }) => points.length > 1);
  return lines.length > 0 ? lines : all;
}

// What the experiment varies, and so can be drawn over. A ratio needs a schedule of any solver.
export function quantitiesOf({ networks }: Experiment): Quantity[] {
  const points = networks.flatMap((network) => network.points);
  const varies = (of: (point: ExperimentPoint) => number) =>
    networks.some((network) => new Set(network.points.map(of)).size > 1);
  const hasMemory = varies(memory) || !varies(link);
  const hasRatio = points.some(({ answers }) =>
    answers.some(({ transfer_ratio }) => transfer_ratio !== undefined),
  );
  return [
    ...(hasMemory ? (["memory"] as const) : []),
    ...(varies(link) ? (["bandwidth"] as const) : []),
    ...(hasMemory && hasRatio ? (["ratio"] as const) : []),
  ];
}

// The picture that a preset of a paper has.
export function firstQuantity({ name }: Experiment, quantities: Quantity[]): Quantity {
  const preset = { figure3: "bandwidth", ratio: "ratio" }[name];
  return quantities.find((quantity) => quantity === preset) ?? quantities[0]!;
}

// The upper end: at least half of the lines fit, so that a solver that is far worse than the others
// does not flatten them.
function mostOf(lines: LinePoint[][]): number {
  const tops = lines
    .map((line) => line.reduce((top, { y }) => Math.max(top, y ?? 0), 0))
    .filter((top) => top > 0)
    .sort((a, b) => a - b);
  return tops[Math.floor(tops.length / 2)] ?? 0;
}

export interface Drawn {
  plot: LinesPlot;
  isCut: boolean; // whether the axis ends below the highest value
}

export function drawnOf(
  network: ExperimentNetwork,
  picture: Picture,
  quantity: Quantity,
  solvers: number,
  height: number,
): Drawn {
  const { x, y } = kKinds[quantity];
  const points = picture.points.map((index) => network.points[index]!);
  const lines = Array.from({ length: solvers }, (_, solver) =>
    points.map((point) => ({ x: x(point), y: y(point.answers[solver]!) ?? null })),
  );
  const isRatio = quantity === "ratio";
  // Each solver's bound is the same one.
  const bound = points.flatMap((point): LinePoint[] => {
    const one = point.answers.find(({ prediction }) => prediction !== undefined);
    if (one === undefined) return [];
    return [{ x: x(point), y: isRatio ? 1 : one.prediction!.lower_bound_seconds }];
  });
  const ys = lines.flat().flatMap((point) => point.y ?? []);
  const base = isRatio ? 1 : network.store_all_seconds;
  const least = Math.min(base, ...bound.map((point) => point.y!), ...ys);
  const most = Math.max(mostOf(lines), base);
  const room = (most - least || most || 1) * 0.1;
  const isLink = quantity === "bandwidth";
  const marks = isLink ? [] : [network.memory_floor_bytes, network.most_memory_bytes].map(Number);
  const xs = [...points.map(x), ...marks];
  const [low, high] = [Math.min(...xs), Math.max(...xs)];
  const margin = (high - low || high || 1) * 0.03;
  return {
    plot: {
      lines,
      bounds: [bound],
      xRange: [low - margin, high + margin],
      yRange: [Math.max(least - room, 0), most + room],
      xTick: isLink ? tickRate : tickBytes,
      ...(isLink ? {} : { xSteps: kByteSteps }),
      yTick: isRatio ? (value) => String(Number(value.toPrecision(9))) : tickSeconds,
      verticals: marks.map((bytes, i) => ({ x: bytes, text: ["memory floor", "store all"][i]! })),
      height,
    },
    isCut: ys.some((value) => value > most + room),
  };
}
