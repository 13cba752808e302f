// A real, certified authorization server: oidc-provider, for one protected resource.
//
//     node resource_provider.mjs NODE_MODULES RESOURCE
//
// Prints its issuer as a line, and serves until its stdin ends. Whoever comes is signed in as "ann" and consents at once.
import { createServer } from "node:http";

const [modules, resource] = process.argv.slice(2);
const { default: Provider } = await import(`${modules}/oidc-provider/lib/index.js`);

const server = createServer();
await new Promise((ready) => server.listen(0, "127.0.0.1", ready));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  clients: [],
  features: {
    registration: { enabled: true },
    revocation: { enabled: true },
    devInteractions: { enabled: false },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: "mcp", audience: resource, accessTokenFormat: "jwt", accessTokenTTL: 600 }),
    },
  },
  clientDefaults: { token_endpoint_auth_method: "none" },
  scopes: ["openid", "offline_access"],
  pkce: { required: () => true },
  issueRefreshToken: () => true,
  rotateRefreshToken: true,
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
  cookies: { keys: ["for tests only"] },
});

async function consent(request, response) {
  const { params, session } = await provider.interactionDetails(request, response);
  const grant = new provider.Grant({ accountId: "ann", clientId: params.client_id });
  grant.addOIDCScope("openid offline_access");
  grant.addResourceScope(resource, "mcp");
  const result = { login: { accountId: session?.accountId ?? "ann" }, consent: { grantId: await grant.save() } };
  await provider.interactionFinished(request, response, result, { mergeWithLastSubmission: true });
}

const callback = provider.callback();
server.on("request", (request, response) => {
  if (request.url.startsWith("/interaction/")) consent(request, response).catch((error) => response.writeHead(500).end(String(error)));
  else callback(request, response);
});
console.log(issuer);
process.stdin.on("end", () => process.exit(0)).resume();
