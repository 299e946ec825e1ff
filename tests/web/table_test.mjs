// In a table of the page each head stands over the figures of its own field. Run by deploy/web.sh.
import assert from "node:assert/strict";
import { join } from "node:path";
import { test } from "node:test";
import { folder, resnet, run, show, startServer } from "./support.mjs";

// The field of each head's figures, over all rows: "prediction.gap" of "…points.3.prediction.gap".
function fieldsOf(page, table) {
  return page.$eval(`section[aria-label="${table}"] table`, (element) => {
    const heads = Array.from(element.tHead.rows[0].cells, (cell) => cell.textContent);
    const fields = {};
    for (const row of element.tBodies[0].rows) {
      Array.from(row.cells).forEach((cell, i) => {
        for (const { dataset } of cell.querySelectorAll("data")) {
          const field = dataset.at.replace(/^.*\.\d+\./, "");
          fields[heads[i]] = [...new Set([...(fields[heads[i]] ?? []), field])];
        }
      });
    }
    return fields;
  });
}

async function assertFields(page, expected) {
  for (const [table, fields] of Object.entries(expected)) {
    const all = Object.entries(fields).map(([head, field]) => [head, [field]]);
    assert.deepEqual(await fieldsOf(page, table), Object.fromEntries(all), table);
  }
}

test("budgets, and the stages of a chain", async () => {
  const html = join(folder, "tables.html");
  run("frontier", "--local", "--chain", resnet, "--points", "3", "--html", html);
  await show(`file://${html}`, { hash: "#/budgets" }, async (page) => {
    await assertFields(page, {
      Budgets: {
        budget: "memory_bytes",
        makespan: "prediction.makespan_seconds",
        overhead: "prediction.overhead",
        peak: "prediction.peak_memory_bytes",
        gap: "prediction.gap",
      },
    });
    await page.click("nav a:has-text('Chain')");
    await page.waitForSelector('section[aria-label="Stages"]');
    await assertFields(page, {
      Stages: {
        forward: "forward_seconds",
        backward: "backward_seconds",
        output: "output_bytes",
        saved: "saved_bytes",
      },
    });
  });
});

test("what a server counts", async () => {
  const server = await startServer(["--cache-dir", join(folder, "cache-of-tables")]);
  try {
    run("solve", "--chain", resnet, "--memory", "50%", "--server", server.address);
    await show(server.url, {}, async (page) => {
      await page.waitForSelector("summary");
      await page.selectOption("select", { label: "since its start" });
      await page.waitForSelector('section[aria-label="Calls"] table');
      await assertFields(page, {
        Calls: {
          open: "count",
          ended: "calls",
          p50: "latency_seconds.p50",
          p90: "latency_seconds.p90",
          p99: "latency_seconds.p99",
        },
        "Answers by source": { answers: "count" },
        "Tiers below memory": { hits: "hits", misses: "misses", failed: "failed" },
        Caches: { entries: "entries", size: "bytes", limit: "limit_bytes" },
      });
    });
  } finally {
    await server.stop();
  }
});
