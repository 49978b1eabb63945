
// Where the blocks of a graph go: layers, as Sugiyama, Tagawa and Toda: "Methods for Visual
// Understanding of Hierarchical System Structures", IEEE SMC 11(2), 1981. Back edges are
// turned round, an edge over several layers bends in each of them, and an order with few
// crossings is looked for. This is done for the one graph that is on the screen.

const ACROSS = 34;
const BEND = 14;
const DOWN = 58;
/** More bends than this, and the longest edges are cut: their ends name each other. */
const BENDS = 6000;

/** nodes: [{width, height, edges: [{to}]}]; gives x and y to each, and a path to each edge. */
function layout(nodes) {
  const {order, turned} = depthFirst(nodes);
  const rank = ranks(nodes, order, turned);
  const layers = [];
  const points = nodes.map(({width, height}, index) =>
    add(layers, rank[index], {width, height, block: index, up: [], down: []}));
  const routes = routed(nodes, rank, turned, points, layers);
  arrange(layers);
  straighten(layers);
  const height = stack(layers);
  points.forEach((point, index) => Object.assign(nodes[index], {x: point.x, y: point.y}));
  const edges = drawn(routes);
  const all = layers.flat();
  const left = Math.min(...all.map(one => one.x - one.width / 2)) - ACROSS;
  const right = Math.max(...all.map(one => one.x + one.width / 2)) + ACROSS;
  return {left, width: right - left, height, edges};
}

function add(layers, rank, point) {
  while (layers.length <= rank) layers.push([]);
  point.rank = rank;
  layers[rank].push(point);
  return point;
}

/** Reverse post-order, and the edges that lead back, as "from to". */
function depthFirst(nodes) {
  const state = new Uint8Array(nodes.length), order = [], turned = new Set();
  for (let start = 0; start < nodes.length; start++) {
    if (state[start]) continue;
    const open = [[start, 0]];
    state[start] = 1;
    while (open.length > 0) {
      const top = open.at(-1), [at, next] = top, {edges} = nodes[at];
      if (next === edges.length) {
        state[at] = 2;
        order.push(at);
        open.pop();
        continue;
      }
      top[1]++;
      // The last edge is that of the fall-through: it is followed first, and ends up below.
      const {to} = edges[edges.length - 1 - next];
      if (state[to] === 1) turned.add(`${at} ${to}`);
      else if (state[to] === 0) {
        state[to] = 1;
        open.push([to, 0]);
      }
    }
  }
  return {order: order.reverse(), turned};
}

/** The longest way from the top. */
function ranks(nodes, order, turned) {
  const rank = new Int32Array(nodes.length);
  for (const at of order) {
    for (const {to} of nodes[at].edges) {
      if (!turned.has(`${at} ${to}`)) rank[to] = Math.max(rank[to], rank[at] + 1);
    }
  }
  return rank;
}

/** The points that each edge goes through. */
function routed(nodes, rank, turned, points, layers) {
  const all = nodes.flatMap(({edges}, from) => edges.map((edge, number) => {
    const back = turned.has(`${from} ${edge.to}`);
    const length = back ? rank[from] - rank[edge.to] + 1 : rank[edge.to] - rank[from] - 1;
    return {edge, number, from, to: edge.to, back, length};
  }));
  let most = Infinity;
  const lengths = all.map(({length}) => length).sort((a, b) => a - b);
  let bends = lengths.reduce((sum, length) => sum + length, 0);
  while (bends > BENDS) {
    most = lengths.pop();
    bends -= most;
  }
  for (const route of all) {
    const {from, to, back, length} = route;
    route.cut = length >= most;
    route.points = [];
    if (route.cut) continue;
    const first = back ? rank[to] : rank[from] + 1;
    for (let at = first; at < first + length; at++) {
      route.points.push(add(layers, at, {width: BEND, height: 0, up: [], down: []}));
    }
    const chain = back ? route.points : [points[from], ...route.points, points[to]];
    chain.slice(1).forEach((point, index) => {
      chain[index].down.push(point);
      point.up.push(chain[index]);
    });
    if (back) {
      // It stands beside its ends.
      route.points[0].up.push(...points[to].up);
      route.points.at(-1).down.push(...points[from].down);
    }
  }
  all.forEach(route => {
    route.source = points[route.from];
    route.target = points[route.to];
  });
  return all;
}

/** Orders each layer by where its neighbours stand, down and up in turn; keeps the best. */
function arrange(layers) {
  const number = () => layers.forEach(layer => layer.forEach((one, place) => { one.place = place; }));
  number();
  let best = layers.map(layer => [...layer]), fewest = crossings(layers);
  for (let round = 0; round < 12 && fewest > 0; round++) {
    const down = round % 2 === 0, side = down ? "up" : "down";
    for (const layer of down ? layers : [...layers].reverse()) {
      for (const one of layer) {
        const near = one[side];
        one.wish = near.length === 0 ? one.place
          : near.reduce((sum, {place}) => sum + place, 0) / near.length;
      }
      layer.sort((a, b) => a.wish - b.wish || a.place - b.place);
      layer.forEach((one, place) => { one.place = place; });
    }
    const now = crossings(layers);
    if (now < fewest) {
      fewest = now;
      best = layers.map(layer => [...layer]);
    }
  }
  best.forEach((layer, at) => { layers[at] = layer; });
  number();
}

