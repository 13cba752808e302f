// The first generation of the TypeScript SDK's client and its tasks of 2025-11-25: node typescript_tasks.mjs HOME TOOL
// COMMAND ARGUMENT... starts the server, calls the tool plainly and as a task, and prints what it was told.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, name, command, ...args] = process.argv.slice(2);
const load = (path) => import(pathToFileURL(createRequire(`${home}/x.js`).resolve(`@modelcontextprotocol/sdk/${path}`)));
const { Client } = await load("client/index.js");
const { StdioClientTransport } = await load("client/stdio.js");

const client = new Client({ name: "typescript", version: "1" });
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: "ignore" }));
await client.listTools(); // the client looks up there which tools may be tasks, and which must be
const call = { name, arguments: { topic: "tides" } };
const told = { plain: await client.callTool(call), messages: [] };
for await (const event of client.experimental.tasks.callToolStream(call)) {
  told[event.type] = event.result ?? event.task;
  if (event.task?.statusMessage) told.messages.push(event.task.statusMessage);
}
await client.close();
process.stdout.write(JSON.stringify(told) + "\n");
