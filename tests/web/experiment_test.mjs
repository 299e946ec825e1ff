// The page of an experiment: every figure is the CSV file's, every picture has an address, names are
// text, axe-core finds nothing. Run by deploy/web.sh.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFileSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  assertAccessibleEverywhere,
  assertFigures,
  chainOf,
  data,
  figures,
  folder,
  program,
  run,
  show,
} from "./support.mjs";

const kNetworks = ["torchvision-resnet18-16-500", "torchvision-resnet50-16-500"];
const kSolvers = ["rotor", "offload_dynprog", "pofo"];

// The page, the address of its file, and the rows of the CSV file by column.
function experiment(name, chains, ...flags) {
  const html = join(folder, `${name}.html`);
  const output = join(folder, name);
  const text = run(
    "experiment",
    ...chains,
    ...flags,
    "--quiet",
    "--output",
    output,
    "--html",
    html,
  );
  const [csv] = text.match(/written: (.*\.csv), /).slice(1);
  const [columns, ...lines] = readFileSync(csv, "utf8").trim().split("\n");
  const names = columns.split(",");
  const rows = lines.map((line) => {
    const cells = line.split(",");
    return Object.fromEntries(names.map((column, i) => [column, cells[i]]));
  });
  const view = JSON.parse(
    readFileSync(html, "utf8").match(
      /<script type="application\/json" id="view">(.*?)<\/script>/s,
    )[1],
  );
  return { address: `file://${html}`, text, rows, view };
}

const sweep = (...flags) =>
  experiment(
    "sweep-of-two",
    kNetworks.map((name) => data(`${name}.json`)),
    ...["--alphas", "0.05,0.3,1", "--bandwidths", "6,12,24", "--solvers", kSolvers.join(",")],
    ...flags,
  );

// What the CSV file has of an answer, in its digits.
function rowOf(network, point, answer, solver) {
  const { platform } = point;
  const digits = (value) => (value === undefined ? "" : String(Number(value.toPrecision(12))));
  const predicted = answer.prediction ?? {};
  return {
    network: network.name,
    stages: network.stages,
    alpha: digits(point.alpha),
    memory_bytes: platform.memory_bytes,
    offload_gb_per_second: digits(platform.offload_bytes_per_second / 1e9),
    half_duplex: String(platform.half_duplex),
    solver,
    outcome: answer.outcome,
    schedule_of: answer.solver,
    makespan_seconds: digits(predicted.makespan_seconds),
    sequential_seconds: digits(network.store_all_seconds),
    overhead: digits(predicted.overhead),
    transfer_bound_seconds: digits(point.transfer_bound_seconds),
    ratio: digits(answer.transfer_ratio),
    peak_memory_bytes: predicted.peak_memory_bytes ?? "",
    peak_host_bytes: predicted.peak_host_bytes ?? "",
    recompute_seconds: digits(predicted.recompute_seconds),
    idle_seconds: digits(predicted.idle_seconds),
  };
}

test("the page has every row of the CSV file and the summary of the command line", async () => {
  const { address, text, rows, view } = sweep("--half-duplex");
  const shown = view.experiment.networks.flatMap((network) =>
    network.points.flatMap((point) =>
      point.answers.map((answer, i) => rowOf(network, point, answer, kSolvers[i])),
    ),
  );
  assert.equal(rows.length, kNetworks.length * 3 * 3 * kSolvers.length);
  assert.equal(shown.length, rows.length);
  // Where its exponent is written differently, a number is the same.
  const same = (a, b) => a === b || (a !== "" && Number(a) === Number(b));
  shown.forEach((row, i) => {
    for (const [column, value] of Object.entries(row))
      assert.ok(same(String(value), rows[i][column]), `${column}: ${value}, ${rows[i][column]}`);
  });
  assert.ok(rows.some(({ outcome }) => outcome === "INFEASIBLE"));
  await show(address, {}, async (page) => {
    const table = await page.$$eval('section[aria-label="Solvers"] tbody tr', (all) =>
      all.map((row) => Array.from(row.cells, (cell) => cell.textContent)),
    );
    assert.equal(table.length, kSolvers.length);
    for (const [solver, points, feasible, cheap, mean, , wins] of table) {
      const line = text.split("\n").find((one) => one.startsWith(`  ${solver} `));
      const cells = line.trim().split(/ {2,}/);
      assert.deepEqual(
        [points, feasible, cheap, mean, wins],
        [cells[1], cells[2], cells[3], cells[4], cells[6]],
      );
    }
  });
});

