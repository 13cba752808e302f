// What browsers and Node have and the engine lacks: URL, URLSearchParams, structuredClone, TextEncoder, TextDecoder,
// crypto.randomUUID; and a JSON.parse that accepts a value that is already parsed. Plain JavaScript, evaluated once
// before a script, which may change all of it.
(() => {
  const decode = (text) => {
    try { return decodeURIComponent(text.replace(/\+/g, " ")); } catch { return text; }
  };
  const encode = (text) => encodeURIComponent(text).replace(/%20/g, "+").replace(/[!'()~]/g, (c) => "%" + c.charCodeAt(0).toString(16).toUpperCase());

  class URLSearchParams {
    #pairs = [];
    #changed;
    constructor(init = "", changed = () => {}) {
      this.#changed = changed;
      if (typeof init === "string") {
        for (const part of init.replace(/^\?/, "").split("&")) {
          if (!part) continue;
          const at = part.indexOf("=");
          this.#pairs.push(at < 0 ? [decode(part), ""] : [decode(part.slice(0, at)), decode(part.slice(at + 1))]);
        }
      } else {
        const pairs = typeof init[Symbol.iterator] === "function" ? init : Object.entries(init);
        for (const [key, value] of pairs) this.#pairs.push([String(key), String(value)]);
      }
    }
    get(name) { return this.#pairs.find(([key]) => key === name)?.[1] ?? null; }
    getAll(name) { return this.#pairs.filter(([key]) => key === name).map(([, value]) => value); }
    has(name) { return this.#pairs.some(([key]) => key === name); }
    append(name, value) { this.#pairs.push([String(name), String(value)]); this.#changed(); }
    delete(name) { this.#pairs = this.#pairs.filter(([key]) => key !== name); this.#changed(); }
    set(name, value) {
      const at = this.#pairs.findIndex(([key]) => key === name);
      this.#pairs = this.#pairs.filter(([key], i) => key !== name || i === at);
      if (at < 0) this.#pairs.push([String(name), String(value)]);
      else this.#pairs.find(([key]) => key === name)[1] = String(value);
      this.#changed();
    }
    sort() { this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#changed(); }
    forEach(visit) { for (const [key, value] of this.#pairs) visit(value, key, this); }
    keys() { return this.#pairs.map(([key]) => key)[Symbol.iterator](); }
    values() { return this.#pairs.map(([, value]) => value)[Symbol.iterator](); }
    entries() { return this.#pairs.map((pair) => [...pair])[Symbol.iterator](); }
    [Symbol.iterator]() { return this.entries(); }
    get size() { return this.#pairs.length; }
    toString() { return this.#pairs.map(([key, value]) => `${encode(key)}=${encode(value)}`).join("&"); }
    toJSON() { return this.toString(); }
  }

  const PORTS = { "http:": "80", "https:": "443", "ws:": "80", "wss:": "443", "ftp:": "21" };
  const SHAPE = /^([a-z][a-z0-9+.-]*:)(?:\/\/(?:([^/?#@:]*)(?::([^/?#@]*))?@)?(\[[^\]]*\]|[^/?#:]*)(?::(\d*))?)?([^?#]*)(\?[^#]*)?(#.*)?$/i;
  const tidy = (path) => {
    const out = [];
    for (const part of path.split("/")) {
      if (part === "..") { if (out.length > 1) out.pop(); }
      else if (part !== ".") out.push(part);
    }
    if (/\/\.{1,2}$/.test(path)) out.push("");
    return out.join("/");
  };
  const absolute = (address, base) => {
    if (SHAPE.test(address) || base === undefined) return address;
    const from = new URL(base);
    if (address.startsWith("//")) return from.protocol + address;
    if (address.startsWith("/")) return from.origin + address;
    if (address.startsWith("?")) return from.origin + from.pathname + address;
    if (address.startsWith("#")) return from.origin + from.pathname + from.search + address;
    return from.origin + from.pathname.replace(/[^/]*$/, "") + address;
  };

  class URL {
    constructor(address, base) {
      const found = SHAPE.exec(absolute(String(address).trim(), base === undefined ? undefined : String(base)));
      if (!found) throw new TypeError(`Invalid URL: ${address}`);
      const [, protocol, user = "", password = "", host = "", port = "", path = "", search = "", hash = ""] = found;
      this.protocol = protocol.toLowerCase();
      this.username = user;
      this.password = password;
      this.hostname = host.toLowerCase();
      this.port = port === PORTS[this.protocol] ? "" : port;
      this.pathname = host ? tidy(path || "/").replace(/ /g, "%20") : path;
      this.hash = hash === "#" ? "" : hash;
      this.search = search === "?" ? "" : search.replace(/ /g, "%20");
      this.searchParams = new URLSearchParams(this.search, () => {
        const text = this.searchParams.toString();
        this.search = text ? `?${text}` : "";
      });
    }
    get host() { return this.hostname + (this.port ? `:${this.port}` : ""); }
    get origin() { return this.hostname ? `${this.protocol}//${this.host}` : "null"; }
    get href() {
      const user = this.username ? this.username + (this.password ? `:${this.password}` : "") + "@" : "";
      const authority = this.hostname ? `//${user}${this.host}` : "";
      return this.protocol + authority + this.pathname + this.search + this.hash;
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
    static canParse(address, base) { try { new URL(address, base); return true; } catch { return false; } }
  }

  const structuredClone = (value, _options, seen = new Map()) => {
    if (typeof value === "function" || typeof value === "symbol") throw new TypeError(`${typeof value} cannot be cloned`);
    if (value === null || typeof value !== "object") return value;
    if (seen.has(value)) return seen.get(value);
    if (value instanceof Date) return new Date(value);
    if (value instanceof RegExp) return new RegExp(value.source, value.flags);
    if (value instanceof Error) return Object.assign(new Error(value.message), { name: value.name });
    if (ArrayBuffer.isView(value)) return value.slice();
    const copy = Array.isArray(value) ? [] : value instanceof Map ? new Map() : value instanceof Set ? new Set() : {};
    seen.set(value, copy);
    if (value instanceof Map) for (const [key, item] of value) copy.set(structuredClone(key, 0, seen), structuredClone(item, 0, seen));
    else if (value instanceof Set) for (const item of value) copy.add(structuredClone(item, 0, seen));
    else for (const key of Object.keys(value)) copy[key] = structuredClone(value[key], 0, seen);
    return copy;
  };

  class TextEncoder {
    encode(text = "") {
      const bytes = unescape(encodeURIComponent(text));
      return Uint8Array.from(bytes, (char) => char.charCodeAt(0));
    }
  }
  class TextDecoder {
    decode(bytes) {
      let text = "";
      for (const byte of new Uint8Array(bytes.buffer ?? bytes)) text += String.fromCharCode(byte);
      try { return decodeURIComponent(escape(text)); } catch { return text; }
    }
  }
  const digit = (bits = 16) => Math.floor(Math.random() * bits).toString(16);
  const digits = (count) => Array.from({ length: count }, () => digit()).join("");
  const crypto = {
    randomUUID: () => `${digits(8)}-${digits(4)}-4${digits(3)}-${(8 + Math.floor(Math.random() * 4)).toString(16)}${digits(3)}-${digits(12)}`,
    getRandomValues: (into) => { for (let i = 0; i < into.length; i++) into[i] = Math.floor(Math.random() * 2 ** 32); return into; },
  };
  Number.prototype.toLocaleString = function (_locale, { minimumFractionDigits: least = 0, maximumFractionDigits: most = Math.max(least, 3) } = {}) {
    const [whole, part = ""] = Math.abs(this).toFixed(most).split(".");
    const rest = part.replace(/0+$/, "").padEnd(least, "0");
    return Number.isFinite(+this) ? `${this < 0 ? "-" : ""}${whole.replace(/\B(?=(\d{3})+$)/g, ",")}${rest && `.${rest}`}` : String(this);
  };
  const parse = JSON.parse;
  JSON.parse = (text, revive) => (text !== null && typeof text === "object" ? text : parse(text, revive)); // the answer of a tool may be parsed already
  Object.assign(globalThis, { URL, URLSearchParams, structuredClone, TextEncoder, TextDecoder, crypto });
})();
