// Pointers and keys.

const pointers = new Map();
let travelled = 0;

function listenToPointers(canvas) {
  canvas.addEventListener("pointerdown", event => {
    canvas.setPointerCapture(event.pointerId);
    pointers.set(event.pointerId, [event.offsetX, event.offsetY]);
    if (pointers.size === 1) travelled = 0;
  });
  canvas.addEventListener("pointermove", event => pointers.has(event.pointerId) ? dragged(event) : hovered(event));
  canvas.addEventListener("pointerup", event => {
    const tapped = pointers.size === 1 && travelled < 6;
    pointers.delete(event.pointerId);
    if (tapped) clicked(event);
  });
  canvas.addEventListener("pointercancel", event => pointers.delete(event.pointerId));
  canvas.addEventListener("pointerleave", () => hover(-1));
  canvas.addEventListener("wheel", event => {
    event.preventDefault();
    zoom(2 ** (-event.deltaY / (event.deltaMode ? 8 : 240)), event.offsetX, event.offsetY);
  }, { passive: false });
  canvas.addEventListener("dblclick", event => zoom(2, event.offsetX, event.offsetY));
}
function dragged(event) {
  const [left, top] = pointers.get(event.pointerId), others = [...pointers].filter(([id]) => id !== event.pointerId).map(([, point]) => point);
  const now = [event.offsetX, event.offsetY];
  travelled += Math.hypot(now[0] - left, now[1] - top);
  pointers.set(event.pointerId, now);
  if (others.length === 0 && travelled >= 6) pan(now[0] - left, now[1] - top);
  if (others.length === 1) {
    const [other] = others, before = Math.hypot(left - other[0], top - other[1]), after = Math.hypot(now[0] - other[0], now[1] - other[1]);
    if (before > 0) zoom(after / before, (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
  }
}
function hovered(event) {
  hover(placeAt(event.offsetX, event.offsetY), event.offsetX, event.offsetY);
}
function hover(place, left = 0, top = 0) {
  const tip = el("tip"), width = view.width;
  tip.hidden = place < 0;
  el("map").style.cursor = place < 0 ? "grab" : "pointer";
  if (place >= 0) {
    tip.textContent = spoken(state.slot, place);
    tip.style.transform = `translate(${Math.round(Math.min(left + 14, width - tip.offsetWidth - 6))}px, ${Math.round(top + 16)}px)`;
  }
  if (place !== state.hover) {
    state.hover = place;
    redraw();
  }
}
function clicked(event) {
  choose(placeAt(event.offsetX, event.offsetY));
  hover(-1);
  if (state.place >= 0) keepAbovePanel(event.clientY);
}
// On a phone the panel of a place lies over the lower part of the page; the map moves up where it would hide the place.
function keepAbovePanel(tapped) {
  const panel = el("panel"), hidden = tapped - panel.getBoundingClientRect().top + 40;
  if (getComputedStyle(panel).position === "fixed" && hidden > 0) pan(0, -hidden);
}

// --- keys ---

const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const MAP_KEYS = { "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: () => (fit(), moved()), PageUp: () => goAndSay(state.slot - 1), PageDown: () => goAndSay(state.slot + 1), Escape: () => choose(-1) };

function goAndSay(slot) {
  go(slot);
  const place = state.hover >= 0 ? state.hover : state.place;
  if (place >= 0) announce(spoken(state.slot, place));
}
// On the map arrows go from place to place; the place is marked, spoken, and opened by Enter.
function mapKey(event) {
  const arrow = ARROWS[event.key], act = MAP_KEYS[event.key];
  if (arrow) {
    const from = state.hover >= 0 ? state.hover : state.place, next = from < 0 ? nearestToMiddle() : neighbour(from, ...arrow);
    if (next >= 0) {
      state.hover = next;
      bringIntoView(next);
      redraw();
      announce(spoken(state.slot, next));
    }
  } else if ((event.key === "Enter" || event.key === " ") && state.hover >= 0) {
    choose(state.hover);
    announce(`${spoken(state.slot, state.place)}. ${intervalText(state.slot, state.place)}. ${statusText(state.slot, state.place)}`);
  } else if (act) act();
  else return;
  event.preventDefault();
  event.stopPropagation();
}
// Elsewhere left and right change the time.
function pageKey(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!step || event.altKey || event.ctrlKey || event.metaKey || ["INPUT", "SELECT", "TEXTAREA"].includes(event.target.tagName)) return;
  event.preventDefault();
  go(state.slot + step);
}
