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
  isNumber?: boolean; // stands at the right, as figures do
  class?: string; // of the cells
}

export type Column<Row> = FigureColumn<Row> | NameColumn<Row> | CellColumn<Row>;

function isNumber<Row>(column: Column<Row>): boolean {
  return "path" in column || ("cell" in column && column.isNumber === true);
}

interface CellProps<Row> {
  column: Column<Row>;
  row: Located<Row>;
  index: number; // of the row
}

function Cell<Row>({ column, row, index }: CellProps<Row>) {
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
  const classes = [column.isNumber && "number", column.class].filter(Boolean);
  return <td class={classes.join(" ")}>{column.cell(row, index)}</td>;
}

interface Props<Row> {
  columns: Column<Row>[];
  rows: Located<Row>[];
  rowClass?: (row: Located<Row>, index: number) => string;
}

export function Table<Row>({ columns, rows, rowClass }: Props<Row>) {
  const head = (column: Column<Row>, i: number) =>
    column.head === "" ? (
      <td key={i} />
    ) : (
      <th key={i} class={isNumber(column) ? "number" : ""}>
        {column.head}
      </th>
    );
  return (
    <table class="grid">
      <thead>
        <tr>{columns.map(head)}</tr>
      </thead>
      <tbody>
        {rows.map((row, index) => (
          <tr key={row.at} class={rowClass?.(row, index)}>
            {columns.map((column, i) => (
              <Cell key={i} column={column} row={row} index={index} />
            ))}
          </tr>
        ))}
      </tbody>
    </table>
  );
}
