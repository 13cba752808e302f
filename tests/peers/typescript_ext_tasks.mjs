// The published client of the tasks extension, in both eras: node typescript_ext_tasks.mjs HOME ERA ADDRESS TOKEN TOOL...
// calls every tool as a task, accepts what it asks, and prints for each how it ended, as one line of JSON.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, era, address, token, ...tools] = process.argv.slice(2);
const { resolve } = createRequire(`${home}/x.js`);
const load = (name) => import(pathToFileURL(resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { createTaskSessionFromClient } = await import(
  pathToFileURL(`${home}/node_modules/@modelcontextprotocol/ext-tasks/dist/client/index.js`)
);

const modern = era === "modern";
const clientInfo = { name: "typescript", version: "1" };
const clientCapabilities = { elicitation: { form: {} }, extensions: { "io.modelcontextprotocol/tasks": {} } };
const headers = { Authorization: `Bearer ${token}` };
const client = new Client(clientInfo, {
  capabilities: { elicitation: { form: {} } },
  versionNegotiation: { mode: modern ? { pin: "2026-07-28" } : "legacy" },
});
await client.connect(new StreamableHTTPClientTransport(new URL(address), { requestInit: { headers } }));

let number = 0;
const rawDispatch = async ({ method, params }) => {
  const named = params.taskId ?? params.name;
  const answer = await fetch(address, {
    method: "POST",
    headers: {
      ...headers,
      "Content-Type": "application/json",
      Accept: "application/json, text/event-stream",
      "MCP-Protocol-Version": "2026-07-28",
      "Mcp-Method": method,
      ...(named ? { "Mcp-Name": named } : {}),
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: ++number, method, params }),
  });
  const text = await answer.text();
  const events = text.split("\n").filter((line) => line.startsWith("data:"));
  const body = JSON.parse(events.length ? events.at(-1).slice(5) : text);
  return body.error ? { kind: "error", error: body.error } : { kind: "result", result: body.result };
};
const v2RequestFraming = { protocolVersion: "2026-07-28", clientInfo, clientCapabilities };
const asked = [];
const session = createTaskSessionFromClient(client, {
  endpointId: "wicket",
  ...(modern ? { rawDispatch, v2RequestFraming } : {}),
  onInputRequest: async (request) => {
    asked.push(request.params.message);
    return { action: "accept", content: {} };
  },
});
const told = {};
for (const tool of tools) {
  const execution = await session.callTool(tool, {}, { task: { preference: "prefer" } });
  const { outcome } = await execution.settle();
  told[tool] = [execution.kind, outcome.status, outcome.result?.content[0].text ?? outcome.error?.message];
}
await session.close();
await client.close();
process.stdout.write(JSON.stringify({ told, asked }) + "\n");