test("every picture has an address, and all its figures in a table", async () => {
  const { address, view } = sweep();
  await show(address, {}, async (page) => {
    assert.equal(await page.textContent("h1"), "Makespan over memory");
    const names = await page.$$eval(".pictures h2", (all) => all.map((one) => one.textContent));
    assert.deepEqual(
      names,
      kNetworks.flatMap((name) => ["6.0", "12.0", "24.0"].map((rate) => `${name} · ${rate} GB/s`)),
    );
    assert.equal((await page.$$(".pictures canvas")).length, names.length);
    const shapes = await page.$$eval(".legend .shape path", (all) =>
      all.map((path) => path.getAttribute("d")),
    );
    assert.equal(new Set(shapes).size, kSolvers.length);
    assertFigures(await figures(page), view);

    // By keyboard, back, and from one to another.
    await page.focus(".pictures section:nth-child(5) a");
    await page.keyboard.press("Enter");
    await page.waitForFunction(() => location.hash === "#/memory/4");
    assert.equal(await page.textContent("h1"), names[4]);
    await page.goBack();
    await page.waitForSelector(".pictures");
    await page.click("nav a:has-text('By bandwidth')");
    await page.waitForFunction(() => document.title.includes("Makespan over bandwidth"));
    assert.equal((await page.$$(".pictures canvas")).length, kNetworks.length * 3);
  });
  for (const [hash, count] of [
    ["#/memory/0", 3],
    ["#/memory/5", 3],
    ["#/bandwidth/1", 3],
    ["#/ratio/2", 3],
  ]) {
    await show(address, { hash }, async (page) => {
      assert.equal((await page.$$(".lines-chart canvas")).length, 1);
      assert.equal((await page.$$("tbody tr")).length, count * kSolvers.length);
      const found = await figures(page);
      assertFigures(found, view);
      const makespans = found.filter(({ at }) => at.endsWith(".prediction.makespan_seconds"));
      const picture = hash.split("/").at(-1);
      assert.equal(await page.inputValue("select"), picture);
      const network = view.experiment.networks[found[0].at.split(".")[2]];
      const feasible = found
        .filter(({ at }) => at.endsWith(".alpha"))
        .flatMap(({ at }) => {
          const point = network.points[at.split(".")[4]];
          return point.answers.filter(({ prediction }) => prediction !== undefined);
        });
      assert.equal(makespans.length, feasible.length);
      await page.selectOption("select", "1");
      await page.waitForFunction(() => location.hash.endsWith("/1"));
      assertFigures(await figures(page), view);
    });
  }
});

test("what is drawn are the lines of the solvers, in their colours", async () => {
  const { address } = sweep();
  await show(address, { hash: "#/memory/3" }, async (page) => {
    // How many pixels of the picture have a colour of the legend.
    const counts = await page.evaluate(() => {
      const canvas = document.querySelector(".lines-chart canvas");
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      return Array.from(document.querySelectorAll(".legend .shape"), (shape) => {
        const [r, g, b] = getComputedStyle(shape).fill.match(/\d+/g).map(Number);
        let count = 0;
        for (let i = 0; i < data.length; i += 4)
          if (data[i] === r && data[i + 1] === g && data[i + 2] === b) ++count;
        return count;
      });
    });
    assert.equal(counts.length, kSolvers.length);
    for (const count of counts) assert.ok(count > 100, `${counts}`);
  });
});

test("a preset opens with its paper's picture; without a schedule there is still a page", async () => {
  const chain = chainOf("small", 3);
  for (const [figure, title] of [
    ["2", "Makespan over memory"],
    ["3", "Makespan over bandwidth"],
    ["ratio", "Ratio to the bound of transfers over memory"],
  ]) {
    const { address } = experiment(`figure-${figure}`, [chain], "--figure", figure);
    await show(address, {}, async (page) => assert.equal(await page.textContent("h1"), title));
  }
  const html = join(folder, "none.html");
  const flags = ["--solvers", "store_all", "--alphas", "0", "--quiet", "--output", folder];
  assert.throws(() => execFileSync(program, ["experiment", chain, ...flags, "--html", html]), {
    status: 2,
  });
  for (const hash of ["", "#/memory/0", "#/memory/99", "#/ratio", "#/<img src=x>/-1"])
    await show(`file://${html}`, { hash }, async (page) =>
      assert.ok((await page.textContent("main")).includes("store_all")),
    );
});

test("names are text, whatever they hold", async () => {
  const names = [
    "<script>globalThis.hacked=1<\u2215script>",
    "\"'><img src=x>",
    "\u202Eevil",
    "שלום",
  ];
  const chains = names.map((name) => {
    const file = join(folder, `${name}.json`);
    copyFileSync(chainOf("small", 3), file);
    return file;
  });
  const flags = ["--solvers", "rotor", "--alphas", "0.5,1", "--quiet"];
  const html = join(folder, "hostile-experiment.html");
  run("experiment", ...chains, ...flags, "--output", join(folder, "hostile"), "--html", html);
  assert.ok(!readFileSync(html, "utf8").includes("<script>globalThis"));
  for (const hash of ["", "#/memory/0", "#/memory/2"]) {
    await show(`file://${html}`, { hash, width: 320 }, async (page) => {
      assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
      assert.equal(await page.evaluate(() => document.querySelectorAll("img, script").length), 2);
      const text = await page.textContent("main");
      for (const shown of [
        "<script>globalThis.hacked=1<",
        "\"'><img src=x>",
        "\\u{202e}evil",
        "שלום",
      ])
        assert.ok(text.includes(shown), shown);
    });
  }
});

test("axe-core finds nothing, at no width anything is cut off", async () => {
  const { address } = sweep();
  for (const hash of ["", "#/memory/1", "#/bandwidth", "#/ratio/0"])
    await assertAccessibleEverywhere(address, hash);
});
