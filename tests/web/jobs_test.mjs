// The page of jobs: every figure is the JSON's, bars add up to the peak, the slider goes from job
// to job, a plan opens and closes, names are text, axe-core finds nothing. Run by deploy/web.sh.
import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import {
  assertAccessibleEverywhere,
  assertFigures,
  chainOf,
  figures,
  folder,
  program,
  root,
  show,
  stage,
} from "./support.mjs";

const kMiB = 1 << 20;
const kSizes = [
  ["output_bytes", stage.output_bytes],
  ["saved_bytes", stage.saved_bytes],
];
const kComponents = [
  { name: "weights", bytes: 40 * kMiB },
  { name: "optimizer's state", bytes: 80 * kMiB },
  { name: "buckets", bytes: 8 * kMiB, phase: "LAYERS" },
  { name: "new weights", bytes: 4 * kMiB, phase: "UPDATE" },
];
// Over kBatches there are all three verdicts.
const kDevices = [
  { platform: { name: "small", memory_bytes: 160 * kMiB }, price: 0.5 },
  { platform: { memory_bytes: 260 * kMiB } },
  { platform: { name: "large", memory_bytes: 900 * kMiB }, price: 2.25 },
];
const kBatches = [1, 2, 4, 8];

function write(name, json) {
  const file = join(folder, name);
  writeFileSync(file, JSON.stringify(json));
  return file;
}

function viewIn(html) {
  const [, json] = readFileSync(html, "utf8").match(
    /<script type="application\/json" id="view">(.*?)<\/script>/s,
  );
  return JSON.parse(json);
}

// A job in a batch, with what the command line says of it.
function jobOf(batch, { name, components = kComponents, devices = kDevices } = {}) {
  const own = `batch-${batch}`;
  const chain = chainOf(`${own}-chain`, 24, () =>
    Object.fromEntries(kSizes.map(([key, bytes]) => [key, batch * bytes])),
  );
  const job = write(`${own}.json`, {
    chain: JSON.parse(readFileSync(chain, "utf8")),
    components,
  });
  const file = write(`${own}.devices.json`, { devices });
  const html = join(folder, `${own}.html`);
  const asked = ["admit", "--local", "--job", job, "--devices", file, "--html", html];
  const { stderr, status, error } = spawnSync(program, asked, { encoding: "utf8" });
  assert.ok([0, 2, 3].includes(status), stderr ?? error);
  const [found] = viewIn(html).jobs;
  return name === undefined ? found : { ...found, name };
}

// The page of such a view, as client/cli/html_page.cc makes it of its bundle.
function pageOf(name, view) {
  const bundle = readFileSync(join(root, "server/web/bundle/page.html"), "utf8");
  const json = JSON.stringify(view).replaceAll("<", "\\u003c");
  const html = join(folder, `${name}.html`);
  const page = bundle.replace("@VIEW@", () => json);
  writeFileSync(html, page);
  return { address: `file://${html}`, view, json };
}

let known;
function fourBatches() {
  known ??= pageOf("batches", { jobs: kBatches.map((batch) => jobOf(batch)) });
  return known;
}

const rowsOf = (page) =>
  page.$$eval(".job-devices > li", (all) =>
    all.map((row) => ({
      name: row.querySelector("h2").textContent,
      verdict: row.querySelector(".verdict").textContent,
      text: row.textContent,
      hasPlan: row.querySelector("a[href*='/plan/']") !== null,
    })),
  );

// Of each row the widths of its parts and the place of its line, as shares of the bar's width.
const barsOf = (page) =>
  page.$$eval(".job-bar", (all) =>
    all.map((bar) => {
      const box = bar.getBoundingClientRect();
      const limit = bar.querySelector(".limit").getBoundingClientRect();
      return {
        parts: Array.from(
          bar.querySelectorAll(".part"),
          (part) => part.getBoundingClientRect().width / box.width,
        ),
        limit: ((limit.left + limit.right) / 2 - box.left) / box.width,
        looks: Array.from(bar.querySelectorAll(".part"), (part) => {
          const { backgroundColor, backgroundImage } = getComputedStyle(part);
          return `${backgroundColor} ${backgroundImage}`;
        }),
      };
    }),
  );

