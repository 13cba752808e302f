// The TypeScript SDK's client, with its helpers for skills and tasks: node typescript_client.mjs HOME ERA ADDRESS TOKEN
// Speaks to the server at ADDRESS and prints, as one line of JSON, what it was told. An argument that begins with / is a
// program to start instead, with the rest as its arguments.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, era, address, ...rest] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(createRequire(`${home}/x.js`).resolve(name)));
const { Client, StreamableHTTPClientTransport } = await load("@modelcontextprotocol/client");
const { StdioClientTransport } = await load("@modelcontextprotocol/client/stdio");
const { SkillsClient } = await load("@modelcontextprotocol/client/ext/skills");

const client = new Client(
  { name: "typescript", version: "1" },
  {
    capabilities: { elicitation: { form: {} } },
    versionNegotiation: { mode: era === "modern" ? { pin: "2026-07-28" } : "legacy" },
  },
);
const asked = [];
client.setRequestHandler("elicitation/create", async (request) => {
  asked.push(request.params.message);
  return { action: "accept", content: {} };
});
const transport = address.startsWith("/")
  ? new StdioClientTransport({ command: address, args: rest, env: process.env, stderr: "ignore" })
  : new StreamableHTTPClientTransport(new URL(address), {
      requestInit: { headers: { Authorization: `Bearer ${rest[0]}` } },
    });
await client.connect(transport);

const text = async (name, args) => (await client.callTool({ name, arguments: args })).content[0].text;
const told = { server: client.getServerVersion().name, asked };
told.tools = (await client.listTools()).tools.map((tool) => tool.name);
told.found = await text("find_tools", { query: "echo a message" });
told.echo = await text("call_tool", { name: "x.echo", arguments: { message: "hello" } });
told.answer = await text("call_tool", { name: "x.slow", arguments: {} });
told.resources = (await client.listResources()).resources.map((resource) => resource.uri);
const skills = new SkillsClient(client);
const { skills: entries } = await skills.list();
told.skills = entries.map((skill) => skill.uri);
told.verified = [];
for (const skill of entries)
  for (const file of skill.resources) told.verified.push((await skills.read(skill, file.uri)).verified);
told.children = (await skills.readDirectory("skill://s/pdf-forms")).resources.map((child) => child.name);
await client.close();
process.stdout.write(JSON.stringify(told) + "\n");
