// What an experiment measured: a picture for each network and link, or each network and budget, the
// figures of one of them, and how they came about.
import { useEffect, useMemo } from "preact/hooks";
import type {
  Experiment,
  ExperimentAnswer,
  ExperimentNetwork,
  ExperimentPoint,
} from "../../generated/stowage/v1/view";
import { LinesChart, Shape } from "../charts/lines_chart";
import { Card, Figure } from "../parts/figure";
import { plain } from "../parts/names";
import { experimentRouteText, type Quantity, useExperimentRoute } from "../parts/route";
import { drawnOf, firstQuantity, kKinds, type Picture, picturesOf, quantitiesOf } from "./pictures";

const kNav: Record<Quantity, string> = {
  memory: "By memory",
  bandwidth: "By bandwidth",
  ratio: "Ratio to bound",
};

function solversOf({ summary }: Experiment): string[] {
  return summary!.solvers.map(({ solver }) => plain(solver));
}

function Legend({ experiment, quantity }: { experiment: Experiment; quantity: Quantity }) {
  return (
    <ul class="legend">
      {solversOf(experiment).map((solver, i) => (
        <li key={i}>
          <Shape index={i} />
          {solver}
        </li>
      ))}
      <li>
        <span class="swatch bound" />
        {quantity === "ratio"
          ? "bound of transfers: none is faster without recomputation"
          : "lower bound: no schedule takes less"}
      </li>
    </ul>
  );
}

function pictureName(experiment: Experiment, picture: Picture): string {
  return `${plain(experiment.networks[picture.network]!.name)} · ${picture.name}`;
}

interface PictureProps {
  experiment: Experiment;
  picture: Picture;
  quantity: Quantity;
}

function Chart({ experiment, picture, quantity, isLarge }: PictureProps & { isLarge: boolean }) {
  const network = experiment.networks[picture.network]!;
  const { length } = experiment.summary!.solvers;
  const { plot, isCut } = useMemo(
    () => drawnOf(network, picture, quantity, length, isLarge ? 0.45 : 0.25),
    [experiment, picture, quantity, isLarge],
  );
  const name = `${kKinds[quantity].title}: ${pictureName(experiment, picture)}`;
  const where = isLarge ? "the table below" : "its own page";
  return (
    <>
      <LinesChart plot={plot} label={`${name}; ${where} has the figures`} />
      {isCut && isLarge && <p class="muted">the axis is cut: the table below has higher values</p>}
    </>
  );
}

