// The map itself: everything of one frame, on one canvas.

const OPACITY = { known: 0.93, area: 0.93, day: 0.32, forecast: 0.8, unknown: 0.38, within: 0.7 };
let frame = null;

function redraw() {
  frame ??= requestAnimationFrame(() => {
    frame = null;
    drawNow();
  });
}
function drawNow() {
  const canvas = el("map"), pen = canvas.getContext("2d"), dense = devicePixelRatio || 1;
  const { width, height } = canvas.getBoundingClientRect();
  if (!width) return;
  if (view.width !== width || view.height !== height || canvas.width !== Math.round(width * dense)) {
    const wasFitted = view.fitted === null || isFitted();
    Object.assign(view, { width, height });
    canvas.width = Math.round(width * dense);
    canvas.height = Math.round(height * dense);
    if (wasFitted) fit();
  }
  pen.setTransform(dense, 0, 0, dense, 0, 0);
  pen.fillStyle = paper().ground;
  pen.fillRect(0, 0, width, height);
  drawTiles(pen);
  drawPlaces(pen);
  drawGroundAreas(pen);
  drawGroundLines(pen);
  drawNames(pen);
  drawMarks(pen);
  drawScaleBar(pen);
}

// --- places ---

function drawPlaces(pen) {
  const buckets = new Map(), lines = new Map(), empty = [];
  for (let place = 0; place < places(); place++) {
    if (isOutside(DATA.shapes.shapes[place].box)) continue;
    const number = shownAt(state.slot, place), drawn = drawnAs(state.slot, place);
    if (number === null || drawn === "none") {
      empty.push(place);
      continue;
    }
    const into = DATA.shapes.shapes[place].isLine ? lines : buckets;
    const key = `${patternKind(place, drawn)} ${colourStep(number)}`;
    if (!into.has(key)) into.set(key, []);
    into.get(key).push(place);
  }
  for (const [key, members] of buckets) fillAreas(pen, members, ...key.split(" "));
  outline(pen, [...buckets.values()].flat(), empty);
  for (const [key, members] of lines) strokeLines(pen, members, ...key.split(" "));
}
const isOutside = box => screenX(box[2]) < 0 || screenX(box[0]) > view.width || screenY(box[3]) < 0 || screenY(box[1]) > view.height;

// What is drawn over a colour: of a difference only what is beyond noise is plain.
function patternKind(place, drawn) {
  if (state.show === "difference") return isBeyondNoise(state.slot, place) ? "known" : "within";
  return state.show === "uncertainty" ? "known" : drawn;
}
function fillAreas(pen, members, drawn, step) {
  pen.globalAlpha = OPACITY[drawn] * (PAGE.tiles ? 0.8 : 1);
  pen.fillStyle = colourTable()[step];
  trace(pen, members);
  pen.fill("evenodd");
  pen.globalAlpha = 1;
  if (drawn === "unknown" || drawn === "area" || drawn === "within") {
    pen.fillStyle = patternOf(pen, drawn === "area" ? "dots" : "stripes");
    pen.fill("evenodd");
  }
}
function outline(pen, filled, empty) {
  pen.lineWidth = 1;
  const isForecast = kindOfSlot(state.slot) === "forecast";
  pen.setLineDash(isForecast ? [4, 3] : []);
  pen.strokeStyle = isForecast ? paper().soft : paper().line;
  trace(pen, filled);
  pen.stroke();
  pen.setLineDash([2, 3]);
  pen.strokeStyle = paper().none;
  trace(pen, empty);
  pen.stroke();
  pen.setLineDash([]);
}
function trace(pen, members) {
  pen.beginPath();
  for (const place of members) addPath(pen, DATA.shapes, DATA.shapes.shapes[place]);
}
function addPath(pen, { x, y }, shape) {
  let start = shape.begins;
  for (const end of shape.ends) {
    pen.moveTo(screenX(x[start]), screenY(y[start]));
    for (let at = start + 1; at < end; at++) pen.lineTo(screenX(x[at]), screenY(y[at]));
    start = end;
  }
}

// --- streets ---

const lineWidth = () => Math.min(10, Math.max(3, 3 + 1.3 * Math.log2(view.scale / view.fitted)));

