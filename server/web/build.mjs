// Builds the page: types from the protos, a check of the types, one script and one style, and the
// document that holds both. The same sources and lock file give the same bytes.
//   node build.mjs [FILE]    default: bundle/page.html
// Needs `npm ci` and protoc.
import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const target = resolve(
  process.argv[2] ?? fileURLToPath(new URL("bundle/page.html", import.meta.url)),
);
process.chdir(fileURLToPath(new URL(".", import.meta.url)));

// Interfaces of the JSON form: names as in the proto, 64-bit integers and enumerators as strings.
rmSync("generated", { recursive: true, force: true });
mkdirSync("generated");
execFileSync(
  "protoc",
  [
    "-I",
    "../../proto",
    "--plugin=protoc-gen-ts_proto=node_modules/.bin/protoc-gen-ts_proto",
    "--ts_proto_out=generated",
    "--ts_proto_opt=onlyTypes=true,snakeToCamel=false,forceLong=string,stringEnums=true," +
      "enumsAsLiterals=true,unrecognizedEnum=false,exportCommonSymbols=false,outputServices=false",
    "stowage/v1/status.proto",
    "stowage/v1/view.proto",
  ],
  { stdio: "inherit" },
);
execFileSync("node_modules/.bin/tsc", [], { stdio: "inherit" });

const { outputFiles } = await build({
  absWorkingDir: process.cwd(),
  entryPoints: ["src/main.tsx"],
  outdir: "out",
  bundle: true,
  format: "iife",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  minify: true,
  charset: "utf8",
  legalComments: "none",
  write: false,
});
const text = (end) => outputFiles.find((file) => file.path.endsWith(end)).text.trim();
// A script ends at "</script", even inside a string.
const script = text(".js").replaceAll("</script", "<\\/script");
const style = text(".css");
// The licences of what the script holds ask to be passed on.
const licences = ["preact", "uplot"]
  .map((name) => `${name}: ${readFileSync(`node_modules/${name}/LICENSE`, "utf8").trim()}`)
  .join("\n\n");
const hash = (content) => `'sha256-${createHash("sha256").update(content).digest("base64")}'`;
const policy = [
  "default-src 'none'",
  `script-src ${hash(script)}`,
  `style-src ${hash(style)}`,
  "connect-src 'self'",
  "img-src data:",
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");

const parts = { LICENCES: licences, POLICY: policy, STYLE: style, SCRIPT: script };
const page = readFileSync("src/page.html", "utf8").replace(
  /@(LICENCES|POLICY|STYLE|SCRIPT)@/g,
  (_, name) => parts[name],
);
if (page.split("@VIEW@").length !== 2) throw new Error("the page has not one place for its data");
writeFileSync(target, page);
