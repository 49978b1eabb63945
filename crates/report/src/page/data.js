
// The records, added up. Lines that are damaged, by a process that was killed, are left out.

const records = [...document.querySelectorAll("script[type='application/json']")]
  .flatMap(element => { try { return [JSON.parse(element.textContent)]; } catch { return []; } });

/** By number and start: numbers of processes are used again. */
const processes = new Map();
for (const record of records) {
  const key = `${record.process.id} ${record.process.started}`;
  if (!processes.has(key)) {
    processes.set(key, {...record.process, key, seconds: 0, records: [], lanes: new Map(), launches: 0});
  }
  const process = processes.get(key);
  process.seconds = Math.max(process.seconds, record.seconds);
  process.device ??= record.device;
  process.records.push(record);
  for (const lane of record.lanes ?? []) process.lanes.set(lane.id, lane.name);
  for (const kernel of record.kernels ?? []) process.launches += kernel.launches;
}
/** The time zero of the timeline, in milliseconds since 1970. */
const zero = Math.min(...[...processes.values()].map(process => process.started));

/** The PTX of kernels, by module and name. One with text wins over one without. */
const sources = new Map();
for (const source of records.flatMap(record => record.sources ?? [])) {
  const key = `${source.module} ${source.name}`;
  if (!sources.get(key)?.ptx) sources.set(key, source);
}

/** Adds up what has the same key. `add` adds an item to what is known. */
function sum(list, key, add) {
  const sums = new Map();
  for (const item of list) {
    const known = sums.get(key(item));
    if (known) add(known, item);
    else sums.set(key(item), structuredClone(item));
  }
  return [...sums.values()];
}

/** What these records say together. */
function summary(some) {
  const all = name => some.flatMap(record => record[name] ?? []);
  const times = (known, item) => { known.times += item.times; };
  const timed = (known, item) => { known.times += item.times; known.seconds += item.seconds; };
  const kernels = sum(all("kernels"), kernel => `${kernel.module} ${kernel.name}`, (known, item) => {
    known.launches += item.launches;
    known.seconds += item.seconds;
    known.max_seconds = Math.max(known.max_seconds, item.max_seconds);
    known.other_shapes = (known.other_shapes ?? 0) + (item.other_shapes ?? 0);
    known.shapes = sum([...known.shapes ?? [], ...item.shapes ?? []],
      shape => [shape.grid, shape.block, shape.cluster, shape.shared_bytes].join("|"),
      (one, other) => { one.launches += other.launches; });
    known.faults = sum([...known.faults ?? [], ...item.faults ?? []], fault => fault.message, times);
  });
  for (const kernel of kernels) {
    kernel.title = kernel.demangled ?? kernel.name;
    kernel.id = `${kernel.module ?? ""} ${kernel.name}`;
    kernel.mean = kernel.seconds / kernel.launches;
    kernel.shapes = (kernel.shapes ?? []).sort((a, b) => b.launches - a.launches);
    kernel.faults ??= [];
  }
  kernels.sort((a, b) => b.seconds - a.seconds);
  const failures = sum(all("failures"), failure => [failure.entry, failure.error, failure.cause].join("\0"), times)
    .sort((a, b) => b.times - a.times);
  const copies = sum(all("copies"), copy => copy.direction, (known, item) => {
    timed(known, item);
    known.bytes += item.bytes;
  }).sort((a, b) => b.bytes - a.bytes);
  const compiles = sum(all("compiles"), compile => compile.optimized, timed);
  const total = (list, name) => list.reduce((all, item) => all + item[name], 0);
  const wall = [...processes.values()].filter(process => process.records.some(record => some.includes(record)))
    .reduce((sum, process) => sum + process.seconds, 0);
  return {
    overlaps: total(kernels, "seconds") > wall,
    kernels, failures, copies, compiles, loads: all("loads"), dropped: total(some, "dropped"),
    missing: sum(all("missing"), entry => entry.entry, times).sort((a, b) => b.times - a.times),
    refused: failures.filter(failure => failure.kind === "refused"),
    faults: failures.filter(failure => failure.kind === "fault"),
    errors: failures.filter(failure => failure.kind === "error"),
    seconds: total(kernels, "seconds"), launches: total(kernels, "launches"),
    bytes: total(copies.filter(copy => copy.direction !== "fill"), "bytes"),
    compileTimes: total(compiles, "times"), compileSeconds: total(compiles, "seconds"),
  };
}
