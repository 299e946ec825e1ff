// The stages' times and sizes: where the time and the memory are.
import { useState } from "preact/hooks";
import type { Stage } from "../../generated/stowage/v1/model";
import type { View } from "../../generated/stowage/v1/view";
import { Card, figuresOf, located } from "../parts/figure";
import { namedOperation, plain } from "../parts/names";
import type { Go } from "../parts/route";
import { type Column, Table } from "../parts/table";
import { kStageFigures } from "./details";

const kRows = 100; // of one page of the table

interface Props {
  view: View;
  selected: number | undefined;
  go: Go;
}

function tagsOf({ no_recompute, no_offload, graph, control_flow }: Stage): string {
  const tags = [
    no_recompute && "runs once",
    no_offload && "stays on the device",
    graph && "graph mode",
    control_flow && "control flow",
  ];
  return tags.filter(Boolean).join(", ");
}

// A figure, and a bar of its share of the largest one.
function measureOf({ head, path, unit }: (typeof kStageFigures)[number], stages: Stage[]) {
  const most = stages.reduce((best, stage) => Math.max(best, Number(stage[path])), 0);
  const column: Column<Stage> = {
    head,
    isNumber: true,
    class: "measure",
    cell: ({ of, at }) => (
      <>
        {figuresOf(of, at)(path, unit)}
        <span
          class={`bar ${path}`}
          style={{ width: `${most > 0 ? (100 * Number(of[path])) / most : 0}%` }}
        />
      </>
    ),
  };
  return column;
}

export function ChainView({ view, selected, go }: Props) {
  const chain = view.chain!;
  const { stages } = chain;
  const [page, setPage] = useState(Math.floor(((selected ?? 1) - 1) / kRows));
  const pages = Math.ceil(stages.length / kRows);
  const shown = Math.min(Math.max(page, 0), pages - 1);
  const first = shown * kRows;
  const floor = view.memory_floor_operation;
  const figure = figuresOf(view, "");
  const columns: Column<Stage>[] = [
    {
      head: "stage",
      isNumber: true,
      cell: (_, i) => (
        <button type="button" class="link" onClick={() => go({ stage: first + i + 1 })}>
          {first + i + 1}
        </button>
      ),
    },
    { head: "name", class: "name", cell: ({ of }) => <bdi>{plain(of.name)}</bdi> },
    ...kStageFigures.map((measure) => measureOf(measure, stages)),
    { head: "", cell: ({ of }) => tagsOf(of) },
  ];
  return (
    <>
      <div class="headline">
        <h1>{stages.length} stages</h1>
      </div>
      <dl class="cards">
        <Card name="a step with all memory" note="one forward and one backward of each stage">
          {figure("store_all_seconds", "seconds")}
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
          {figure("memory_floor_bytes", "bytes")}
        </Card>
        <Card name="most memory" note="storing everything">
          {figure("most_memory_bytes", "bytes")}
        </Card>
        <Card name="input">{figure("chain.input_bytes", "bytes")}</Card>
      </dl>
      <section class="panel wide" aria-label="Stages" tabIndex={0}>
        {pages > 1 && (
          <p class="pager">
            <button type="button" disabled={shown === 0} onClick={() => setPage(shown - 1)}>
              previous
            </button>
            stages {first + 1} to {Math.min(first + kRows, stages.length)}
            <button type="button" disabled={shown === pages - 1} onClick={() => setPage(shown + 1)}>
              next
            </button>
          </p>
        )}
        <Table
          columns={columns}
          rows={located(stages, "chain.stages").slice(first, first + kRows)}
          rowClass={(_, i) => (selected === first + i + 1 ? "selected" : "")}
        />
      </section>
    </>
  );
}
