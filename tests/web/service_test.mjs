// The page of a server: it shows what /status says, while it says it; asks for a token where one is
// needed; says when the server is gone. Run by deploy/web.sh.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { connect } from "node:http2";
import { join } from "node:path";
import { test } from "node:test";
import {
  assertAccessible,
  assertFigures,
  folder,
  program,
  resnet,
  run,
  show,
  slowChain,
  startServer,
  valueAt,
} from "./support.mjs";

async function withServer(args, body) {
  const server = await startServer(args);
  try {
    await body(server);
  } finally {
    await server.stop();
  }
}

// Keeps every status that the page reads, by the uptime that it shows with its figures.
function statusesOf(page) {
  const statuses = new Map();
  page.on("response", async (response) => {
    if (!response.url().includes("/status")) return;
    const status = await response.json().catch(() => undefined);
    if (status !== undefined) statuses.set(String(status.uptime_seconds), status);
  });
  return statuses;
}

// All that is shown at one moment, so that it is of one status.
function shownBy(page) {
  return page.evaluate(() => {
    const all = (selector, of) => Array.from(document.querySelectorAll(selector), of);
    return {
      uptime: document.querySelector("main").dataset.uptime,
      figures: all("data", (one) => ({ at: one.dataset.at, value: one.value })),
      rates: all("[data-rate]", (one) => ({ at: one.dataset.rate, text: one.textContent })),
      shares: all("[data-share]", (one) => ({
        at: one.dataset.share,
        of: one.dataset.of,
        text: one.textContent,
      })),
    };
  });
}

function assertShown(shown, statuses) {
  const status = statuses.get(shown.uptime);
  assert.notEqual(status, undefined, shown.uptime);
  assertFigures(shown.figures, status);
  for (const { at, text } of shown.rates) {
    const [first] = at.split("+");
    const seconds = valueAt(status, first.replace(/\.(calls|clients)\..*/, ".seconds"));
    const rate = at === "" ? 0 : valueAt(status, at) / seconds;
    assert.ok(Math.abs(Number(text.slice(0, -2)) - rate) <= 0.51, `${at}: ${text}`);
    assert.match(text, /\/s$/);
  }
  for (const { at, of, text } of shown.shares) {
    const share = (100 * valueAt(status, at)) / valueAt(status, of);
    assert.ok(Math.abs(Number(text.slice(0, -2)) - share) <= 0.051, `${at}: ${text}`);
    assert.match(text, / %$/);
  }
  return status;
}

function waitForNextStatus(page, shown) {
  return page.waitForFunction(
    (old) => document.querySelector("main").dataset.uptime !== old,
    shown?.uptime,
  );
}

// ReportExecution: a step of 1 s took 1.5 s, and 1,000 bytes were 1,010.
async function reportExecution(address) {
  const field = (number, type) => Buffer.from([(number << 3) | type]);
  const double = (number, value) => {
    const bytes = Buffer.alloc(8);
    bytes.writeDoubleLE(value);
    return Buffer.concat([field(number, 1), bytes]);
  };
  const small = (number, value) =>
    Buffer.concat([field(number, 0), Buffer.from([(value & 127) | 128, value >> 7])]);
  const message = Buffer.concat([double(2, 1), double(3, 1.5), small(4, 1000), small(5, 1010)]);
  const header = Buffer.alloc(5);
  header.writeUInt32BE(message.length, 1);
  const session = connect(`http://${address}`);
  const stream = session.request({
    ":method": "POST",
    ":path": "/stowage.v1.Scheduler/ReportExecution",
    "content-type": "application/grpc",
    te: "trailers",
  });
  stream.end(Buffer.concat([header, message]));
  stream.resume();
  const [trailers] = await once(stream, "trailers");
  session.close();
  assert.equal(trailers["grpc-status"], "0");
}

