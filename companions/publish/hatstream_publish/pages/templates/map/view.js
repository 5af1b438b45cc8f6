// Where the map is looked at: fitting, moving, zooming, and which place lies under a point.

const view = { x: 0.5, y: 0.5, scale: 1, width: 1, height: 1, fitted: null };
const PADDING = 14, BAR_ROOM_PX = 24, MOST_ZOOM = 2 ** 27; // room for the scale bar under all places

function fit() {
  const box = [Infinity, Infinity, -Infinity, -Infinity];
  for (const shape of DATA.shapes.shapes) {
    for (const at of [0, 1]) box[at] = Math.min(box[at], shape.box[at]);
    for (const at of [2, 3]) box[at] = Math.max(box[at], shape.box[at]);
  }
  const wide = Math.max(box[2] - box[0], 1e-7), high = Math.max(box[3] - box[1], 1e-7);
  view.x = (box[0] + box[2]) / 2;
  const room = size => Math.max(size - 2 * PADDING, 1); // a window may be next to nothing for a moment
  view.scale = Math.min(room(view.width) / wide, room(view.height - BAR_ROOM_PX) / high);
  view.y = (box[1] + box[3]) / 2 + BAR_ROOM_PX / 2 / view.scale;
  view.fitted = view.scale;
}
const screenX = x => (x - view.x) * view.scale + view.width / 2;
const screenY = y => (y - view.y) * view.scale + view.height / 2;
const worldX = left => (left - view.width / 2) / view.scale + view.x;
const worldY = top => (top - view.height / 2) / view.scale + view.y;
const isFitted = () => view.fitted !== null && view.scale <= view.fitted * 1.001;

function zoom(factor, left = view.width / 2, top = view.height / 2) {
  const x = worldX(left), y = worldY(top);
  view.scale = Math.min(MOST_ZOOM, Math.max(view.fitted / 4, view.scale * factor));
  view.x = x - (left - view.width / 2) / view.scale;
  view.y = y - (top - view.height / 2) / view.scale;
  moved();
}
function pan(right, down) {
  view.x -= right / view.scale;
  view.y -= down / view.scale;
  moved();
}
function moved() {
  el("map").style.touchAction = isFitted() ? "pan-y" : "none"; // a finger scrolls the page until the map is zoomed
  redraw();
  remember();
}
function bringIntoView(place) {
  const [left, top, right, bottom] = DATA.shapes.shapes[place].box;
  const x = (left + right) / 2, y = (top + bottom) / 2, margin = 40;
  const inside = screenX(x) > margin && screenX(x) < view.width - margin && screenY(y) > margin && screenY(y) < view.height - margin;
  if (!inside) {
    view.x = x;
    view.y = y;
    moved();
  }
}

// --- which place ---

const NEAR_LINE_PX = 9;

function placeAt(left, top) {
  const x = worldX(left), y = worldY(top), near = NEAR_LINE_PX / view.scale;
  let best = -1, least = near * near;
  for (let place = 0; place < places(); place++) {
    const shape = DATA.shapes.shapes[place], box = shape.box;
    if (x < box[0] - near || x > box[2] + near || y < box[1] - near || y > box[3] + near) continue;
    if (shape.isLine) {
      const distance = squaredDistance(shape, x, y);
      if (distance < least) [best, least] = [place, distance];
    } else if (best < 0 && contains(shape, x, y)) best = place;
  }
  return best;
}
function contains(shape, x, y) {
  const { x: xs, y: ys } = DATA.shapes;
  let inside = false, start = shape.begins;
  for (const end of shape.ends) {
    for (let at = start, before = end - 1; at < end; before = at++) {
      if (ys[at] > y !== ys[before] > y && x < (xs[before] - xs[at]) * (y - ys[at]) / (ys[before] - ys[at]) + xs[at]) inside = !inside;
    }
    start = end;
  }
  return inside;
}
function squaredDistance(shape, x, y) {
  const { x: xs, y: ys } = DATA.shapes;
  let least = Infinity, start = shape.begins;
  for (const end of shape.ends) {
    for (let at = start + 1; at < end; at++) {
      const dx = xs[at] - xs[at - 1], dy = ys[at] - ys[at - 1], length = dx * dx + dy * dy;
      const part = length ? Math.max(0, Math.min(1, ((x - xs[at - 1]) * dx + (y - ys[at - 1]) * dy) / length)) : 0;
      least = Math.min(least, (xs[at - 1] + part * dx - x) ** 2 + (ys[at - 1] + part * dy - y) ** 2);
    }
    start = end;
  }
  return least;
}
const middle = place => {
  const box = DATA.shapes.shapes[place].box;
  return [(box[0] + box[2]) / 2, (box[1] + box[3]) / 2];
};

// The nearest place in a direction, within 50 degrees of it; -1 where there is none.
function neighbour(place, right, down) {
  const [x, y] = middle(place);
  let best = -1, least = Infinity;
  for (let other = 0; other < places(); other++) {
    const [dx, dy] = [middle(other)[0] - x, middle(other)[1] - y], along = dx * right + dy * down;
    const distance = Math.hypot(dx, dy);
    if (other === place || along < distance * 0.64 || distance === 0) continue;
    if (distance < least) [best, least] = [other, distance];
  }
  return best;
}
function nearestToMiddle() {
  let best = 0, least = Infinity;
  for (let place = 0; place < places(); place++) {
    const [x, y] = middle(place), distance = Math.hypot(x - view.x, y - view.y);
    if (distance < least && drawnAs(state.slot, place) !== "none") [best, least] = [place, distance];
  }
  return best;
}
