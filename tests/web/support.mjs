// What the tests of the page share: a browser, the command line, the figures that a page shows.
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before } from "node:test";
import { fileURLToPath } from "node:url";

export const root = fileURLToPath(new URL("../..", import.meta.url));
const require = createRequire(join(root, "server/web/package.json"));
const { chromium } = require("playwright-core");
const axe = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");
const programs = process.env.STOWAGE_PROGRAMS ?? join(root, "build/dev/bin");
export const program = join(programs, "stowage");
export const folder = mkdtempSync(join(tmpdir(), "stowage-page-"));
export const data = (name) => join(root, "tests/data", name);
export const resnet = data("torchvision-resnet50-32-224.json");

let browser;
before(async () => {
  browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
});
after(async () => {
  await browser?.close();
  rmSync(folder, { recursive: true });
});

export function run(...args) {
  return execFileSync(program, args, { encoding: "utf8", maxBuffer: 1 << 28 });
}

// Starts a server with a free port for calls, and another one for operators unless `http` is one.
// `stop` ends it at once, unless it has ended.
export async function startServer(args, http = "127.0.0.1:0") {
  const child = spawn(
    join(programs, "stowage-server"),
    ["--listen", "127.0.0.1:0", "--http", http, ...args],
    { stdio: ["ignore", "ignore", "pipe"] },
  );
  const ended = once(child, "exit");
  let log = "";
  child.stderr.setEncoding("utf8");
  const line = await new Promise((resolve, reject) => {
    child.stderr.on("data", (text) => {
      log += text;
      const serving = log.match(/event=serving .*\n/);
      if (serving !== null) resolve(serving[0]);
    });
    ended.then(() => reject(new Error(log)));
  });
  return {
    child,
    address: line.match(/ address=(\S+)/)[1],
    url: `${line.includes("http_tls=server") ? "https" : "http"}://${line.match(/ http=(\S+)/)[1]}/`,
    stop: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}

export const stage = {
  forward_seconds: 1e-3,
  backward_seconds: 2e-3,
  output_bytes: 1 << 20,
  saved_bytes: 3 << 20,
};

// The file of a chain of such stages, each with what `differs` gives for its index.
export function chainOf(name, length, differs = () => ({})) {
  const stages = Array.from({ length }, (_, i) => ({ ...stage, ...differs(i) }));
  const file = join(folder, `${name}.json`);
  writeFileSync(file, JSON.stringify({ name, input_bytes: 1 << 20, stages }));
  return file;
}

// A chain whose solve takes long, the longer it is.
export function slowChain(length = 10_000) {
  return chainOf("slow", length, (i) => ({ saved_bytes: (3 + (i % 7)) << 20 }));
}

// What the command line answers, and its file.
export function answerOf(name, chain, ...flags) {
  const file = join(folder, `${name}.json`);
  const text = run("solve", "--local", "--chain", chain, ...flags, "--format", "json");
  writeFileSync(file, text);
  return { file, answer: JSON.parse(text) };
}

// Runs `body` on a page at `address`, and fails on any console message, and on any request that
// does not begin with it. `prepare` gets the page before it is opened.
export async function show(
  address,
  { width = 1280, scheme = "light", hash = "", prepare = async () => {} },
  body,
) {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: scheme,
  });
  const page = await context.newPage();
  const problems = [];
  page.on("console", (message) => problems.push(message.text()));
  page.on("pageerror", (error) => problems.push(error.message));
  page.on("request", (request) => {
    if (!request.url().startsWith(address) && request.url() !== "data:,")
      problems.push(request.url());
  });
  await prepare(page);
  await page.goto(address + hash);
  await page.waitForSelector("h1");
  try {
    await body(page, problems);
  } finally {
    await context.close();
  }
  assert.deepEqual(problems, []);
}

// Every figure of the page: where it says that it is from, its exact value, its text.
export function figures(page) {
  return page.$$eval("data", (all) =>
    all.map((one) => ({ at: one.dataset.at, value: one.value, text: one.textContent })),
  );
}

export function assertFigures(found, json) {
  assert.ok(found.length >= 5);
  for (const { at, value } of found) {
    const expected = valueAt(json, at);
    assert.notEqual(expected, undefined, at);
    assert.equal(value, String(expected), at);
  }
}

// What a path leads to; the sum of several, which "+" joins.
export function valueAt(json, at) {
  const values = at
    .split("+")
    .map((path) => path.split(".").reduce((inner, key) => inner?.[key], json));
  return values.length === 1 ? values[0] : values.reduce((sum, value) => sum + Number(value), 0);
}

// At the least and the largest width, and in both schemes.
export async function assertAccessibleEverywhere(address, hash = "") {
  for (const [width, scheme] of [
    [320, "dark"],
    [1280, "light"],
    [2560, "dark"],
  ])
    await show(address, { width, scheme, hash }, assertAccessible);
}

export async function assertAccessible(page) {
  const { violations } = await page.evaluate(`${axe}; axe.run()`);
  assert.deepEqual(
    violations.map(({ id, nodes }) => [id, nodes[0].html, nodes[0].failureSummary]),
    [],
  );
  assert.ok(
    await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth),
    "is cut off",
  );
}
