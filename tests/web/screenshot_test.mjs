// What is drawn of a schedule before and after a zoom, compared with the pictures of tests/data/web.
// Text is left out, since fonts differ between machines. Run by deploy/web.sh; deploy/web.sh
// --keep-screenshots writes what is compared with.
import assert from "node:assert/strict";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { folder, resnet, root, run, show } from "./support.mjs";

const require = createRequire(join(root, "server/web/package.json"));
const { PNG } = require("pngjs");
const { default: pixelmatch } = await import(pathToFileURL(require.resolve("pixelmatch")));

// Share of pixels that may differ: edges of lines are drawn a little differently by versions of
// Chromium.
const kMost = 0.005;
const kept = (name) => join(root, "tests/data/web", `${name}.png`);

async function hideText(page) {
  await page.addInitScript(() => {
    CanvasRenderingContext2D.prototype.fillText = () => {};
  });
}

// The chart's canvases one below the other: what lies beside them depends on the fonts, too.
async function take(page) {
  await page.waitForSelector(".chart[data-most-bytes]");
  const url = await page.evaluate(async () => {
    const frame = () => new Promise((resolve) => requestAnimationFrame(resolve));
    for (let i = 0; i < 3; ++i) await frame();
    const parts = Array.from(document.querySelectorAll(".chart canvas"));
    const all = document.createElement("canvas");
    all.width = Math.max(...parts.map(({ width }) => width));
    all.height = parts.reduce((sum, { height }) => sum + height, 0);
    const context = all.getContext("2d", { alpha: false });
    context.fillStyle = "#fff";
    context.fillRect(0, 0, all.width, all.height);
    let top = 0;
    for (const part of parts) {
      context.drawImage(part, 0, top);
      top += part.height;
    }
    return all.toDataURL();
  });
  return Buffer.from(url.split(",")[1], "base64");
}

function differing(a, b) {
  const [first, second] = [a, b].map((png) => PNG.sync.read(png));
  const { width, height } = first;
  assert.deepEqual([second.width, second.height], [width, height], "sizes of the pictures");
  const drawn = new PNG({ width, height });
  const count = pixelmatch(first.data, second.data, drawn.data, width, height, { threshold: 0.1 });
  return { share: count / (width * height), drawn: PNG.sync.write(drawn) };
}

function assertKept(context, name, picture) {
  if (process.env.STOWAGE_KEEP_SCREENSHOTS === "1") {
    mkdirSync(join(root, "tests/data/web"), { recursive: true });
    writeFileSync(kept(name), picture);
    return;
  }
  const { share, drawn } = differing(readFileSync(kept(name)), picture);
  context.diagnostic(`${name}: ${(100 * share).toFixed(3)} % of the pixels differ`);
  if (share <= kMost) return;
  const failures = join(root, "build/screenshots");
  mkdirSync(failures, { recursive: true });
  writeFileSync(join(failures, `${name}.png`), picture);
  writeFileSync(join(failures, `${name}.difference.png`), drawn);
  assert.fail(`${(100 * share).toFixed(2)} % of ${kept(name)} differ; see ${failures}`);
}

const kSchedules = {
  rotor: ["--memory", "20%", "--solver", "rotor"],
  offload: ["--memory", "40%", "--solver", "offload_greedy", "--offload-bandwidth", "6GB/s"],
};

for (const [name, flags] of Object.entries(kSchedules)) {
  test(`${name}: before and after a zoom`, async (context) => {
    const html = join(folder, `${name}-screenshot.html`);
    run("solve", "--local", "--chain", resnet, ...flags, "--html", html);
    await show(`file://${html}`, { width: 640, prepare: hideText }, async (page) => {
      const whole = await take(page);
      assertKept(context, `${name}-whole`, whole);
      for (let i = 0; i < 3; ++i) {
        const before = page.url();
        await page.click("button[aria-label='Zoom in']");
        await page.waitForFunction((old) => location.href !== old, before);
      }
      const zoomed = await take(page);
      assertKept(context, `${name}-zoomed`, zoomed);
      assert.ok(differing(whole, zoomed).share > 10 * kMost);
      // Two hundredths of what is shown to the side is no small difference.
      await page.evaluate(() => {
        const [from, to] = location.hash
          .match(/[\d.]+(?=&|$)/g)
          .slice(-2)
          .map(Number);
        const by = 0.02 * (to - from);
        location.hash = location.hash.replace(/from=.*/, `from=${from + by}&to=${to + by}`);
      });
      assert.ok(differing(zoomed, await take(page)).share > 2 * kMost);
    });
  });
}