const byDevice = ({ verdicts }) =>
  [...verdicts].sort((a, b) => a.verdict.device - b.verdict.device);

// A bar has a thousand pixels and more; the browser rounds to parts of one.
function assertNear(share, bytes, most) {
  assert.ok(Math.abs(share - Number(bytes) / most) < 2e-3, `${share}, ${bytes} of ${most}`);
}

test("a bar's parts add up to the peak, in one scale for all devices and jobs", async () => {
  const { address, view } = fourBatches();
  const most = Math.max(
    ...view.jobs.flatMap(({ verdicts }) =>
      verdicts.flatMap(({ verdict, device }) => [
        Number(verdict.peak_bytes),
        device.platform.memory_bytes,
      ]),
    ),
  );
  const looks = new Map();
  for (const [j, job] of view.jobs.entries()) {
    await show(address, { hash: `#/jobs/${j}` }, async (page) => {
      const bars = await barsOf(page);
      assert.equal(bars.length, kDevices.length);
      byDevice(job).forEach(({ verdict, device, parts }, i) => {
        const sum = bars[i].parts.reduce((all, share) => all + share, 0);
        assertNear(sum, verdict.peak_bytes, most);
        assertNear(bars[i].limit, device.platform.memory_bytes, most);
        parts.forEach(({ name, bytes }, p) => {
          assertNear(bars[i].parts[p], bytes, most);
          const look = looks.get(name) ?? bars[i].looks[p];
          assert.equal(bars[i].looks[p], look, "a part keeps its look");
          looks.set(name, look);
        });
      });
      assertFigures(await figures(page), view);
    });
  }
  assert.equal(new Set(looks.values()).size, looks.size);
});

test("the slider changes the rows, and its address", async () => {
  const { address, view } = fourBatches();
  await show(address, {}, async (page) => {
    for (const [j, job] of view.jobs.entries()) {
      if (j > 0) await page.press("#job", "ArrowRight");
      await page.waitForFunction(
        (name) => document.querySelector("h1").textContent === name,
        job.name,
      );
      assert.equal(await page.textContent("output"), job.name);
      assert.equal(await page.getAttribute("#job", "aria-valuetext"), job.name);
      const rows = await rowsOf(page);
      const expected = byDevice(job);
      assert.deepEqual(
        rows.map(({ name }) => name),
        ["small", "device 2", "large"],
      );
      rows.forEach(({ verdict, hasPlan }, i) => {
        const words = { FITS: "fits", FITS_WITH_PLAN: "fits with a plan, +" };
        const start = words[expected[i].verdict.fit] ?? "does not fit";
        assert.ok(verdict.startsWith(start), verdict);
        assert.equal(hasPlan, expected[i].plan !== undefined);
      });
      assertFigures(await figures(page), view);
    }
    assert.ok((await page.evaluate(() => location.hash)).startsWith("#/jobs/3"));
    assert.equal((await page.$$(".lines-chart canvas")).length, 1);
  });
  // Otherwise a verdict would go untried.
  const fits = view.jobs.flatMap(({ verdicts }) => verdicts.map(({ verdict }) => verdict.fit));
  assert.deepEqual([...new Set(fits)].sort(), ["DOES_NOT_FIT", "FITS", "FITS_WITH_PLAN"]);
});