test("every figure is the status's, while the server works", async () => {
  const args = ["--cache-dir", join(folder, "cache"), "--threads", "1"];
  await withServer(args, async ({ address, url }) => {
    await reportExecution(address);
    const slow = spawn(program, [
      "solve",
      "--chain",
      slowChain(),
      "--memory",
      "20GiB",
      "--solver",
      "periodic",
      "--server",
      address,
    ]);
    const load = spawn(program, [
      "load",
      resnet,
      "--server",
      address,
      "--duration",
      "60s",
      "--rate",
      "50",
    ]);
    try {
      let statuses;
      const prepare = async (page) => {
        statuses = statusesOf(page);
      };
      await show(url, { prepare }, async (page) => {
        await page.waitForSelector('section[aria-label="Running solves"] progress');
        await page.waitForFunction(
          () => parseFloat(document.querySelector(".card [data-rate]").textContent) > 5,
        );
        await page.click("summary");
        let shown;
        for (const window of ["0", "1", "2", "3"]) {
          await page.selectOption("select", window);
          await waitForNextStatus(page, shown);
          shown = await shownBy(page);
          const status = assertShown(shown, statuses);
          assert.ok(shown.figures.length > 60, `${shown.figures.length}`);
          const at = window === "3" ? "since_start" : `recent.${window}`;
          for (const path of [`${at}.hit_ratio`, `${at}.calls.0.calls`, "uptime_seconds"])
            assert.ok(
              shown.figures.some(({ at }) => at === path),
              path,
            );
          const options = await page.$$eval("details td", (all) => all.map((td) => td.textContent));
          assert.equal(options.length, 2 * status.options.length);
        }
        const { figures } = shown;
        const figure = (at) => figures.find((one) => one.at === at)?.value;
        assert.equal(figure("since_start.executions.reports"), "1");
        assert.ok(Math.abs(figure("since_start.executions.time_error.p50") - 0.5) < 0.3);
        assert.ok(shown.shares.some(({ at }) => at === "since_start.lookups.0.hits"));
        await assertAccessible(page);
      });
    } finally {
      slow.kill("SIGKILL");
      load.kill("SIGKILL");
    }
  });
});

test("it says since when the server is gone, and that it was restarted", async () => {
  const first = await startServer(["--cache-dir", "none"]);
  let second;
  try {
    await show(first.url, {}, async (page, problems) => {
      await waitForNextStatus(page);
      await first.stop();
      const before = Date.now();
      const alarm = await page.waitForSelector("text=NO ANSWER since");
      const text = await alarm.textContent();
      const [since, last] = text.match(/\d\d:\d\d:\d\d/g);
      assert.match(text, /it cannot be reached; trying again/);
      const day = new Date().toDateString();
      assert.ok(Math.abs(new Date(`${day} ${since}`) - before) < 10_000, text);
      assert.ok(new Date(`${day} ${last}`) <= new Date(`${day} ${since}`), text);
      assert.match(await page.title(), /^NO ANSWER · /);
      await assertAccessible(page);

      second = await startServer(["--cache-dir", "none"], new URL(first.url).host);
      await page.waitForSelector("text=restarted once while watched");
      assert.equal(await page.$(".alarm"), null);
      assert.match(await page.title(), /^ready · /);
      problems.length = 0; // the browser reports the refused connections
    });
  } finally {
    await first.stop();
    await second?.stop();
  }
});

test("it says that the server drains", async () => {
  await withServer(["--cache-dir", "none", "--lame-duck", "100s"], async ({ url, child }) => {
    await show(url, {}, async (page) => {
      await page.waitForSelector(".verdict:text-is('ready')");
      child.kill("SIGTERM");
      await page.waitForSelector("text=NOT READY: starting or draining");
    });
  });
});

test("what answers in its place is not taken for it", async () => {
  await withServer(["--cache-dir", "none"], async ({ url }) => {
    for (const [answer, said] of [
      [{ status: 502, body: "bad gateway" }, "it answers with 502"],
      [{ status: 403, body: "host: use its address" }, "host: use its address"],
      [{ status: 200, body: "<html>log in</html>" }, "what answers is no stowage-server"],
      [{ status: 200, body: "{}", contentType: "application/json" }, "what answers is no"],
      [{ status: 200, body: "null" }, "what answers is no stowage-server"],
    ]) {
      const prepare = (page) => page.route("**/status?*", (route) => route.fulfill(answer));
      await show(url, { prepare }, async (page, problems) => {
        await page.waitForSelector(`text=${said}`);
        problems.length = 0; // the browser reports the 502
      });
    }
  });
});

test("a token is asked for where one is needed, and kept nowhere", async () => {
  const token = "0123456789abcdef0123456789abcdef";
  const file = join(folder, "tokens");
  writeFileSync(file, `viewer ${token}\n`, { mode: 0o600 });
  await withServer(["--cache-dir", "none", "--http-token-file", file], async ({ url }) => {
    assert.ok(!(await (await fetch(url)).text()).includes(token));
    assert.equal((await fetch(`${url}status`)).status, 401);
    const asked = [];
    const prepare = async (page) => {
      page.on("request", (request) => asked.push(request.url()));
    };
    await show(url, { prepare }, async (page, problems) => {
      await page.waitForSelector("input[type=password]");
      await assertAccessible(page);
      assert.deepEqual(
        asked.filter((one) => one.includes("status")),
        [],
      );
      await page.fill("input", "тoken"); // the first letter is Cyrillic
      await page.click("button");
      await page.waitForSelector("text=a token has ASCII characters alone");
      await page.fill("input", "wrong");
      await page.click("button");
      await page.waitForSelector("text=authorization: ");
      problems.length = 0; // the browser reports the 401
      await page.fill("input", token);
      await page.keyboard.press("Enter");
      await page.waitForSelector(".verdict:text-is('ready')");
      assert.ok(asked.every((one) => !one.includes(token)));
      assert.equal(await page.evaluate(() => localStorage.length + sessionStorage.length), 0);
      assert.equal(await page.evaluate(() => document.cookie), "");
      assert.ok(!page.url().includes(token));
    });
  });
});

