// GitHub's own parser, as its editor extension uses it: [{path, root}] in, [[{line, column, severity, message}]] out.
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { registerLogger, validate } from "@actions/languageservice";
import { clearCache } from "@actions/languageservice/utils/workflow-cache";
import { TextDocument } from "vscode-languageserver-textdocument";
import { DiagnosticSeverity } from "vscode-languageserver-types";
import { answer } from "./stdio.mjs";

// The service logs what it could not judge and goes on; to us that is an error like any other.
const logged = [];
const ignore = () => {};
registerLogger({ error: (message) => logged.push(message), warn: ignore, info: ignore, log: ignore });

/** The files of one repository; a reference to another one is refused, and so reported as not found. */
function filesOf(root) {
  return {
    async getFileContent(reference) {
      if ("repository" in reference) throw new Error("not of this repository");
      return { name: reference.path, content: readFileSync(join(root, reference.path), "utf8") };
    },
  };
}

/** Spells a step's `./action` as its synonym `$/action`, which alone the service follows to the action's inputs. */
function withFollowedActions(text) {
  return text.replace(/(\buses: *["']?)\.\/(?!\.github\/workflows\/)/g, "$1$$/");
}

function problem(diagnostic) {
  const { severity, message, range } = diagnostic;
  return {
    line: range.start.line + 1,
    column: range.start.character + 1,
    severity: severity === DiagnosticSeverity.Warning ? "warning" : "error", // what the parser says bears no severity
    message: message.replaceAll("`$/", "`./"),
  };
}

async function problems({ path, root }) {
  const uri = pathToFileURL(resolve(path)).href;
  const document = TextDocument.create(uri, "yaml", 1, withFollowedActions(readFileSync(path, "utf8")));
  const diagnostics = await validate(document, { fileProvider: filesOf(root) });
  const counts = ({ severity }) => (severity ?? DiagnosticSeverity.Error) <= DiagnosticSeverity.Warning;
  const unjudged = logged.splice(0).map((message) => ({ line: 1, column: 1, severity: "error", message }));
  return [...diagnostics.filter(counts).map(problem), ...unjudged];
}

answer(async (files) => {
  const found = [];
  clearCache(); // of the files as they were at the last question
  for (const file of files) found.push(await problems(file)); // in turn: the log belongs to the file at hand
  return found;
});
