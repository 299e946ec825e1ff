// The page in Debian's Chromium: every figure equals the command line's JSON, names are text,
// nothing is fetched, axe-core finds nothing. Run by deploy/web.sh.
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { test } from "node:test";
import { gzipSync } from "node:zlib";
import {
  assertAccessible,
  assertFigures,
  chainOf,
  data,
  figures,
  folder,
  resnet,
  root,
  run,
  show,
  stage,
} from "./support.mjs";

// A page, and what the command line says of the same answer: its JSON and its text.
function solve(chain, flags) {
  const name = basename(chain);
  const html = join(folder, `${name}.html`);
  const ask = ["solve", "--local", "--chain", chain, ...flags];
  const answer = JSON.parse(run(...ask, "--html", html, "--format", "json"));
  const file = join(folder, `${name}.answer.json`);
  writeFileSync(file, JSON.stringify(answer));
  const simulation = JSON.parse(
    run("simulate", "--chain", chain, "--schedule", file, "--format", "json"),
  );
  const { memory_floor_bytes, most_memory_bytes } = JSON.parse(
    run("chain", chain, "--format", "json"),
  );
  const json = {
    chain: JSON.parse(readFileSync(chain, "utf8")),
    memory_floor_bytes,
    most_memory_bytes,
    schedules: [{ answer, simulation }],
  };
  return { html, json, text: run(...ask) };
}

const kWithLink = ["--offload-bandwidth", "6GB/s"];
const kProfiles = [
  ["torchvision-resnet101-32-224.json", "--memory", "8%"],
  ["torchvision-resnet50-32-224.json", "--memory", "30%", ...kWithLink],
  ["torchvision-densenet121-32-224.json", "--memory", "20%"],
  [
    "torchvision-inceptionv3-16-500.json",
    "--memory",
    "40%",
    "--offload-bandwidth",
    "2GB/s",
    "--solver",
    "offload_greedy",
  ],
  ["pipedream-vgg16-128-224.json", "--memory", "50%", ...kWithLink, "--half-duplex"],
  ["pipedream-gnmt-32-48.json", "--memory", "10%"],
  ["pipedream-nasnetalarge-16-224.json", "--memory", "15%", "--solver", "rotor"],
  ["analytic-gpt2small-8-1024.json", "--memory", "5%", "--solver", "rotor"],
  ["analytic-llama7b_flash-1-4096.json", "--memory", "20%", ...kWithLink, "--solver", "pofo"],
  ["preact-resnet1001-8-224.json", "--memory", "10%", "--solver", "periodic"],
];

for (const [name, ...flags] of kProfiles) {
  test(`${name}: every figure is the command line's`, async () => {
    const { html, json, text } = solve(data(name), flags);
    await show(`file://${html}`, {}, async (page) => {
      const details = await page.evaluate(
        () => JSON.parse(document.getElementById("view").textContent).schedules[0].details,
      );
      const { timeline } = json.schedules[0].simulation;
      assert.equal(details.length, timeline.length);
      details.forEach((detail, i) => {
        const { output_bytes, saved_bytes, gradient_bytes, overhead_bytes } = detail;
        const sum = [output_bytes, saved_bytes, gradient_bytes, overhead_bytes].reduce(
          (all, one) => all + BigInt(one),
          0n,
        );
        assert.equal(String(sum), timeline[i].memory_bytes);
      });
      json.schedules[0].details = details;
      assertFigures(await figures(page), json);

      const peak = json.schedules[0].answer.prediction.peak_memory_bytes;
      assert.equal(await page.$eval(".chart", (chart) => chart.dataset.mostBytes), peak);

      // The cards' words are the command line's.
      const cards = await page.$$eval(".card", (all) =>
        all.map((card) => [
          card.querySelector("dt").textContent,
          card.querySelector(".value").textContent,
        ]),
      );
      for (const [card, value] of cards) {
        const line = text.split("\n").find((one) => one.startsWith(`  ${card} `));
        assert.match(line, new RegExp(`^  ${card} +${value.replace(".", "\\.")}(  |$)`));
      }

      // The operations, one after another, and the waits.
      await page.focus(".chart");
      for (const key of ["Home", "ArrowRight", "ArrowRight", "End", "ArrowLeft"]) {
        await page.keyboard.press(key);
        assertFigures(await figures(page), json);
      }
      assert.equal(
        await page.textContent('section[aria-label="Operation"] h2'),
        `operations[${timeline.length - 2}]`,
      );
      const waits = await page.$$('section[aria-label="Waits"] tr');
      assert.equal(waits.length, json.schedules[0].simulation.explanation.idles.length);

      await page.focus(".strip");
      await page.keyboard.press("ArrowRight");
      assertFigures(await figures(page), json);
      await page.click("nav a:has-text('Chain')");
      assertFigures(
        (await figures(page)).filter(({ at }) => at !== "store_all_seconds"),
        json,
      );
    });
  });
}