// A status whose every name is hostile, as a server would tell it of others' names.
function hostile(status) {
  const names = [
    "<script>globalThis.hacked = 1</script>",
    "\"'><img src=x onerror='globalThis.hacked=1'>",
    "\u202Eevil\u202C",
    "שלום עולם",
    "\u0007bell\u001b[31m\u2028line",
    "x".repeat(5000),
    "{{7*7}}${7*7}&lt;b&gt;",
  ];
  const counts = names.map((name) => ({ name, count: "3" }));
  const window = {
    ...status.since_start,
    seconds: 10,
    calls: names.map((method) => ({ method, calls: "7", errors: counts })),
    clients: names.map((client) => ({ client, calls: "5", refused: "2", solve_seconds: 1 })),
    answers: counts,
    lookups: names.map((name) => ({ name, hits: "1", misses: "2", failed: "0" })),
    rejected: counts,
    evictions: counts,
    store_failures: counts,
  };
  return {
    ...status,
    version: names[0],
    calls_in_flight: counts,
    caches: names.map((name) => ({ ...status.caches[0], name })),
    running: names.map((solver, thread) => ({
      thread,
      solver,
      stages: 3,
      seconds: 1,
      fraction: 0.5,
    })),
    since_start: window,
    recent: [window, window, window],
    options: names.map((name) => ({ name, value: name })),
  };
}

test("names are text, whatever they hold", async () => {
  const name = "<img src=x onerror='globalThis.hacked=1'>\u202Eevil שלום";
  const cache = join(folder, name);
  mkdirSync(cache);
  await withServer(["--cache-dir", cache], async ({ url }) => {
    await show(url, {}, async (page) => {
      await page.click("summary");
      const text = await page.textContent("details");
      assert.ok(text.includes(cache.replace("\u202E", "\\u{202e}")), text);
      assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
    });
    const body = JSON.stringify(hostile(await (await fetch(`${url}status`)).json()));
    const prepare = (page) =>
      page.route("**/status?*", (route) =>
        route.fulfill({ contentType: "application/json", body }),
      );
    for (const width of [320, 1280]) {
      await show(url, { width, prepare }, async (page) => {
        await page.click("summary");
        await assertAccessible(page);
        assert.equal(await page.evaluate(() => globalThis.hacked), undefined);
        assert.equal(await page.evaluate(() => document.querySelectorAll("img").length), 0);
        const text = await page.textContent("main");
        for (const shown of [
          "<script>globalThis.hacked = 1</script>",
          "\\u{202e}evil",
          "\\u{7}bell\\u{1b}[31m\\u{2028}line",
          "{{7*7}}${7*7}&lt;b&gt;",
          "שלום",
        ])
          assert.ok(text.includes(shown), shown);
        assert.ok(!text.includes("x".repeat(401)));
      });
    }
  });
});

test("axe-core finds nothing, at no width anything is cut off", async () => {
  await withServer(["--cache-dir", "none"], async ({ address, url }) => {
    run("solve", "--chain", resnet, "--memory", "50%", "--server", address);
    for (const [width, scheme] of [
      [320, "dark"],
      [1280, "light"],
      [1280, "dark"],
      [2560, "light"],
    ]) {
      await show(url, { width, scheme }, async (page) => {
        await page.waitForSelector("summary");
        await page.click("summary");
        await assertAccessible(page);
      });
    }
  });
});

test("a page that nobody sees reads nothing", async () => {
  await withServer(["--cache-dir", "none"], async ({ url }) => {
    const prepare = (page) => page.clock.install();
    await show(url, { prepare }, async (page) => {
      await page.waitForSelector("summary");
      const hide = (isHidden) =>
        page.evaluate((value) => {
          Object.defineProperty(document, "hidden", { value, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        }, isHidden);
      await hide(true);
      let count = 0;
      page.on("request", () => ++count);
      await page.clock.runFor(60_000);
      assert.equal(count, 0);
      await hide(false);
      await page.waitForResponse(/status/);
    });
  });
});

test("the first view", async (context) => {
  await withServer(["--cache-dir", "none"], async ({ url }) => {
    const times = [];
    for (let i = 0; i < 5; ++i) {
      await show(url, {}, async (page) => {
        await page.waitForSelector(".card");
        times.push(
          await page.evaluate(
            () => performance.getEntriesByName("first-contentful-paint")[0].startTime,
          ),
        );
      });
    }
    times.sort((a, b) => a - b);
    context.diagnostic(`first contentful paint after ${times[2].toFixed(0)} ms (median of 5)`);
    assert.ok(times[0] < 10_000);
  });
});
