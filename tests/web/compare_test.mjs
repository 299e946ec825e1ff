// Two schedules side by side, a schedule and a step that ran it, and budgets of several solvers: the
// files that `stowage view` takes. Run by deploy/web.sh.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  answerOf,
  assertAccessible,
  assertAccessibleEverywhere,
  assertFigures,
  data,
  figures,
  folder,
  program,
  resnet,
  run,
  show,
} from "./support.mjs";

// An answer, its file and its simulation.
function solve(name, ...flags) {
  const { file, answer } = answerOf(name, resnet, ...flags);
  const simulation = JSON.parse(
    run("simulate", "--chain", resnet, "--schedule", file, "--format", "json"),
  );
  return { file, answer, simulation };
}

function view(name, ...files) {
  const html = join(folder, `${name}.html`);
  assert.equal(run("view", resnet, ...files, "--html", html), "");
  return html;
}

function refusal(...files) {
  try {
    execFileSync(program, ["view", resnet, ...files, "--html", join(folder, "refused.html")], {
      stdio: "pipe",
      encoding: "utf8",
    });
  } catch (error) {
    assert.equal(error.status, 1);
    return error.stderr;
  }
  return assert.fail("is not refused");
}

const link = ["--offload-bandwidth", "6GB/s"];

test("two schedules: their figures, what differs, and one time axis", async () => {
  const a = solve("rotor", "--memory", "20%", "--solver", "rotor");
  const b = solve("pofo", "--memory", "30%", "--solver", "pofo", ...link);
  const html = view("two", a.file, b.file);
  const json = {
    schedules: [a, b].map(({ answer, simulation }) => ({ answer, simulation })),
  };
  const range = (page) => page.evaluate(() => location.hash.match(/from=[^&]*&to=[^&]*/)?.[0]);
  await show(`file://${html}`, {}, async (page) => {
    const found = (await figures(page)).filter(({ at }) => !at.includes(".details."));
    assertFigures(found, json);
    for (const index of [0, 1])
      for (const key of ["makespan_seconds", "overhead", "peak_memory_bytes"])
        assert.ok(
          found.some(({ at }) => at === `schedules.${index}.simulation.prediction.${key}`),
          key,
        );
    const [first, second] = [a, b].map(({ simulation }) => simulation.prediction);
    const by = second.makespan_seconds - first.makespan_seconds;
    const text = await page.textContent("[data-difference=makespan_seconds]");
    assert.ok(text.startsWith(by < 0 ? "−" : "+"), text);
    const percent = Math.abs((100 * by) / first.makespan_seconds).toFixed(1);
    assert.ok(text.endsWith(`${percent} %`), text);
    const points = 100 * (second.overhead - first.overhead);
    const overhead = await page.textContent("[data-difference=overhead]");
    assert.ok(overhead.includes(Math.abs(points).toFixed(1)), overhead);

    // Both have the axis of the longer one, and move together.
    await page.click("button[aria-label='Zoom in']");
    await page.waitForFunction(() => location.hash.includes("from="));
    const longest = Math.max(first.makespan_seconds, second.makespan_seconds);
    const [from, to] = (await range(page)).match(/[\d.]+/g).map(Number);
    assert.ok(Math.abs(from - longest / 4) < 1e-9 && Math.abs(to - (longest * 3) / 4) < 1e-9);
    const drawn = () => page.$$eval(".chart canvas", (all) => all.map((one) => one.toDataURL()));
    const before = await drawn();
    const charts = await page.$$(".chart");
    assert.equal(charts.length, 2);
    await charts[1].focus();
    const old = await range(page);
    await page.keyboard.press("PageDown");
    await page.waitForFunction((text) => !location.hash.includes(text), old);
    (await drawn()).forEach((canvas, i) => assert.notEqual(canvas, before[i]));

    // The other way round.
    await page.click("button:has-text('All')");
    await page.selectOption(".choosers label:nth-child(1) select", "1");
    await page.selectOption(".choosers label:nth-child(2) select", "0");
    await page.waitForFunction(() => location.hash.startsWith("#/compare/1/0"));
    const reversed = await page.textContent("[data-difference=makespan_seconds]");
    assert.equal(reversed.startsWith("−"), by > 0);
    await page.click("nav a:has-text('Schedule')");
    await page.waitForFunction(() => location.hash.startsWith("#/schedule/1"));
  });
  await assertAccessibleEverywhere(`file://${html}`);
});