function Summary({ experiment }: { experiment: Experiment }) {
  const { solvers, points, common_points } = experiment.summary!;
  const at = "experiment.summary";
  return (
    <section class="panel wide" aria-label="Solvers" tabIndex={0}>
      <h2>Solvers</h2>
      <table class="grid">
        <thead>
          <tr>
            <th>solver</th>
            <th class="number">points</th>
            <th class="number">with a schedule</th>
            <th class="number">below +20 %</th>
            <th class="number">mean overhead</th>
            <th class="number">of rotor's</th>
            <th class="number">wins</th>
          </tr>
        </thead>
        <tbody>
          {solvers.map((record, i) => (
            <tr key={i}>
              <th scope="row">
                <Shape index={i} />
                {plain(record.solver)}
              </th>
              {(["points", "feasible", "cheap"] as const).map((key) => (
                <td key={key} class="number">
                  <Figure value={record[key]} unit="count" at={`${at}.solvers.${i}.${key}`} />
                </td>
              ))}
              <td class="number">
                {record.mean_overhead === undefined ? (
                  "–"
                ) : (
                  <Figure
                    value={record.mean_overhead}
                    unit="excess"
                    at={`${at}.solvers.${i}.mean_overhead`}
                  />
                )}
              </td>
              <td class="number">
                {record.share_of_rotor === undefined ? (
                  "–"
                ) : (
                  <Figure
                    value={record.share_of_rotor}
                    unit="percent"
                    at={`${at}.solvers.${i}.share_of_rotor`}
                  />
                )}
              </td>
              <td class="number">
                <Figure value={record.wins} unit="count" at={`${at}.solvers.${i}.wins`} />
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      <p class="muted">
        mean overhead: of the{" "}
        <Figure value={common_points} unit="count" at={`${at}.common_points`} /> of{" "}
        <Figure value={points} unit="count" at={`${at}.points`} /> points that every solver has a
        schedule for; wins: nobody was faster
      </p>
    </section>
  );
}

function HowMeasured({ experiment }: { experiment: Experiment }) {
  const platform = experiment.networks[0]?.points[0]?.platform;
  const at = "experiment.networks.0.points.0.platform";
  return (
    <section class="panel wide" aria-label="How it was measured">
      <h2>How it was measured</h2>
      <p>
        Times and memory of a schedule are the simulator's, on the network's profile, with whole
        transfers; overheads are relative to storing everything. The time of a solve was measured on
        the machine that ran the experiment, simulation included.
      </p>
      <dl class="pairs">
        <dt>program</dt>
        <dd>stowage {plain(experiment.version)}</dd>
        <dt>link</dt>
        <dd>
          {platform?.half_duplex ? "half duplex: both directions share it" : "full duplex"}
          {", "}
          <Figure
            value={platform?.transfer_latency_seconds ?? 0}
            unit="seconds"
            at={`${at}.transfer_latency_seconds`}
          />{" "}
          for each transfer
        </dd>
        <dt>host memory</dt>
        <dd>
          {Number(platform?.host_memory_bytes ?? 0) === 0 ? (
            "unlimited"
          ) : (
            <Figure
              value={platform!.host_memory_bytes}
              unit="bytes"
              at={`${at}.host_memory_bytes`}
            />
          )}
        </dd>
        <dt>memory slots</dt>
        <dd>
          {experiment.memory_slots === "0" ? (
            "as the solver likes"
          ) : (
            <Figure value={experiment.memory_slots} unit="count" at="experiment.memory_slots" />
          )}
        </dd>
        <dt>limits of a solve</dt>
        <dd>
          <Figure
            value={experiment.solve_memory_bytes}
            unit="bytes"
            at="experiment.solve_memory_bytes"
          />
          {", "}
          {experiment.timeout_seconds === 0 ? (
            "no time limit"
          ) : (
            <Figure
              value={experiment.timeout_seconds}
              unit="seconds"
              at="experiment.timeout_seconds"
            />
          )}
        </dd>
      </dl>
    </section>
  );
}

function AllPictures({
  experiment,
  pictures,
  quantity,
}: {
  experiment: Experiment;
  pictures: Picture[];
  quantity: Quantity;
}) {
  const { networks, summary } = experiment;
  return (
    <>
      <div class="headline">
        <h1>{kKinds[quantity].title}</h1>
        <span class="verdict">
          {networks.length} {networks.length === 1 ? "network" : "networks"},{" "}
          {summary!.solvers.length} {summary!.solvers.length === 1 ? "solver" : "solvers"},{" "}
          {summary!.points} points
        </span>
      </div>
      <Legend experiment={experiment} quantity={quantity} />
      <p class="muted">
        At least half of the solvers fit an axis; a picture's own page has all figures.
      </p>
      <div class="pictures">
        {pictures.map((picture, i) => (
          <section key={i} class="panel" aria-label={pictureName(experiment, picture)}>
            <h2>
              <a href={experimentRouteText(quantity, i)}>
                <bdi>{pictureName(experiment, picture)}</bdi>
              </a>
            </h2>
            <Chart experiment={experiment} picture={picture} quantity={quantity} isLarge={false} />
          </section>
        ))}
      </div>
      <Summary experiment={experiment} />
      <HowMeasured experiment={experiment} />
    </>
  );
}

function NetworkCards({ network, at }: { network: ExperimentNetwork; at: string }) {
  return (
    <dl class="cards">
      <Card name="stages">
        <Figure value={network.stages} unit="count" at={`${at}.stages`} />
      </Card>
      <Card name="memory floor" note="no schedule works below">
        <Figure value={network.memory_floor_bytes} unit="bytes" at={`${at}.memory_floor_bytes`} />
      </Card>
      <Card
        name="store all"
        note={
          <>
            takes{" "}
            <Figure
              value={network.store_all_seconds}
              unit="seconds"
              at={`${at}.store_all_seconds`}
            />
          </>
        }
      >
        <Figure value={network.most_memory_bytes} unit="bytes" at={`${at}.most_memory_bytes`} />
      </Card>
    </dl>
  );
}

const kPredicted = [
  ["makespan_seconds", "makespan", "seconds"],
  ["overhead", "overhead", "excess"],
  ["gap", "gap", "percent"],
  ["recompute_seconds", "recomputing", "seconds"],
  ["idle_seconds", "waiting", "seconds"],
  ["peak_memory_bytes", "peak", "bytes"],
  ["peak_host_bytes", "on the host", "bytes"],
] as const;

function AnswerCells({
  answer,
  solver,
  at,
}: {
  answer: ExperimentAnswer;
  solver: string;
  at: string;
}) {
  const { prediction, transfer_ratio } = answer;
  return (
    <>
      {kPredicted.map(([key, , unit]) => (
        <td key={key} class="number">
          {prediction && (
            <Figure value={prediction[key]} unit={unit} at={`${at}.prediction.${key}`} />
          )}
        </td>
      ))}
      <td class="number">
        {transfer_ratio !== undefined && (
          <Figure value={transfer_ratio} unit="percent" at={`${at}.transfer_ratio`} />
        )}
      </td>
      <td>
        {plain(answer.outcome)}
        {answer.solver !== "" && answer.solver !== solver && ` (${plain(answer.solver)})`}
      </td>
      <td class="number">
        <Figure value={answer.solve_seconds} unit="seconds" at={`${at}.solve_seconds`} />
      </td>
    </>
  );
}

function PointRows({
  point,
  at,
  experiment,
}: {
  point: ExperimentPoint;
  at: string;
  experiment: Experiment;
}) {
  const { platform, alpha, answers } = point;
  return (
    <>
      {answers.map((answer, i) => {
        const solver = experiment.summary!.solvers[i]!.solver;
        return (
          <tr key={i} class={i === 0 ? "first" : ""}>
            {i === 0 && (
              <th class="number" scope="rowgroup" rowSpan={answers.length}>
                <Figure
                  value={platform!.memory_bytes!}
                  unit="bytes"
                  at={`${at}.platform.memory_bytes`}
                />
                <br />α <Figure value={alpha} unit="percent" at={`${at}.alpha`} />
                <br />
                <Figure
                  value={platform!.offload_bytes_per_second}
                  unit="rate"
                  at={`${at}.platform.offload_bytes_per_second`}
                />
              </th>
            )}
            <th scope="row">
              <Shape index={i} />
              {plain(solver)}
            </th>
            <AnswerCells answer={answer} solver={solver} at={`${at}.answers.${i}`} />
          </tr>
        );
      })}
    </>
  );
}

function Table({ experiment, picture }: { experiment: Experiment; picture: Picture }) {
  const { points } = experiment.networks[picture.network]!;
  return (
    <section class="panel wide" aria-label="Figures" tabIndex={0}>
      <table class="grid">
        <thead>
          <tr>
            <th class="number">budget</th>
            <th>solver</th>
            {kPredicted.map(([key, name]) => (
              <th key={key} class="number">
                {name}
              </th>
            ))}
            <th class="number">of the transfers' bound</th>
            <th>outcome</th>
            <th class="number">solved in</th>
          </tr>
        </thead>
        {picture.points.map((index) => (
          <tbody key={index}>
            <PointRows
              point={points[index]!}
              at={`experiment.networks.${picture.network}.points.${index}`}
              experiment={experiment}
            />
          </tbody>
        ))}
      </table>
    </section>
  );
}

function OnePicture({
  experiment,
  pictures,
  quantity,
  index,
}: {
  experiment: Experiment;
  pictures: Picture[];
  quantity: Quantity;
  index: number;
}) {
  const picture = pictures[index]!;
  return (
    <>
      <div class="headline">
        <h1>
          <bdi>{pictureName(experiment, picture)}</bdi>
        </h1>
        <span class="verdict">{kKinds[quantity].title}</span>
      </div>
      <p class="chooser">
        <label>
          picture{" "}
          <select
            value={String(index)}
            onChange={(event) => {
              location.hash = experimentRouteText(quantity, Number(event.currentTarget.value));
            }}
          >
            {pictures.map((one, i) => (
              <option key={i} value={String(i)}>
                {pictureName(experiment, one)}
              </option>
            ))}
          </select>
        </label>
      </p>
      <NetworkCards
        network={experiment.networks[picture.network]!}
        at={`experiment.networks.${picture.network}`}
      />
      <section class="panel wide" aria-label={kKinds[quantity].title}>
        <Legend experiment={experiment} quantity={quantity} />
        <Chart experiment={experiment} picture={picture} quantity={quantity} isLarge={true} />
      </section>
      <Table experiment={experiment} picture={picture} />
      <HowMeasured experiment={experiment} />
    </>
  );
}

export function ExperimentView({ experiment }: { experiment: Experiment }) {
  const asked = useExperimentRoute();
  const quantities = useMemo(() => quantitiesOf(experiment), []);
  const quantity =
    quantities.find((one) => one === asked.quantity) ?? firstQuantity(experiment, quantities);
  const pictures = useMemo(() => picturesOf(experiment, quantity), [quantity]);
  const index =
    asked.picture === undefined ? undefined : Math.min(asked.picture, pictures.length - 1);
  const name = plain(experiment.name);
  useEffect(() => {
    document.title = `${name} · ${kKinds[quantity].title} · Stowage`;
  }, [quantity]);
  return (
    <>
      <header>
        <span class="brand">Stowage</span>
        <span class="chain">experiment {name}</span>
        <nav aria-label="Views">
          {quantities.map((one) => (
            <a
              key={one}
              href={experimentRouteText(one)}
              aria-current={one !== quantity ? undefined : index === undefined ? "page" : "true"}
            >
              {kNav[one]}
            </a>
          ))}
        </nav>
      </header>
      <main>
        {index === undefined ? (
          <AllPictures experiment={experiment} pictures={pictures} quantity={quantity} />
        ) : (
          <OnePicture
            experiment={experiment}
            pictures={pictures}
            quantity={quantity}
            index={index}
          />
        )}
      </main>
    </>
  );
}
