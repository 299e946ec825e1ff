// Tables as data: a column has a head, and for each row the figure at a path, or a cell of its own.
import type { ComponentChildren } from "preact";
import { figuresOf, type Located, type Path, valueAt } from "./figure";
import { plain } from "./names";
import type { Unit } from "./units";

interface FigureColumn<Row> {
  head: string;
  path: Path<Row>;
  unit: Unit;
  none?: string; // what is said where a row has no value; default: nothing
}

// A text of others.
interface NameColumn<Row> {
  head: string;
  name: Path<Row>;
}

interface CellColumn<Row> {
  head: string;
  cell: (row: Located<Row>, index: number) => ComponentChildren;
  class?: string; // of the cells, and of the head
  isRowHead?: boolean;
}

export type Column<Row> = FigureColumn<Row> | NameColumn<Row> | CellColumn<Row>;

function classOf<Row>(column: Column<Row>): string | undefined {
  if ("path" in column) return "number";
  return "cell" in column ? column.class : undefined;
}

function Cell<Row>({
  column,
  row,
  index,
}: {
  column: Column<Row>;
  row: Located<Row>;
  index: number;
}) {
  if ("name" in column) {
    return (
      <td>
        <bdi>{plain(String(valueAt(row.of, column.name)))}</bdi>
      </td>
    );
  }
  if ("path" in column) {
    const figure = figuresOf(row.of, row.at)(column.path, column.unit);
    return <td class="number">{figure ?? column.none}</td>;
  }
  const children = column.cell(row, index);
  if (column.isRowHead) return <th scope="row">{children}</th>;
  return <td class={column.class}>{children}</td>;
}

export function Heads<Row>({ columns }: { columns: Column<Row>[] }) {
  return (
    <>
      {columns.map((column, i) =>
        column.head === "" ? (
          <td key={i} />
        ) : (
          <th key={i} class={classOf(column)}>
            {column.head}
          </th>
        ),
      )}
    </>
  );
}

interface CellsProps<Row> {
  columns: Column<Row>[];
  row: Located<Row>;
  index: number; // of the row
}

export function Cells<Row>({ columns, row, index }: CellsProps<Row>) {
  return (
    <>
      {columns.map((column, i) => (
        <Cell key={i} column={column} row={row} index={index} />
      ))}
    </>
  );
}

interface Props<Row> {
  columns: Column<Row>[];
  rows: Located<Row>[];
  rowClass?: (row: Located<Row>, index: number) => string;
}

export function Table<Row>({ columns, rows, rowClass }: Props<Row>) {
  return (
    <table class="grid">
      <thead>
        <tr>
          <Heads columns={columns} />
        </tr>
      </thead>
      <tbody>
        {rows.map((row, i) => (
          <tr key={row.at} class={rowClass?.(row, i)}>
            <Cells columns={columns} row={row} index={i} />
          </tr>
        ))}
      </tbody>
    </table>
  );
}
