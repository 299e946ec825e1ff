// Takes the pictures of README.md, in server/web/pictures: the quickstart's schedule, budgets of
// several solvers, a server under load. Takes five minutes. Run by deploy/web.sh --pictures.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { data, folder, program, root, run, show, slowChain, startServer } from "./support.mjs";

const pictures = join(root, "server/web/pictures");
const resnet = data("torchvision-resnet101-32-224.json");
const kLoadSeconds = 150;
const kMostBytes = 300_000; // of the pictures of one README together
const file = (name) => join(pictures, `${name}.png`);

mkdirSync(pictures, { recursive: true });

// The upper part of a page, as high as it is interesting.
async function take(page, name, height) {
  await page.setViewportSize({ width: 1120, height });
  await pause(500); // charts are drawn again
  await page.screenshot({ path: file(name) });
}

test("schedule: the quickstart's", async () => {
  const html = join(folder, "quickstart.html");
  const most = JSON.parse(run("chain", resnet, "--format", "json")).most_memory_bytes;
  const memory = String(Math.floor(Number(most) / 4));
  run("solve", "--local", "--chain", resnet, "--memory", memory, "--html", html);
  await show(`file://${html}`, {}, (page) => take(page, "schedule", 800));
});

test("budgets: of three solvers", async () => {
  const asked = [["rotor"], ["periodic"], ["pofo", "--offload-bandwidth", "6GB/s"]];
  const files = asked.map(([solver, ...link]) => {
    const path = join(folder, link.length > 0 ? `${solver}-6GBps.json` : `${solver}.json`);
    const flags = ["--local", "--chain", resnet, "--points", "12", "--solver", solver, ...link];
    writeFileSync(path, run("frontier", ...flags, "--format", "json"));
    return path;
  });
  const html = join(folder, "budgets.html");
  run("view", resnet, ...files, "--html", html);
  await show(`file://${html}`, {}, (page) => take(page, "budgets", 700));
});

test("service: under load", async () => {
  const server = await startServer(["--cache-dir", join(folder, "cache")]);
  const flags = ["--server", server.address, "--duration", `${kLoadSeconds + 60}s`];
  const load = spawn(program, ["load", resnet, ...flags, "--rate", "150"]);
  let solve;
  try {
    await show(server.url, {}, async (page) => {
      await pause(kLoadSeconds * 1000);
      solve = spawn(program, [
        "solve",
        "--chain",
        slowChain(),
        "--memory",
        "20GiB",
        "--solver",
        "periodic",
        "--server",
        server.address,
      ]);
      await page.waitForSelector("progress");
      await take(page, "service", 860);
    });
  } finally {
    solve?.kill("SIGKILL");
    load.kill("SIGKILL");
    await server.stop();
  }
});

test("they are small", () => {
  const sum = (...files) => files.reduce((all, one) => all + statSync(one).size, 0);
  assert.ok(sum(...["schedule", "budgets", "service"].map(file)) < kMostBytes);
});