test("budgets: every figure is the command line's, and a point opens its schedule", async () => {
  const html = join(folder, "frontier.html");
  const frontier = JSON.parse(
    run(
      "frontier",
      "--local",
      "--chain",
      resnet,
      "--points",
      "6",
      "--html",
      html,
      "--format",
      "json",
    ),
  );
  await show(`file://${html}`, {}, async (page) => {
    const found = await figures(page);
    assert.ok(found.filter(({ at }) => at.startsWith("frontiers.0.frontier.points.")).length >= 30);
    assertFigures(
      found.filter(({ at }) => at !== "store_all_seconds"),
      { frontiers: [{ frontier }] },
    );
    await page.click("tbody tr:nth-child(3) button");
    await page.waitForFunction(() => location.hash === "#/schedule/2");
    const budget = (await figures(page)).find(
      ({ at }) => at === "schedules.2.answer.platform.memory_bytes",
    );
    assert.equal(budget.value, frontier.points[2].memory_bytes);
    await page.goBack();
    await page.waitForSelector(".lines-chart canvas");
    const area = await (await page.$(".lines-chart .u-over")).boundingBox();
    await page.mouse.click(area.x + area.width * 0.96, area.y + area.height / 2);
    await page.waitForFunction(() => location.hash === "#/schedule/5");
  });
});

test("infeasible: says the least memory", async () => {
  const html = join(folder, "infeasible.html");
  assert.throws(
    () => run("solve", "--local", "--chain", resnet, "--memory", "1MiB", "--html", html),
    { status: 2 },
  );
  await show(`file://${html}`, {}, async (page) => {
    const found = await figures(page);
    assert.ok(found.some(({ at }) => at === "schedules.0.answer.minimum_memory_bytes"));
    assert.ok(found.some(({ at }) => at === "schedules.0.answer.memory_floor_bytes"));
  });
});

test("zoom and pan: change what is drawn, All brings it back, the address says where", async () => {
  const { html } = solve(resnet, ["--memory", "20%", ...kWithLink]);
  let address;
  let zoomed;
  const drawn = (page) => page.$$eval(".chart canvas", (all) => all.map((one) => one.toDataURL()));
  await show(`file://${html}`, {}, async (page) => {
    await page.waitForSelector(".chart[data-most-bytes]");
    const whole = await drawn(page);
    await page.click("button[aria-label='Zoom in']");
    await page.waitForFunction(() => location.hash.includes("from="));
    const zoomedIn = page.url();
    await page.click("button[aria-label='Later']");
    await page.waitForFunction((old) => location.href !== old, zoomedIn);
    address = new URL(page.url()).hash;
    zoomed = await drawn(page);
    zoomed.forEach((canvas, i) => assert.notEqual(canvas, whole[i]));
    await page.click("button:has-text('All')");
    await page.waitForFunction(() => !location.hash.includes("from="));
    assert.deepEqual(await drawn(page), whole);
    // A drag pans what is zoomed.
    await page.click("button[aria-label='Zoom in']");
    await page.waitForFunction(() => location.hash.includes("from="));
    const before = page.url();
    const box = await (await page.$(".chart")).boundingBox();
    await page.mouse.move(box.x + 600, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + 500, box.y + 60, { steps: 5 });
    await page.mouse.up();
    await page.waitForFunction((old) => location.href !== old, before);
  });
  await show(`file://${html}`, { hash: address }, async (page) => {
    await page.waitForSelector(".chart[data-most-bytes]");
    assert.equal(new URL(page.url()).hash, address);
    assert.deepEqual(await drawn(page), zoomed);
  });
});

test("an operation that saves in another way than the stage's own says which", async () => {
  const way = { saved_bytes: stage.output_bytes, backward_seconds: 2.1e-3 };
  const file = chainOf("ways", 4, () => ({ save_options: [way] }));
  const { html, json } = solve(file, ["--memory", "60%"]);
  const { operations } = json.schedules[0].answer.schedule;
  const op = operations.findIndex((operation) => operation.save_option === 1);
  assert.notEqual(op, -1);
  const { kind, stage: l } = operations[op];
  await show(`file://${html}`, { hash: `#/schedule/0?op=${op}` }, async (page) => {
    const title = await page.textContent("section[aria-label=Operation] .title");
    assert.equal(title, `${kind} ${l} save_option 1`);
  });
});

