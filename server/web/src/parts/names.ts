// Operations, stages and values as the command line names them.
import type { Chain, Operation } from "../../generated/stowage/v1/model";
import type { Holding } from "../../generated/stowage/v1/scheduler";

// A chain is data of others. What a reader could not see, or what reorders text, is written out;
// a name that would fill the page is cut.
export function plain(name: string, most = 80): string {
  const characters = Array.from(name);
  const short = characters.length > most ? [...characters.slice(0, most - 1), "…"] : characters;
  return short
    .map((character) =>
      /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Co}\p{Cs}]/u.test(character)
        ? `\\u{${character.codePointAt(0)!.toString(16)}}`
        : character,
    )
    .join("");
}

export function chainName(chain: Chain): string {
  return chain.name === "" ? "unnamed chain" : plain(chain.name);
}

function ownName(chain: Chain, l: number): string {
  return plain(chain.stages[l - 1]?.name ?? "");
}

// "stage 12 (layer3.0)", "the input", "the loss".
export function stageName(chain: Chain, l: number): string {
  if (l === 0) return "the input";
  if (l === chain.stages.length + 1) return "the loss";
  const name = ownName(chain, l);
  return name === "" ? `stage ${l}` : `stage ${l} (${name})`;
}

// "BACKWARD 27", "FORWARD_SAVE 3-5 graph", "FORWARD_SAVE 2 save_option 1", "BACKWARD 39 (the loss)".
export function operationName(chain: Chain, operation: Operation): string {
  const first = operation.first_stage ?? operation.stage;
  const range = first === operation.stage ? `${operation.stage}` : `${first}-${operation.stage}`;
  const mode = operation.mode === "GRAPH" ? " graph" : "";
  const way = operation.save_option ? ` save_option ${operation.save_option}` : "";
  const loss = operation.stage === chain.stages.length + 1 ? " (the loss)" : "";
  return `${operation.kind} ${range}${mode}${way}${loss}`;
}

// "BACKWARD 27 (layer3.0)".
export function namedOperation(chain: Chain, operation: Operation): string {
  const name = ownName(chain, operation.stage);
  return operationName(chain, operation) + (name === "" ? "" : ` (${name})`);
}

export function holdingName(chain: Chain, holding: Holding): string {
  switch (holding.kind) {
    case "OUTPUT":
      return holding.stage === 0 ? "the input" : `output of ${stageName(chain, holding.stage)}`;
    case "SAVED":
      return `saved by ${stageName(chain, holding.stage)}`;
    case "GRADIENT":
      return `gradient of ${stageName(chain, holding.stage)}`;
    default:
      return "temporary, of the operation itself";
  }
}