function strokeLines(pen, members, drawn, step) {
  pen.lineWidth = lineWidth();
  pen.lineCap = pen.lineJoin = "round";
  pen.strokeStyle = colourTable()[step];
  pen.globalAlpha = drawn === "unknown" ? 0.55 : 1;
  if (drawn === "day") pen.globalAlpha = 0.45;
  if (drawn === "unknown") pen.setLineDash([2, lineWidth() * 1.8]);
  if (drawn === "area") pen.setLineDash([lineWidth() * 3, lineWidth() * 1.4]);
  pen.beginPath();
  for (const place of members) addBeside(pen, DATA.shapes, DATA.shapes.shapes[place], lineWidth() * 0.6);
  pen.stroke();
  pen.setLineDash([]);
  pen.globalAlpha = 1;
}
// A line a little to the right of its own course, so that the two directions of a street lie side by side.
function addBeside(pen, { x, y }, shape, aside) {
  let start = shape.begins;
  for (const end of shape.ends) {
    for (let at = start; at < end; at++) {
      const before = Math.max(start, at - 1), after = Math.min(end - 1, at + 1);
      const dx = x[after] - x[before], dy = y[after] - y[before], length = Math.hypot(dx, dy) || 1;
      const left = screenX(x[at]) - aside * dy / length, top = screenY(y[at]) + aside * dx / length;
      if (at === start) pen.moveTo(left, top);
      else pen.lineTo(left, top);
    }
    start = end;
  }
}

// --- what lies under, over and around ---

// Water and parks lie over the places, half transparent: nothing drives there, and they orient.
function drawGroundAreas(pen) {
  pen.globalAlpha = 0.6;
  DATA.groundShapes.shapes.forEach((shape, at) => {
    if (shape.isLine || isOutside(shape.box)) return;
    const [, colour, kind] = DATA.ground[at];
    pen.fillStyle = colour || (paper()[kind] ?? paper().built);
    pen.beginPath();
    addPath(pen, DATA.groundShapes, shape);
    pen.fill("evenodd");
  });
  pen.globalAlpha = 1;
}
function drawGroundLines(pen) {
  pen.lineJoin = "round";
  for (const isLine of [true, false]) {
    pen.lineWidth = isLine ? 1.3 : 0.8;
    pen.strokeStyle = paper().route;
    pen.beginPath();
    for (const shape of DATA.groundShapes.shapes) if (shape.isLine === isLine && !isOutside(shape.box)) addPath(pen, DATA.groundShapes, shape);
    pen.stroke();
  }
}
function drawNames(pen) {
  for (const { lines, centre, left, top, half } of placedNames(pen)) {
    if (Math.abs(top - centre[1]) > half[1] || Math.abs(left - centre[0]) > half[0]) drawPointer(pen, centre, [left, top]);
    lines.forEach((line, at) => writeLine(pen, line, left, top + (at - (lines.length - 1) / 2) * 15));
  }
}
// Names that have room, the busiest places' first: these stand beside their place if not on it. On a phone two do, cut to a line, for five would cover it.
function placedNames(pen) {
  pen.font = "600 12px system-ui, sans-serif";
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  const names = [], busiest = DATA.places.busiest.slice(0, Math.floor(view.width / NAME_ROOM_PX)), most = view.width < SMALL_MAP_PX ? 1 : 2;
  for (const place of new Set([...busiest, ...DATA.places.id.keys()])) {
    const { box, isLine } = DATA.shapes.shapes[place], name = DATA.places.name[place];
    if (!name || isLine || isOutside(box)) continue;
    const wide = (box[2] - box[0]) * view.scale - 8, isBusy = busiest.includes(place);
    if (wide < 140 && !isBusy) continue;
    const lines = brokenText(pen, name, Math.max(wide, NAME_PX), isBusy ? most : Infinity), centre = [screenX((box[0] + box[2]) / 2), screenY((box[1] + box[3]) / 2)];
    const half = [Math.max(...lines.map(line => pen.measureText(line).width)) / 2 + 5, lines.length * 7.5 + 2];
    const isFree = ([left, top]) => !names.some(other => Math.abs(other.left - left) < other.half[0] + half[0] && Math.abs(other.top - top) < other.half[1] + half[1]);
    const spots = isBusy ? SPOTS.map(([x, y]) => inView([centre[0] + x * half[0], centre[1] + y * half[1]], half)) : [centre];
    const spot = spots.find(isFree) ?? (isBusy ? spots[0] : null);
    if (spot) names.push({ lines, centre, left: spot[0], top: spot[1], half });
  }
  return names;
}
const NAME_PX = 130, NAME_ROOM_PX = 170, SMALL_MAP_PX = 600;
// Where a busy place's name may stand, the best first, in half sizes of it from the place.
const SPOTS = [[0, 0], [0, 1.6], [0, -1.6], [1.3, 0], [-1.3, 0], [1.1, 1.6], [-1.1, 1.6], [1.1, -1.6], [-1.1, -1.6], [0, 3.4], [0, -3.4], [1.1, 3.4], [-1.1, 3.4], [1.1, -3.4], [-1.1, -3.4], [0, 5.2], [0, -5.2]];
function inView([left, top], half) {
  return [Math.min(Math.max(left, half[0]), view.width - half[0]), Math.min(Math.max(top, half[1]), view.height - half[1])];
}
function drawPointer(pen, place, name) {
  pen.strokeStyle = paper().ink;
  pen.lineWidth = 1;
  pen.beginPath();
  pen.moveTo(...place);
  pen.lineTo(...name);
  pen.stroke();
}
// A round length at the middle of the map: 1, 2 or 5 times a power of ten, in metres or kilometres.
const EQUATOR_M = 40_075_017, MOST_BAR_PX = 110;
function scaleBar() {
  const metresPerPixel = EQUATOR_M * Math.cos(latitude(view.y) * Math.PI / 180) / view.scale, most = MOST_BAR_PX * metresPerPixel;
  const power = 10 ** Math.floor(Math.log10(most)), metres = [5, 2, 1].map(times => times * power).find(length => length <= most);
  return { width: metres / metresPerPixel, text: metres >= 1_000 ? `${metres / 1_000} km` : `${metres} m` };
}
function drawScaleBar(pen) {
  const { width, text } = scaleBar(), left = 12, bottom = view.height - 12;
  pen.font = "12px system-ui, sans-serif";
  pen.fillStyle = paper().plate;
  pen.fillRect(left - 5, bottom - 21, Math.max(width, pen.measureText(text).width) + 10, 26);
  pen.fillStyle = pen.strokeStyle = paper().ink;
  pen.textAlign = "left";
  pen.textBaseline = "alphabetic";
  pen.fillText(text, left, bottom - 6);
  pen.lineWidth = 1.5;
  pen.beginPath();
  pen.moveTo(left, bottom - 4);
  pen.lineTo(left, bottom);
  pen.lineTo(left + width, bottom);
  pen.lineTo(left + width, bottom - 4);
  pen.stroke();
}
function brokenText(pen, text, wide, most) {
  const lines = [], fits = line => pen.measureText(line).width <= wide;
  for (const word of text.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && (lines.length === most || fits(longer))) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines.map(line => {
    let end = line.length;
    while (lines.length === most && end > 1 && !fits(line.slice(0, end))) end--;
    return end < line.length ? `${line.slice(0, end - 1).trimEnd()}…` : line;
  });
}
// A line of text in a thin rim of paper, which hides less of the map than a plate.
function writeLine(pen, text, left, top) {
  pen.lineJoin = "round";
  pen.lineWidth = 3.5;
  pen.strokeStyle = paper().plate;
  pen.strokeText(text, left, top);
  pen.fillStyle = paper().ink;
  pen.fillText(text, left, top);
}
function drawMarks(pen) {
  for (const [place, width] of [[state.hover, 2], [state.place, 3.5]]) {
    if (place < 0) continue;
    const shape = DATA.shapes.shapes[place];
    pen.beginPath();
    if (shape.isLine) addBeside(pen, DATA.shapes, shape, lineWidth() * 0.6);
    else addPath(pen, DATA.shapes, shape);
    pen.lineWidth = shape.isLine ? lineWidth() + 2 * width : width;
    pen.strokeStyle = paper().mark;
    pen.globalAlpha = shape.isLine ? 0.5 : 1;
    pen.stroke();
    pen.globalAlpha = 1;
  }
}