test("names are text, whatever they hold", async () => {
  const names = [
    "<script>globalThis.hacked = 1</script>",
    "\"'><img src=x onerror='globalThis.hacked=1'>",
    "x".repeat(10_000),
    "\u202Eevil\u202C",
    "שלום עולם",
    "\u0007bell\u001b[31m\u2028line",
    "</script><script>globalThis.hacked=1</script>",
    "&lt;b&gt;",
    "-->",
    "{{7*7}}${7*7}",
  ];
  const chain = {
    name: names.join(" "),
    input_bytes: 1 << 20,
    stages: names.map((name) => ({ ...stage, name })),
  };
  const file = join(folder, "hostile.json");
  writeFileSync(file, JSON.stringify(chain));
  const html = join(folder, "hostile.html");
  run("solve", "--local", "--chain", file, "--memory", "30%", "--html", html);
  const source = readFileSync(html, "utf8");
  assert.equal(source.split("globalThis.hacked").length, 4 * 2 - 1);
  assert.ok(!source.includes("<script>globalThis"));
  for (const [hash, width] of [
    ["", 1280],
    ["#/schedule/0?stage=3&op=3", 320],
    ["#/chain", 1280],
    ["#/chain", 320],
  ]) {
    await show(`file://${html}`, { hash, width }, async (page) => {
      assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
      assert.equal(await page.evaluate(() => document.querySelectorAll("img, script").length), 2);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth));
      if (hash !== "#/chain") return;
      const text = await page.textContent("tbody");
      for (const shown of [
        "<script>globalThis.hacked = 1</script>",
        "&lt;b&gt;",
        "{{7*7}}",
        "\\u{202e}evil",
        "\\u{7}bell\\u{1b}[31m\\u{2028}line",
        "שלום",
      ])
        assert.ok(text.includes(shown), shown);
      assert.ok(text.length < 3000);
    });
  }
  // The address is text of others, too.
  for (const hash of [
    "#/schedule/99?op=1e9&stage=-3&from=nan&to=1",
    "#/<img src=x onerror=hacked=1>",
    "#/chain?stage=1e300",
    "#//?&&=",
    "#/schedule/0?from=5&to=1",
  ]) {
    await show(`file://${html}`, { hash }, async (page) =>
      assert.equal(await page.evaluate(() => globalThis.hacked), undefined),
    );
  }
});

test("axe-core finds nothing, at no width anything is cut off", async () => {
  const { html } = solve(resnet, [
    "--memory",
    "20%",
    "--offload-bandwidth",
    "1GB/s",
    "--solver",
    "offload_greedy",
  ]);
  const budgets = join(folder, "axe.html");
  run("frontier", "--local", "--chain", resnet, "--points", "3", "--html", budgets);
  for (const [file, hash] of [
    [html, "#/schedule/0?stage=2"],
    [html, "#/chain"],
    [budgets, ""],
    [budgets, "#/schedule/1"],
  ]) {
    for (const [width, scheme] of [
      [320, "dark"],
      [1280, "light"],
      [1280, "dark"],
      [2560, "light"],
    ]) {
      await show(`file://${file}`, { width, scheme, hash }, async (page) => {
        await assertAccessible(page);
      });
    }
  }
});

test("page and script are under 120 KB", () => {
  assert.ok(gzipSync(readFileSync(join(root, "server/web/bundle/page.html"))).length < 120_000);
});

test("ten thousand operations are drawn and panned", async (context) => {
  const file = chainOf("long", 3600);
  const html = join(folder, "long.html");
  run(
    "solve",
    "--local",
    "--chain",
    file,
    "--memory",
    "20%",
    "--solver",
    "periodic",
    "--html",
    html,
  );
  await show(`file://${html}`, { hash: "" }, async (page) => {
    const count = await page.evaluate(
      () => JSON.parse(document.getElementById("view").textContent).schedules[0].details.length,
    );
    assert.ok(count > 10_000, `${count} operations`);
    await page.click("button[aria-label='Zoom in']");
    await page.waitForFunction(() => location.hash.includes("from="));
    const zoomed = page.url();
    const drawn = () => page.$eval(".chart canvas", (canvas) => canvas.toDataURL());
    const before = await drawn();
    const milliseconds = await page.evaluate(async () => {
      const chart = document.querySelector(".chart");
      const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
      const times = [];
      for (let i = 0; i < 60; ++i) {
        const begin = await frame();
        chart.dispatchEvent(
          new WheelEvent("wheel", { deltaX: i % 2 ? 40 : -30, bubbles: true, cancelable: true }),
        );
        times.push((await frame()) - begin);
      }
      return times.sort((a, b) => a - b);
    });
    assert.notEqual(await drawn(), before);
    await page.waitForFunction((old) => location.href !== old, zoomed);
    context.diagnostic(
      `${count} operations: a frame of panning takes ${milliseconds[30].toFixed(1)} ms ` +
        `(median), ${milliseconds[57].toFixed(1)} ms (95 %)`,
    );
  });
});