test("a device that the job does not fit says what it would take", async () => {
  const { address, view } = fourBatches();
  const j = view.jobs.findIndex(({ verdicts }) =>
    verdicts.some(({ verdict }) => verdict.minimum_memory_bytes !== undefined),
  );
  const v = view.jobs[j].verdicts.findIndex(
    ({ verdict }) => verdict.minimum_memory_bytes !== undefined,
  );
  const { verdict } = view.jobs[j].verdicts[v];
  await show(address, { hash: `#/jobs/${j}?device=${verdict.device}` }, async (page) => {
    const row = (await rowsOf(page))[verdict.device];
    assert.match(row.verdict, /^does not fit, .* at least$/);
    assert.ok(row.text.includes("with all layers kept"));
    const found = await figures(page);
    const at = `jobs.${j}.verdicts.${v}.verdict.minimum_memory_bytes`;
    assert.equal(found.find((one) => one.at === at).value, verdict.minimum_memory_bytes);
    const bar = (await barsOf(page))[verdict.device];
    assert.ok(bar.parts.reduce((all, share) => all + share, 0) > bar.limit);
  });
});

test("the parts of the chosen device are in a table, and at the bar by keyboard", async () => {
  const { address, view } = fourBatches();
  await show(address, { hash: "#/jobs/1" }, async (page) => {
    await page.click("h2 a:has-text('large')");
    await page.waitForFunction(() => location.hash === "#/jobs/1?device=2");
    const title = "Memory at the peak: large";
    await page.waitForSelector(`section[aria-label='${title}']`);
    const values = await page.$$eval(`section[aria-label='${title}'] data`, (all) =>
      all.map(({ value, dataset }) => ({ value, at: dataset.at })),
    );
    assertFigures(values, view);
    const { parts } = byDevice(view.jobs[1])[2];
    const own = values.filter(({ at }) => /^jobs\.1\..*\.bytes$/.test(at));
    assert.deepEqual(
      own.map(({ value }) => value),
      parts.map(({ bytes }) => bytes),
    );

    const bar = `.job-bar[aria-label='${title}']`;
    await page.focus(bar);
    for (const { name, bytes } of parts) {
      const exact = `(${Number(bytes).toLocaleString("en")} bytes)`;
      await page.waitForFunction(
        ([selector, words]) =>
          words.every((one) =>
            document.querySelector(selector).getAttribute("aria-valuetext")?.includes(one),
          ),
        [bar, [name, exact]],
      );
      assert.ok((await rowsOf(page))[2].text.includes(exact));
      await page.keyboard.press("ArrowRight");
    }
    await page.hover(`${bar} .part:nth-child(2)`);
    await page.waitForSelector(`.job-devices li:nth-child(3) p:has-text("optimizer's state: ")`);
  });
});

test("a click on a point of the lines chooses its job and device", async () => {
  const { address, view } = fourBatches();
  await show(address, {}, async (page) => {
    // The nearest point to the lower right corner is the last job's with the least peak.
    const { width, height } = await page.locator(".lines-chart .u-over").boundingBox();
    await page.click(".lines-chart .u-over", { position: { x: width - 2, y: height - 2 } });
    await page.waitForFunction(
      (name) => document.querySelector("h1").textContent === name,
      view.jobs.at(-1).name,
    );
    const least = [...view.jobs.at(-1).verdicts].sort(
      (a, b) => Number(a.verdict.peak_bytes) - Number(b.verdict.peak_bytes),
    )[0];
    const hash = await page.evaluate(() => location.hash);
    assert.equal(hash, `#/jobs/3?device=${least.verdict.device}`);
  });
});

