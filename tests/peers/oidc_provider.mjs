// A real OpenID provider (npm oidc-provider) on the port given as argument; prints "ready". A client that asks for a token
// for the resource `<audience>/mcp` gets a JWT, for any other below the audience an opaque one that can be asked about.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [home, port, audience] = process.argv.slice(2);
const { Provider } = await import(pathToFileURL(createRequire(`${home}/x.js`).resolve("oidc-provider")));
const issuer = `http://127.0.0.1:${port}`;
const client = {
  client_secret: "secret-of-the-client-secret-of-the-client",
  grant_types: ["client_credentials"],
  redirect_uris: [],
  response_types: [],
};
const provider = new Provider(issuer, {
  clients: [
    { client_id: "robot", ...client },
    { client_id: "wicket", ...client },
  ],
  scopes: ["discover", "invoke"],
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    introspection: { enabled: true },
    resourceIndicators: {
      enabled: true,
      getResourceServerInfo: (_, resource) => ({
        scope: "discover invoke",
        audience: resource,
        accessTokenFormat: resource === `${audience}/mcp` ? "jwt" : "opaque",
      }),
    },
  },
});
provider.listen(Number(port), "127.0.0.1", () => console.log("ready"));