// What stowage-train and the Python package write of a step, here twice as slow as predicted.
function traceOf({ answer, simulation }, hasMemory) {
  const processes = ["measured", "predicted"].map((name, i) => ({
    ph: "M",
    pid: i + 1,
    tid: 0,
    name: "process_name",
    args: { name },
  }));
  const events = answer.schedule.operations.flatMap(({ kind, stage }, operation) => {
    if (kind === "RELEASE") return [];
    const { start_seconds, end_seconds, memory_bytes } = simulation.timeline[operation];
    const isCopy = kind === "OFFLOAD" || kind === "PREFETCH";
    return [1, 2].flatMap((pid) => {
      const factor = pid === 1 ? 2e6 : 1e6;
      const ts = start_seconds * factor;
      const name = `${kind} ${stage}`;
      const dur = end_seconds * factor - ts;
      const bytes = Number(memory_bytes) + (pid === 1 ? 1000 : 0);
      const interval = { ph: "X", pid, tid: 0, name, ts, dur, args: { operation } };
      const counter = { ph: "C", pid, name: "device memory", ts, args: { bytes } };
      return isCopy || !hasMemory ? [interval] : [interval, counter];
    });
  });
  return { traceEvents: [...processes, ...events], displayTimeUnit: "ms" };
}

test("a schedule and a step that ran it", async () => {
  const predicted = solve("predicted", "--memory", "30%", "--solver", "pofo", ...link);
  const { prediction } = predicted.simulation;
  const trace = join(folder, "step.json");
  for (const hasMemory of [true, false]) {
    writeFileSync(trace, JSON.stringify(traceOf(predicted, hasMemory)));
    await show(`file://${view("measured", predicted.file, trace)}`, {}, async (page) => {
      const found = await figures(page);
      const value = (key) => {
        const at = `schedules.1.simulation.prediction.${key}`;
        return Number(found.find((one) => one.at === at)?.value);
      };
      const near = (key, expected) =>
        assert.ok(Math.abs(value(key) - expected) < 1e-6 * expected + 1e-12, key);
      near("makespan_seconds", 2 * prediction.makespan_seconds);
      near("recompute_seconds", 2 * prediction.recompute_seconds);
      near("idle_seconds", 2 * prediction.idle_seconds);
      near("overhead", 2 * (1 + prediction.overhead) - 1);
      assert.match(await page.textContent("[data-difference=makespan_seconds]"), /\+100\.0 %$/);
      const peak = await page.textContent("[data-difference=peak_memory_bytes]");
      if (hasMemory) {
        near("peak_memory_bytes", Number(prediction.peak_memory_bytes) + 1000);
        assert.match(peak, /^\+1000 B, /);
      } else {
        assert.equal(peak, "–");
        assert.ok((await page.textContent("main")).includes("not measured"));
      }
      assert.match(await page.textContent("section[aria-label='Schedule B'] h2"), /step\.json/);
      await assertAccessible(page);
      await page.selectOption(".choosers label:nth-child(1) select", "1");
      await page.click("nav a:has-text('Schedule')");
      await page.waitForSelector("text=a measured step");
      await assertAccessible(page);
    });
  }
});

test("traces of something else are refused", () => {
  const one = solve("one", "--memory", "20%", "--solver", "rotor");
  const file = join(folder, "bad.json");
  const refused = (trace, ...files) => {
    writeFileSync(file, JSON.stringify(trace));
    return refusal(...files, file);
  };
  const trace = traceOf(one, true);
  assert.match(refused(trace), /bad\.json: is a trace; name the schedule that ran before it/);
  const changed = structuredClone(trace);
  changed.traceEvents.find(({ ph }) => ph === "X").name = "BACKWARD 1\u001b[31m";
  assert.match(
    refused(changed, one.file),
    /bad\.json: operations\[0\] is 'BACKWARD 1 *\[31m' in the trace and FORWARD_\w+ 1 in the/,
  );
  const short = structuredClone(trace);
  short.traceEvents = short.traceEvents.filter(({ args }) => args.operation !== 5);
  assert.match(refused(short, one.file), /operations\[5\] \w+ \d+: is not in the trace/);
  const long = structuredClone(trace);
  long.traceEvents.push({ ...long.traceEvents[2], args: { operation: 100_000 } });
  assert.match(refused(long, one.file), /has operations\[100000\], and the schedule has/);
  const unmeasured = { traceEvents: trace.traceEvents.slice(1) };
  assert.match(refused(unmeasured, one.file), /has no process "measured"/);
  assert.match(refused({ traceEvents: [7] }, one.file), /is no trace of a step: /);
  assert.match(refused({ traceEvents: {} }, one.file), /has no process "measured"/);
});