test("a plan opens by keyboard, has its figures, and goes back", async () => {
  const { address, view } = fourBatches();
  const j = view.jobs.findIndex(({ verdicts }) => verdicts.some(({ plan }) => plan !== undefined));
  const { verdict, plan } = view.jobs[j].verdicts.find((one) => one.plan !== undefined);
  const hash = `#/jobs/${j}/plan/${verdict.device}`;
  const waitFor = (page, start) =>
    page.waitForFunction((expected) => location.hash.startsWith(expected), start);
  await show(address, { hash: `#/jobs/${j}` }, async (page) => {
    await page.focus(`a[href='${hash}']`);
    await page.keyboard.press("Enter");
    await page.waitForSelector(".chart[data-most-bytes]");
    await waitFor(page, hash);
    assert.equal(await page.textContent("h1"), plan.schedules[0].answer.origin.solver);
    const found = await figures(page);
    assertFigures(found, view);
    assert.ok(found.every(({ at }) => at.startsWith(`jobs.${j}.verdicts.`)));
    // A choice of the plan is in its address, and no step of the history.
    await page.focus(".strip");
    await page.keyboard.press("ArrowRight");
    await waitFor(page, `${hash}?stage=`);
    assertFigures(await figures(page), view);
    await page.click("a:has-text('back to')");
    await page.waitForSelector(".job-devices");
    await waitFor(page, `#/jobs/${j}?device=${verdict.device}`);
    await page.goBack();
    await page.waitForSelector(".strip");
    await page.goBack();
    await page.waitForSelector(".job-devices");
  });
  await show(address, { hash: `${hash}?op=3` }, async (page) => {
    assert.ok((await page.textContent("main")).includes("operations[3]"));
  });
});

test("one job has no slider and no lines", async () => {
  const { address, view } = pageOf("one", { jobs: [jobOf(2)] });
  await show(address, {}, async (page) => {
    assert.equal(await page.textContent("h1"), "batch-2");
    assert.equal((await page.$$("input, .lines-chart")).length, 0);
    assert.equal((await rowsOf(page)).length, kDevices.length);
    assertFigures(await figures(page), view);
  });
});

test("names are text, whatever they hold", async () => {
  const names = [
    "<script>globalThis.hacked = 1</script>",
    "\"'><img src=x onerror='globalThis.hacked=1'>",
    "x".repeat(1000),
    "\u202Eevil\u202C",
    "שלום",
    "",
    "__proto__",
  ];
  const components = names.flatMap((name) => [
    { name, bytes: kMiB },
    { name, bytes: 2 * kMiB },
  ]);
  const devices = names.map((name) => ({ platform: { name, memory_bytes: 150 * kMiB } }));
  const jobs = names.map((name, i) => jobOf(1 + (i % 2), { name, components, devices }));
  const { address, json, view } = pageOf("hostile", { jobs });
  assert.ok(!json.includes("<"));
  for (const [hash, width] of [
    ["", 1280],
    ["#/jobs/0?device=1", 320],
    ["#/jobs/2?device=2", 400],
    ["#/jobs/1/plan/0", 320],
    ["#/jobs/99/plan/99?op=1e9&stage=-3", 1280],
    ["#/<img src=x onerror=hacked=1>/-1", 1280],
  ]) {
    await show(address, { hash, width }, async (page) => {
      assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
      assert.equal(await page.evaluate(() => document.querySelectorAll("img, script").length), 2);
      const fits = () => document.documentElement.scrollWidth <= innerWidth;
      assert.ok(await page.evaluate(fits), hash);
      assertFigures(await figures(page), view);
      const text = await page.textContent("main");
      const isPlan = hash.includes("plan/0");
      assert.equal((await page.$$(".strip")).length, isPlan ? 1 : 0);
      const ofPlan = ["<script>globalThis.hacked = 1</script>", "\"'><img src=x"];
      const others = [
        "\\u{202e}evil",
        "שלום",
        "unnamed",
        "device 6",
        "job 6",
        "__proto__",
      ];
      for (const shown of isPlan ? ofPlan : [...ofPlan, ...others])
        assert.ok(text.includes(shown), shown);
      assert.ok(!text.includes("x".repeat(100)));
    });
  }
});

test("axe-core finds nothing, at no width anything is cut off", async () => {
  const { address, view } = fourBatches();
  const j = view.jobs.findIndex(({ verdicts }) => verdicts.some(({ plan }) => plan !== undefined));
  const { device } = view.jobs[j].verdicts.find(({ plan }) => plan !== undefined).verdict;
  for (const hash of ["", "#/jobs/3?device=1", `#/jobs/${j}/plan/${device}`])
    await assertAccessibleEverywhere(address, hash);
});