// --- tiles, where the page may load them ---

const TILE_PX = 256, MOST_TILES = 400, loadedTiles = new Map();

function drawTiles(pen) {
  if (!PAGE.tiles) return;
  const level = Math.max(0, Math.min(19, Math.round(Math.log2(view.scale / TILE_PX)))), many = 2 ** level, size = view.scale / many;
  const [west, east] = [worldX(0), worldX(view.width)].map(x => Math.floor(x * many));
  const [north, south] = [worldY(0), worldY(view.height)].map(y => Math.floor(y * many));
  for (let column = west; column <= east; column++) {
    for (let row = Math.max(0, north); row <= Math.min(many - 1, south); row++) {
      const image = tile(level, ((column % many) + many) % many, row);
      if (image.complete && image.naturalWidth) pen.drawImage(image, screenX(column / many), screenY(row / many), size + 0.5, size + 0.5);
    }
  }
}
function tile(level, column, row) {
  const address = PAGE.tiles.replace("{z}", level).replace("{x}", column).replace("{y}", row);
  if (!loadedTiles.has(address)) {
    if (loadedTiles.size > MOST_TILES) loadedTiles.delete(loadedTiles.keys().next().value);
    const image = new Image();
    image.onload = redraw;
    image.src = address;
    loadedTiles.set(address, image);
  }
  return loadedTiles.get(address);
}
