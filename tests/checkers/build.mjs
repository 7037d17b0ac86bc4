// Bundles what imports GitHub's packages, whose JSON imports Node 18 and 20 cannot load as they stand.
// Written beside and renamed, so that test processes that build at the same time never see half a bundle.
import { mkdirSync, renameSync, writeFileSync } from "node:fs";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const here = fileURLToPath(new URL(".", import.meta.url));
const out = join(here, "node_modules", ".cache", "checkers");

const { outputFiles } = await build({
  absWorkingDir: here,
  bundle: true,
  entryPoints: ["expressions.mjs", "language-service.mjs"],
  format: "cjs",
  logLevel: "warning",
  outdir: out,
  outExtension: { ".js": ".cjs" },
  platform: "node",
  target: "node18",
  write: false,
});

mkdirSync(out, { recursive: true });
for (const { contents, path } of outputFiles) {
  const unfinished = join(out, `${basename(path)}.${process.pid}`);
  writeFileSync(unfinished, contents);
  renameSync(unfinished, path);
}
