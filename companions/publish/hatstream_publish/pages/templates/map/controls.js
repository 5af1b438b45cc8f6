// What people do: time, layers, search, keys, pointers, links and downloads.

function go(slot) {
  state.slot = Math.min(DATA.slots.length - 1, Math.max(0, slot));
  show();
}
function choose(place) {
  state.place = place;
  if (place >= 0) bringIntoView(place);
  show();
}
// Everything that depends on the slot, the place or what is shown.
function show() {
  el("slot").value = state.slot;
  el("slot").setAttribute("aria-valuetext", slotText(state.slot));
  el("when").textContent = slotText(state.slot);
  const kind = kindOfSlot(state.slot);
  el("kind").hidden = !kind;
  el("kind").textContent = t(kind);
  el("printed").textContent = [slotText(state.slot), kind && t(kind)].filter(Boolean).join(", ");
  redraw();
  showEmpty();
  showPanel();
  showTable();
  remember();
}
function showOther() {
  showLegend();
  show();
}
function play() {
  const begins = state.timer === null;
  state.timer = begins ? setInterval(() => go((state.slot + 1) % DATA.slots.length), 900) : clearInterval(state.timer) ?? null;
  el("play").textContent = t(begins ? "Pause" : "Play");
  el("play").setAttribute("aria-pressed", String(begins));
  el("when").setAttribute("aria-live", begins ? "off" : "polite"); // a time each second is no help to the ear
}
function search(text) {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return;
  const texts = DATA.places.id.map((id, place) => [DATA.places.name[place], id, DATA.places.note[place]].map(part => part.toLowerCase()));
  const tests = [part => part === wanted, part => part.startsWith(wanted), part => part.includes(wanted)];
  for (const fits of tests) {
    const place = texts.findIndex(parts => parts.some(fits));
    if (place < 0) continue;
    choose(place);
    return announce(spoken(state.slot, place));
  }
  el("found").textContent = t("No place is called so.");
}
const announce = text => el("live").textContent = text;

function toggleTable() {
  const hidden = el("table").hidden = !el("table").hidden;
  el("as-table").setAttribute("aria-pressed", String(!hidden));
  showTable();
}
function toggleTheme() {
  document.documentElement.dataset.theme = themeName() === "dark" ? "light" : "dark";
  showOther();
}

// --- links: the address says what is shown ---

let remembering = null;
function remember() {
  clearTimeout(remembering);
  remembering = setTimeout(() => {
    const parts = { slot: DATA.slots[state.slot][0], place: state.place >= 0 ? DATA.places.id[state.place] : null, layer: state.layer ? layer().title : null, show: state.show === "value" ? null : state.show };
    if (!isFitted()) parts.at = `${longitude(view.x).toFixed(5)},${latitude(view.y).toFixed(5)},${Math.log2(view.scale).toFixed(2)}`;
    const text = new URLSearchParams(Object.entries(parts).filter(([, value]) => value !== null)).toString();
    history.replaceState(null, "", `#${text}`);
  }, 150);
}
function restore() {
  const asked = new URLSearchParams(location.hash.slice(1));
  const slot = DATA.slots.findIndex(([start]) => start === asked.get("slot")), place = DATA.places.id.indexOf(asked.get("place"));
  state.layer = Math.max(0, DATA.layers.findIndex(of => of.title === asked.get("layer")));
  state.show = SHOWN[asked.get("show")] && (asked.get("show") !== "difference" || isComparable()) ? asked.get("show") : "value";
  state.place = place;
  state.slot = slot >= 0 ? slot : mostKnown();
  const at = (asked.get("at") ?? "").split(",").map(Number);
  if (at.length === 3 && at.every(Number.isFinite)) Object.assign(view, { x: mercatorX(at[0]), y: mercatorY(at[1]), scale: 2 ** at[2] });
  el("layer").value = state.layer;
  el("show").value = state.show;
}
function mostKnown() {
  if (DATA.standing) return DATA.slots.length - 1;
  const counts = sureCounts().map((sure, slot) => kindOfSlot(slot) === "forecast" ? -1 : sure);
  return counts.reduce((best, sure, slot) => sure > counts[best] ? slot : best, 0);
}

// --- downloads ---

const HEAD = ["slot_start", "slot_end", "place", "name", "statistic", "value", "lower95", "upper95", "unit", "status", "value_of"];
function* csvRows(slots) {
  yield HEAD.join(",");
  for (const slot of slots) {
    for (let place = 0; place < places(); place++) {
      const code = codeAt(slot, place);
      if (code !== null) yield Object.values(record(slot, place, code)).map(quoted).join(",");
    }
  }
}
function record(slot, place, code) {
  const bounds = boundsAt(slot, place), [start, end] = DATA.slots[slot], value = valueAt(slot, place), tidy = number => number === null || number === undefined ? null : Number(number.toFixed(1));
  const of = code.about === "area" ? DATA.places.area[place] : code.about || "place";
  return { slot_start: start, slot_end: end, place: DATA.places.id[place], name: DATA.places.name[place], statistic: layer().title, value: tidy(value), lower95: tidy(bounds?.[0]), upper95: tidy(bounds?.[1]), unit: layer().unit, status: code.status, value_of: of };
}
const quoted = value => value === null ? "" : /[",\n]/.test(value) ? `"${String(value).replaceAll('"', '""')}"` : String(value);

function geojson(slot) {
  const { x, y, shapes } = DATA.shapes, features = [];
  for (let place = 0; place < places(); place++) {
    const code = codeAt(slot, place), shape = shapes[place], parts = [];
    if (code === null) continue;
    let start = shape.begins;
    for (const end of shape.ends) {
      parts.push(Array.from({ length: end - start }, (_, at) => [longitude(x[start + at]), latitude(y[start + at])].map(degrees => Number(degrees.toFixed(5)))));
      start = end;
    }
    features.push({ type: "Feature", geometry: { type: shape.isLine ? "MultiLineString" : "Polygon", coordinates: parts }, properties: record(slot, place, code) });
  }
  return JSON.stringify({ type: "FeatureCollection", features });
}
const DOWNLOADS = {
  "csv-slot": () => [[...csvRows([state.slot])].join("\n") + "\n", "text/csv", "csv"],
  "csv-all": () => [[...csvRows(DATA.slots.keys())].join("\n") + "\n", "text/csv", "csv"],
  "geojson": () => [geojson(state.slot), "application/geo+json", "geojson"],
};
function download(kind) {
  const name = `${layer().title}-${kind === "csv-all" ? "all" : DATA.slots[state.slot][0].slice(0, 16).replace(/\D/g, "")}`;
  if (kind === "png") return el("map").toBlob(blob => save(blob, `${name}.png`));
  const [text, type, ending] = DOWNLOADS[kind]();
  save(new Blob([text], { type }), `${name}.${ending}`);
}
function save(blob, name) {
  const link = node("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