function crossings(layers) {
  let count = 0;
  for (let at = 0; at + 1 < layers.length; at++) {
    const size = layers[at + 1].length, tree = new Int32Array(size + 1);
    let seen = 0;
    for (const one of layers[at]) {
      const ends = one.down.filter(end => end.rank === at + 1).map(({place}) => place);
      for (const end of ends) {
        let before = 0;
        for (let i = end + 1; i > 0; i -= i & -i) before += tree[i];
        count += seen - before;
      }
      for (const end of ends) {
        seen++;
        for (let i = end + 1; i <= size; i += i & -i) tree[i]++;
      }
    }
  }
  return count;
}

/** Puts each near the middle of its neighbours, with the order kept and room between. */
function straighten(layers) {
  for (const layer of layers) {
    let x = 0;
    for (const one of layer) {
      one.x = x + one.width / 2;
      x += one.width + ACROSS;
    }
    layer.forEach(one => { one.x -= x / 2; });
  }
  for (let round = 0; round < 24; round++) {
    const down = round % 2 === 0;
    for (const layer of down ? layers : [...layers].reverse()) {
      spread(layer, layer.map(one => {
        const near = round < 16 ? one[down ? "up" : "down"] : [...one.up, ...one.down];
        return near.length === 0 ? one.x : near.reduce((sum, {x}) => sum + x, 0) / near.length;
      }));
    }
  }
}

/** The positions nearest to those wished for, by the squares: pool adjacent violators. */
function spread(layer, wishes) {
  const offsets = [];
  let offset = 0;
  layer.forEach((one, at) => {
    if (at > 0) offset += (layer[at - 1].width + one.width) / 2 + room(layer[at - 1], one);
    offsets.push(offset);
  });
  const pools = [];
  wishes.forEach((wish, at) => {
    // Long edges give way to blocks.
    const weight = layer[at].block === undefined ? 1 : 6;
    let pool = {sum: (wish - offsets[at]) * weight, weight, count: 1};
    while (pools.length > 0 && pools.at(-1).sum / pools.at(-1).weight >= pool.sum / pool.weight) {
      const before = pools.pop();
      pool = {sum: before.sum + pool.sum, weight: before.weight + pool.weight,
        count: before.count + pool.count};
    }
    pools.push(pool);
  });
  let at = 0;
  for (const {sum, weight, count} of pools) {
    for (let one = 0; one < count; one++, at++) layer[at].x = sum / weight + offsets[at];
  }
}

function room(left, right) {
  return left.block === undefined && right.block === undefined ? 6 : ACROSS;
}

/** The height of each layer, and the room for edges below it. */
function stack(layers) {
  let y = ACROSS;
  for (const layer of layers) {
    const height = Math.max(...layer.map(one => one.height));
    const edges = layer.reduce((sum, one) => sum + one.down.length, 0);
    for (const one of layer) Object.assign(one, {y, bottom: y + one.height, floor: y + height});
    y += height + DOWN + Math.min(edges, 12) * 3;
  }
  return y;
}

/** The edges as paths of SVG. */
function drawn(routes) {
  // Each side of a block shares its width among its edges, from left to right.
  const ports = (side, toward) => {
    const all = new Map();
    for (const route of routes) {
      const point = route[side];
      all.set(point, [...all.get(point) ?? [], route]);
    }
    for (const [point, list] of all) {
      list.sort((a, b) => toward(a).x - toward(b).x || a.number - b.number);
      const step = Math.min(46, point.width / (list.length + 1));
      list.forEach((route, at) => {
        route[`${side}X`] = point.x + (at - (list.length - 1) / 2) * step;
      });
    }
  };
  ports("source", route => (route.back ? route.points.at(-1) : route.points[0]) ?? route.target);
  ports("target", route => (route.back ? route.points[0] : route.points.at(-1)) ?? route.source);
  return routes.map(route => {
    const {source, target, sourceX: x, targetX, back, cut} = route;
    const label = {x: x + 4, y: source.bottom + 14};
    if (cut) {
      const path = `M${n(x)} ${n(source.bottom)}v24`;
      return {...route, path, label, ends: {x, y: source.bottom + 36}};
    }
    let path = `M${n(x)} ${n(source.bottom)}`;
    let [px, py] = [x, source.bottom];
    const curve = (cx, cy) => {
      const half = (cy - py) / 2;
      path += cx === px ? `V${n(cy)}` : `C${n(px)} ${n(py + half)} ${n(cx)} ${n(cy - half)} ${n(cx)} ${n(cy)}`;
      [px, py] = [cx, cy];
    };
    if (back) {
      const up = [...route.points].reverse(), turn = 34;
      const first = up[0], over = up.at(-1);
      path += `V${n(first.floor)}C${n(px)} ${n(first.floor + turn)} ${n(first.x)} ${n(first.floor + turn)} ${n(first.x)} ${n(first.floor)}`;
      [px, py] = [first.x, first.floor];
      for (const point of up) {
        if (point !== first) curve(point.x, point.floor);
        path += `V${n(point.y)}`;
        py = point.y;
      }
      path += `C${n(over.x)} ${n(over.y - turn)} ${n(targetX)} ${n(target.y - turn)} ${n(targetX)} ${n(target.y)}`;
    } else {
      for (const point of route.points) {
        if (py < point.y) {
          if (point === route.points[0]) {
            path += `V${n(source.floor)}`;
            py = source.floor;
          }
          curve(point.x, point.y);
        }
        path += `V${n(point.floor)}`;
        py = point.floor;
      }
      if (route.points.length === 0) {
        path += `V${n(source.floor)}`;
        py = source.floor;
      }
      curve(targetX, target.y);
    }
    return {...route, path, label};
  });
}

function n(number) {
  return Math.round(number * 10) / 10;
}
