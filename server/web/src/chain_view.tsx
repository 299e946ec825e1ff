// The stages' times and sizes: where the time and the memory are.
import { useState } from "preact/hooks";
import type { Stage } from "../generated/stowage/v1/model";
import type { View } from "../generated/stowage/v1/view";
import { Card, Figure } from "./figure";
import { namedOperation, plain } from "./names";
import type { Go } from "./route";

const kRows = 100; // of one page of the table

interface Props {
  view: View;
  selected: number | undefined;
  go: Go;
}

type Column = readonly [
  key: "forward_seconds" | "backward_seconds" | "output_bytes" | "saved_bytes",
  name: string,
];
const kColumns: Column[] = [
  ["forward_seconds", "forward"],
  ["backward_seconds", "backward"],
  ["output_bytes", "output"],
  ["saved_bytes", "saved"],
];

export function ChainView({ view, selected, go }: Props) {
  const chain = view.chain!;
  const { stages } = chain;
  const [page, setPage] = useState(Math.floor(((selected ?? 1) - 1) / kRows));
  const pages = Math.ceil(stages.length / kRows);
  const shown = Math.min(Math.max(page, 0), pages - 1);
  const most = (key: Column[0]) =>
    stages.reduce((best, stage) => Math.max(best, Number(stage[key])), 0);
  const largest = Object.fromEntries(kColumns.map(([key]) => [key, most(key)])) as Record<
    Column[0],
    number
  >;
  const floor = view.memory_floor_operation;
  const row = (stage: Stage, i: number) => {
    const l = shown * kRows + i + 1;
    const tags = [
      stage.no_recompute && "runs once",
      stage.no_offload && "stays on the device",
      stage.graph && "graph mode",
      stage.control_flow && "control flow",
    ].filter(Boolean);
    return (
      <tr key={l} class={selected === l ? "selected" : ""}>
        <td class="number">
          <button type="button" class="link" onClick={() => go({ stage: l })}>
            {l}
          </button>
        </td>
        <td class="name">
          <bdi>{plain(stage.name)}</bdi>
        </td>
        {kColumns.map(([key]) => (
          <td key={key} class="number measure">
            <Figure
              value={stage[key]}
              unit={key.endsWith("seconds") ? "seconds" : "bytes"}
              at={`chain.stages.${l - 1}.${key}`}
            />
            <span
              class={`bar ${key}`}
              style={{
                width: `${largest[key] > 0 ? (100 * Number(stage[key])) / largest[key] : 0}%`,
              }}
            />
          </td>
        ))}
        <td>{tags.join(", ")}</td>
      </tr>
    );
  };
  return (
    <>
      <div class="headline">
        <h1>{stages.length} stages</h1>
      </div>
      <dl class="cards">
        <Card name="a step with all memory" note="one forward and one backward of each stage">
          <Figure value={view.store_all_seconds} unit="seconds" at="store_all_seconds" />
        </Card>
        <Card
          name="memory floor"
          note={
            floor === undefined ? (
              ""
            ) : (
              <>
                which <bdi>{namedOperation(chain, floor)}</bdi> needs by itself
              </>
            )
          }
        >
          <Figure value={view.memory_floor_bytes} unit="bytes" at="memory_floor_bytes" />
        </Card>
        <Card name="most memory" note="storing everything">
          <Figure value={view.most_memory_bytes} unit="bytes" at="most_memory_bytes" />
        </Card>
        <Card name="input">
          <Figure value={chain.input_bytes} unit="bytes" at="chain.input_bytes" />
        </Card>
      </dl>
      <section class="panel wide" aria-label="Stages" tabIndex={0}>
        {pages > 1 && (
          <p class="pager">
            <button type="button" disabled={shown === 0} onClick={() => setPage(shown - 1)}>
              previous
            </button>
            stages {shown * kRows + 1} to {Math.min((shown + 1) * kRows, stages.length)}
            <button type="button" disabled={shown === pages - 1} onClick={() => setPage(shown + 1)}>
              next
            </button>
          </p>
        )}
        <table class="grid">
          <thead>
            <tr>
              <th class="number">stage</th>
              <th>name</th>
              {kColumns.map(([key, name]) => (
                <th key={key} class="number">
                  {name}
                </th>
              ))}
              <td />
            </tr>
          </thead>
          <tbody>{stages.slice(shown * kRows, (shown + 1) * kRows).map(row)}</tbody>
        </table>
      </section>
    </>
  );
}