test("budgets of several solvers in one picture", async () => {
  const names = ["rotor", "periodic", "pofo-6GBps"];
  const flags = [["rotor"], ["periodic"], ["pofo", ...link]];
  const files = names.map((name, i) => {
    const file = join(folder, `${name}-frontier.json`);
    const asked = ["--local", "--chain", resnet, "--points", "6", "--solver", ...flags[i]];
    writeFileSync(file, run("frontier", ...asked, "--format", "json"));
    return file;
  });
  const frontiers = files.map((file) => ({ frontier: JSON.parse(readFileSync(file, "utf8")) }));
  const budget = frontiers[0].frontier.points[3].memory_bytes;
  const schedule = solve("of_a_point", "--memory", budget, "--solver", "rotor");
  const html = view("frontiers", ...files, schedule.file);
  await show(`file://${html}`, {}, async (page) => {
    const shapes = await page.$$eval(".legend .shape path", (all) =>
      all.map((path) => path.getAttribute("d")),
    );
    assert.equal(new Set(shapes).size, 3);
    const legend = await page.textContent(".legend");
    for (const name of ["rotor · rotor-frontier.json", "pofo · pofo-6GBps-frontier.json"])
      assert.ok(legend.includes(name), legend);
    for (const index of ["0", "1", "2"]) {
      await page.selectOption("select", index);
      const found = (await figures(page)).filter(({ at }) => at !== "store_all_seconds");
      assert.ok(found.filter(({ at }) => at.startsWith(`frontiers.${index}.`)).length >= 30);
      assertFigures(found, { frontiers });
    }
    await page.selectOption("select", "0");
    assert.equal((await page.$$("tbody button")).length, 1);
    await page.click("tbody tr:nth-child(4) button");
    await page.waitForFunction(() => location.hash === "#/schedule/0");
    // The same in the picture.
    await page.goBack();
    await page.waitForSelector(".lines-chart canvas");
    const all = frontiers.flatMap(({ frontier }) => frontier.points);
    const chosen = frontiers[0].frontier.points[3];
    const storeAll = await page.evaluate(
      () => JSON.parse(document.getElementById("view").textContent).store_all_seconds,
    );
    const low = Number(frontiers[0].frontier.memory_floor_bytes);
    const high = Number(frontiers[0].frontier.most_memory_bytes);
    const x = ((Number(chosen.memory_bytes) - low) / (high - low) + 0.03) / 1.06;
    const most = Math.max(...all.map(({ prediction }) => prediction.makespan_seconds));
    const bounds = all.map(({ prediction }) => prediction.lower_bound_seconds);
    const least = Math.min(storeAll, ...bounds);
    const y = ((most - chosen.prediction.makespan_seconds) / (most - least) + 0.15) / 1.3;
    const area = await (await page.$(".lines-chart .u-over")).boundingBox();
    await page.mouse.click(area.x + area.width * x, area.y + area.height * y);
    await page.waitForFunction(() => location.hash === "#/schedule/0");
  });
  await assertAccessibleEverywhere(`file://${html}`);
});

test("budgets of another chain are refused", () => {
  const file = join(folder, "other-frontier.json");
  const other = data("torchvision-resnet101-32-224.json");
  const asked = ["--local", "--chain", other, "--points", "3", "--solver", "rotor"];
  writeFileSync(file, run("frontier", ...asked, "--format", "json"));
  assert.match(refusal(file), /other-frontier\.json: has budgets of another chain/);
  writeFileSync(file, '{"points": [{"memory_bytes": "7"}]}');
  assert.match(refusal(file), /other-frontier\.json: /);
});
