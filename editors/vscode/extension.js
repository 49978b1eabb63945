// Starts `ptxcheck server` for PTX files, and connects the editor with it.
"use strict";

const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

/** @type {LanguageClient | undefined} */
let client;

async function start() {
  const settings = vscode.workspace.getConfiguration("ptxcheck");
  const server = {
    command: settings.get("path", "ptxcheck"),
    args: ["server", ...settings.get("args", [])],
  };
  client = new LanguageClient("ptxcheck", "ptxcheck", server, {
    documentSelector: [{ language: "ptx" }],
  });
  try {
    await client.start();
  } catch (error) {
    client = undefined;
    const open = "Open settings";
    const chosen = await vscode.window.showErrorMessage(
      `ptxcheck: ${server.command} does not start: ${error.message ?? error}. ` +
        "Install it, or set ptxcheck.path.",
      open,
    );
    if (chosen === open) {
      await vscode.commands.executeCommand("workbench.action.openSettings", "ptxcheck.path");
    }
  }
}

async function stop() {
  const running = client;
  client = undefined;
  await running?.stop();
}

async function restart() {
  await stop();
  await start();
}

/** @param {vscode.ExtensionContext} context */
async function activate(context) {
  context.subscriptions.push(
    vscode.commands.registerCommand("ptxcheck.restart", restart),
    vscode.workspace.onDidChangeConfiguration(async (change) => {
      if (change.affectsConfiguration("ptxcheck.path") || change.affectsConfiguration("ptxcheck.args")) {
        await restart();
      }
    }),
  );
  await start();
}

module.exports = { activate, deactivate: stop };
