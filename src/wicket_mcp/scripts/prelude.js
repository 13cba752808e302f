// The part of a JavaScript jail that runs inside it: the script's globals, calls as promises, JSON, and the step
// function. The host calls `step` and receives strings; no host function is reachable from here. Intrinsics are saved
// before a script can change them, so that a changed prototype affects only the script's own code.
(function (configText) {
  "use strict";
  const { parse, stringify } = JSON;
  const { apply, ownKeys, getOwnPropertyDescriptor } = Reflect;
  const { create, defineProperty, freeze, setPrototypeOf } = Object;
  const { isArray } = Array;
  const { isFinite, isSafeInteger } = Number;
  const { join } = Array.prototype;
  const { get: weakGet, set: weakSet } = WeakMap.prototype;
  const { has: setHas, add: setAdd, delete: setDelete, forEach: setForEach } = Set.prototype;
  const { forEach: mapForEach } = Map.prototype;
  const { toISOString } = Date.prototype;
  const { then, catch: catchMethod, finally: finallyMethod } = Promise.prototype;
  const { call: callFn, apply: applyFn, bind: bindFn } = Function.prototype;
  const [NativePromise, NativeError, NativeTypeError, NativeProxy, NativeSet, NativeMap, NativeDate, text] =
    [Promise, Error, TypeError, Proxy, Set, Map, Date, String];
  const { slice } = String.prototype;
  const { toExponential } = Number.prototype;
  const digitsOnly = /^-?[0-9]+$/;
  const { exec } = RegExp.prototype;
  const notWord = /[^A-Za-z0-9_$]/g;
  const replaceAll = (() => { const replace = String.prototype.replace; return function (by, to) { return apply(replace, this, [by, to]); }; })();
  const MAX_DEPTH = 64;

  const config = parse(configText);
  // A list of our own: no method of Array.prototype is looked up on it.
  const list = () => ({ __proto__: null, size: 0 });
  const push = (to, item) => { to[to.size++] = item; };
  const flat = (of, separator) => {
    const parts = [];
    for (let i = 0; i < of.size; i++) defineProperty(parts, i, { value: of[i], enumerable: true });
    return apply(join, parts, [separator]); // also makes one string of a rope, which the host could not take
  };

  // Otherwise all forks of one context would produce the same random numbers.
  let [s0, s1, s2, s3] = config.seed;
  const draw = () => {
    const t = s3 ^ (s3 << 11);
    s3 = s2; s2 = s1; s1 = s0;
    s0 = (s0 ^ (s0 >>> 19) ^ t ^ (t >>> 8)) >>> 0;
    return s0;
  };
  Math.random = () => (draw() * 0x200000 + (draw() >>> 11)) / 2 ** 53;

  // Printing

  let printed = list(), printedSize = 0;
  const emit = (line) => {
    const left = config.printed - printedSize;
    if (left < 0) return;
    printedSize += line.length;
    push(printed, line.length > left ? apply(slice, line, [0, left]) + "\n… cut: more was printed than is kept\n" : line);
  };

  // Values

  const labels = new WeakMap();
  const labelOf = (value) => apply(weakGet, labels, [value]);

  class ValueError extends Error {
    constructor(message, tooLarge) { super(message); this.tooLarge = tooLarge; }
  }

  const at = (path, key) => (typeof key === "number" ? `${path}[${key}]` : `${path}.${key}`);

  const write = (value, out, path, depth) => {
    let piece;
    switch (typeof value) {
      case "string": piece = stringify(value); break;
      case "boolean": piece = value ? "true" : "false"; break;
      case "bigint":
        piece = text(value);
        if (piece.length > config.digits) throw new ValueError(`${path} is a whole number of more than ${config.digits} digits: send what you need of it`);
        break;
      case "number":
        if (!isFinite(value)) throw new ValueError(`${path} is ${text(value)}, which JSON cannot carry`);
        // Without the point it would look like an exact integer, which a number of this size is not.
        piece = isSafeInteger(value) || value % 1 ? text(value) : apply(toExponential, value, []);
        break;
      case "undefined": piece = "null"; break;
      case "object": piece = value === null ? "null" : writeObject(value, out, path, depth); break;
      default: throw new ValueError(`${path} is a ${typeof value}: only data can be sent`);
    }
    if (piece !== undefined) {
      out.bytes += piece.length;
      push(out, piece);
    }
    if (out.bytes > out.most) throw new ValueError(`${out.what} is larger than ${out.most} bytes`, true);
  };

  const writeList = (items, count, out, path, depth) => {
    push(out, "[");
    for (let i = 0; i < count; i++) {
      if (i) push(out, ",");
      write(items[i], out, at(path, i), depth + 1);
    }
    push(out, "]");
  };

  const writeFields = (value, out, path, depth) => {
    push(out, "{");
    const keys = ownKeys(value);
    let first = true;
    for (let i = 0; i < keys.length; i++) {
      const key = keys[i];
      if (typeof key !== "string") continue;
      const descriptor = getOwnPropertyDescriptor(value, key);
      if (!descriptor || !descriptor.enumerable) continue;
      const item = value[key];
      if (item === undefined || typeof item === "function" || typeof item === "symbol") continue;
      const name = stringify(key);
      out.bytes += name.length + 2;
      push(out, (first ? "" : ",") + name + ":");
      first = false;
      write(item, out, at(path, key), depth + 1);
    }
    push(out, "}");
  };

  const writeObject = (value, out, path, depth) => {
    const label = labelOf(value);
    if (label !== undefined) throw new ValueError(`${path} is a pending call of ${label}: write \`await\` before it`);
    if (value instanceof NativePromise) throw new ValueError(`${path} is a Promise that was not awaited`);
    if (depth > MAX_DEPTH) throw new ValueError(`${path} is nested deeper than ${MAX_DEPTH}`);
    if (apply(setHas, out.open, [value])) throw new ValueError(`${path} contains itself`);
    if (value instanceof NativeDate) return stringify(apply(toISOString, value, []));
    apply(setAdd, out.open, [value]);
    if (isArray(value)) writeList(value, value.length, out, path, depth);
    else if (value instanceof NativeSet) {
      const items = list();
      apply(setForEach, value, [(item) => push(items, item)]);
      writeList(items, items.size, out, path, depth);
    } else if (value instanceof NativeMap) {
      const fields = create(null);
      apply(mapForEach, value, [(item, key) => { fields[text(key)] = item; }]);
      writeFields(fields, out, path, depth);
    } else if (value instanceof NativeError) {
      push(out, stringify(`${value.name}: ${value.message}`));
    } else writeFields(value, out, path, depth);
    apply(setDelete, out.open, [value]);
    return undefined;
  };

  const encode = (value, what, most) => {
    const out = list();
    out.bytes = 0;
    out.most = most;
    out.what = what;
    out.open = new NativeSet();
    write(value, out, what, 1);
    return flat(out, "");
  };

  const exact = function (key, value, context) {
    if (typeof value === "number" && !isSafeInteger(value) && context && typeof context.source === "string") {
      digitsOnly.lastIndex = 0;
      if (apply(exec, digitsOnly, [context.source])) return context.source; // beyond 2^53: the digits
    }
    return value;
  };

  // Calls

  let outbox = list(), calls = 0, outstanding = 0, exceeded = false;
  const pending = create(null);

  // A pending call acts as a promise; reading any other property means that an `await` was forgotten.
  const forgotten = new NativeProxy(create(null), {
    get(_, key, receiver) {
      if (typeof key === "symbol" && key !== Symbol.toPrimitive && key !== Symbol.iterator) return undefined;
      const name = typeof key === "string" ? ` before reading '${key}'` : " first";
      throw new NativeTypeError(`this is a pending call of ${labelOf(receiver)}: write \`await\`${name}`);
    },
  });
  const callPrototype = create(forgotten, {
    constructor: { value: NativePromise },
    then: { value: then }, catch: { value: catchMethod }, finally: { value: finallyMethod },
  });
  // A tool's function must not lead to a constructor.
  const toolPrototype = freeze(create(null, { call: { value: callFn }, apply: { value: applyFn }, bind: { value: bindFn } }));

  const startCall = (server, tool, body) => {
    if (calls >= config.calls) {
      exceeded = true;
      throw new NativeError(`the limit of ${config.calls} tool calls in one script is reached`);
    }
    const id = ++calls;
    const promise = new NativePromise((resolve, reject) => {
      pending[id] = { __proto__: null, resolve, reject, stack: new NativeError("").stack };
    });
    apply(weakSet, labels, [promise, `${server}.${tool}`]);
    setPrototypeOf(promise, callPrototype);
    outstanding++;
    push(outbox, `[${id},${stringify(server)},${stringify(tool)},${body}]`);
    return promise;
  };

  const encodeArguments = (value, label) => {
    if (value === undefined || value === null) return "{}";
    if (typeof value !== "object" || isArray(value)) {
      throw new NativeTypeError(`${label} takes one object of named arguments, such as ${label}({name: value})`);
    }
    return encode(value, `the arguments of ${label}`, config.max_arguments);
  };

  const toolFunction = (server, tool) => {
    const label = `${server}.${tool}`;
    const start = (value) => startCall(server, tool, encodeArguments(value, label));
    return freeze(setPrototypeOf(start, toolPrototype));
  };

  const serverObject = (server, names) => {
    const functions = create(null);
    for (let i = 0; names && i < names.length; i++) functions[names[i]] = toolFunction(server, names[i]);
    const quiet = { __proto__: null, then: 1, toJSON: 1, constructor: 1, toString: 1, valueOf: 1 };
    return new NativeProxy(functions, {
      get(target, key) {
        if (typeof key !== "string") return undefined;
        if (key in target) return target[key];
        if (key in quiet) return undefined;
        const plain = apply(replaceAll, key, [notWord, "_"]); // a name as its server spells it
        if (plain in target) return target[plain];
        if (names) throw new NativeTypeError(`${server} has no tool '${key}'`);
        return toolFunction(server, key);
      },
    });
  };

  const helper = (server, tool, shape) =>
    freeze(setPrototypeOf((...given) => startCall(server, tool, encodeArguments(shape(given), `${server}.${tool}`)), toolPrototype));
  const named = (first) => (given) =>
    given[0] !== null && typeof given[0] === "object" && !isArray(given[0]) ? given[0] : { [first]: given[0], ...given[1] };
  const globals = {
    __proto__: null,
    args: config.args,
    tools: freeze({
      __proto__: null,
      search: helper("tools", "search", named("query")),
      describe: helper("tools", "describe", (given) => ({ names: isArray(given[0]) ? given[0] : [given[0]], detail: given[1] })),
      call: helper("tools", "call", (given) => ({ name: given[0], arguments: given[1] ?? {} })),
    }),
    results: freeze({ __proto__: null, get: helper("results", "get", named("id")) }),
    __backends: freeze(Object.keys(config.servers)),
    __interfaces: flat({ ...Object.values(config.interfaces), size: Object.keys(config.interfaces).length }, "\n\n"),
    __getToolInterface: (name) => config.interfaces[name] ?? null,
  };
  for (const server of Object.keys(config.servers)) globals[server] = serverObject(server, config.servers[server]);

  // Timers: the host waits, and runs those that are due.

  const now = NativeDate.now;
  let timers = list(), timerCount = 0;
  const firstTimer = () => {
    let best;
    for (let i = 0; i < timers.size; i++) {
      const timer = timers[i];
      if (timer.live && (best === undefined || timer.due < best.due)) best = timer;
    }
    return best;
  };
  globals.setTimeout = (work, delay, ...given) => {
    const id = ++timerCount;
    push(timers, { __proto__: null, id, live: true, due: now() + (+delay > 0 ? +delay : 0), work, given });
    return id;
  };
  globals.clearTimeout = (id) => {
    for (let i = 0; i < timers.size; i++) if (timers[i].id === id) timers[i].live = false;
  };
  const fire = () => {
    let timer;
    while ((timer = firstTimer()) !== undefined && timer.due <= now()) {
      timer.live = false;
      try { apply(timer.work, undefined, timer.given); } catch (problem) { state = "failed"; value = problem; return; }
    }
  };

  const show = (value) => {
    if (typeof value === "string") return value;
    if (value instanceof NativeError) return `${value.name}: ${value.message}`;
    const label = typeof value === "object" && value !== null ? labelOf(value) : undefined;
    if (label !== undefined) return `[pending call of ${label}]`;
    try {
      return typeof value === "object" ? encode(value, "value", config.printed + 1024) : text(value);
    } catch {
      return "[something that cannot be shown]";
    }
  };
  const log = (...values) => {
    const parts = list();
    for (let i = 0; i < values.length; i++) push(parts, show(values[i]));
    emit(flat(parts, " ") + "\n");
  };
  globals.console = { log, info: log, warn: log, error: log, debug: log, trace: log };
  for (const name of ownKeys(globals)) {
    defineProperty(globalThis, name, { value: globals[name], writable: true, configurable: true, enumerable: true });
  }

  // The step

  let state = "running", value;
  const toolErrors = new WeakMap();

  const begin = (script) => {
    apply(then, script(), [
      (result) => { state = "done"; value = result; },
      (problem) => { state = "failed"; value = problem; },
    ]);
  };

  const deliver = (payload, digits) => {
    const replies = digits ? parse(payload, exact) : parse(payload);
    for (let i = 0; i < replies.length; i++) {
      const id = replies[i][0], ok = replies[i][1], answer = replies[i][2]; // a pattern would ask Array.prototype
      const waiting = pending[id];
      if (!waiting) continue;
      delete pending[id];
      outstanding--;
      if (ok) waiting.resolve(answer);
      else {
        const problem = new NativeError(answer);
        defineProperty(problem, "stack", { value: waiting.stack });
        apply(weakSet, toolErrors, [problem, true]);
        waiting.reject(problem);
      }
    }
  };

  const failed = (kind, message, stack) => "failed\n" + flat({ 0: stringify({ __proto__: null, kind, message, stack }), size: 1 }, "");

  const explain = (problem) => {
    if (problem === null) return failed("memory", "not enough memory", "");
    if (problem instanceof ValueError) return failed(problem.tooLarge ? "output" : "value", problem.message, problem.stack);
    if (problem instanceof NativeError) {
      const isTool = apply(weakGet, toolErrors, [problem]);
      const kind = exceeded ? "calls" : isTool ? "tool" : problem.message === "out of memory" ? "memory" : "runtime";
      const message = isTool ? text(problem.message) : `${text(problem.name)}: ${text(problem.message)}`;
      return failed(kind, message, text(problem.stack));
    }
    return failed("runtime", `Uncaught ${show(problem)}`, "");
  };

  const takeOutbox = () => {
    const batch = flat(outbox, ",");
    outbox = list();
    return `[${batch}]`;
  };

  const look = () => {
    if (outbox.size) return `${state === "failed" ? "calls-go" : "calls"}\n${takeOutbox()}`;
    if (state === "failed") return explain(value);
    const timer = state === "running" ? firstTimer() : undefined;
    if (timer !== undefined) return `${outstanding > 0 ? "wait" : "sleep"}\n${timer.due > now() ? timer.due - now() : 0}`;
    if (outstanding > 0) return "wait\n";
    if (state === "running") return failed("deadlock", "The script waits for something that will never come.", "");
    if (value === undefined) return "done\n";
    try {
      return "done\n" + encode(value, "the result", config.max_value);
    } catch (problem) {
      return explain(problem);
    }
  };

  return function step(what, given) {
    if (what === "begin") return begin(given), "";
    if (what === "replies" || what === "digits") return deliver(given, what === "digits"), "";
    if (what === "fire") return fire(), "";
    if (what === "outbox") return outbox.size ? flat({ 0: takeOutbox(), size: 1 }, "") : "";
    if (what === "printed") {
      if (!printed.size) return "";
      const lines = stringify(flat(printed, ""));
      printed = list();
      return lines;
    }
    return flat({ 0: look(), size: 1 }, "");
  };
})
