// Begins: reads the data, fills the controls, draws once, and follows its folder where that grows.

const el = id => document.getElementById(id);
const PAGE = JSON.parse(el("page").textContent);

async function ownData() {
  const packed = Uint8Array.from(atob(el("data").textContent), letter => letter.charCodeAt(0));
  return unpacked(new Blob([packed]).stream());
}
const STANDING_WORDS = { "csv-slot": "CSV of this map", "csv-all": "CSV of the maps of all days", geojson: "GeoJSON of this map" };
function fillControls() {
  el("slot").max = DATA.slots.length - 1;
  el("layer").replaceChildren(...DATA.layers.map((of, at) => new Option(t(of.title), at)));
  el("layer").closest("label").hidden = DATA.layers.length < 2;
  const difference = el("show").querySelector("[value=difference]");
  difference.disabled = !isComparable();
  difference.textContent = t(isComparable() ? "Difference to usual" : DATA.standing ? "Difference to usual (this is the usual)" : "Difference to usual (needs three days)");
  for (const [kind, words] of Object.entries(DATA.standing ? STANDING_WORDS : {})) document.querySelector(`[data-download=${kind}]`).textContent = t(words);
  const named = DATA.places.id.map((_, place) => nameOf(place));
  el("names").replaceChildren(...[...new Set(named)].sort().map(name => new Option(name)));
}
function listen() {
  el("slot").oninput = () => go(Number(el("slot").value));
  el("earlier").onclick = () => go(state.slot - 1);
  el("later").onclick = () => go(state.slot + 1);
  el("play").onclick = play;
  el("layer").onchange = () => { state.layer = Number(el("layer").value); showOther(); };
  el("show").onchange = () => { state.show = el("show").value; showOther(); };
  el("search").oninput = event => { el("found").textContent = ""; if (event.inputType === undefined || event.inputType === "insertReplacementText") search(el("search").value); };
  el("search-form").onsubmit = event => { event.preventDefault(); search(el("search").value); };
  el("as-table").onclick = toggleTable;
  el("theme").onclick = toggleTheme;
  el("nearer").onclick = () => zoom(1.6);
  el("farther").onclick = () => zoom(1 / 1.6);
  el("whole").onclick = () => { fit(); moved(); };
  document.querySelectorAll("[data-download]").forEach(button => button.onclick = () => download(button.dataset.download));
  el("map").addEventListener("keydown", mapKey);
  document.addEventListener("keydown", pageKey);
  listenToPointers(el("map"));
  new ResizeObserver(drawNow).observe(el("map"));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showOther);
  addEventListener("hashchange", () => { restore(); showOther(); });
  const shown = theme => { document.documentElement.dataset.theme = theme; showLegend(); drawNow(); };
  let chosen = "";
  addEventListener("beforeprint", () => { chosen = document.documentElement.dataset.theme ?? ""; shown("light"); });
  addEventListener("afterprint", () => shown(chosen));
}

// --- a page that follows its folder ---

let lastData = null, polling;

async function asked(address, cache = "no-cache") {
  const answer = await fetch(address, { cache });
  if (!answer.ok) throw new Error(`the server says ${answer.status}`);
  return answer;
}
async function fetched() {
  const latest = await (await asked(PAGE.source, "no-store")).json();  // a server tells changes apart by the second
  if (latest.map === lastData) return null;
  const data = await unpacked((await asked(latest.map)).body);
  lastData = latest.map;
  return data;
}
async function follow() {
  try {
    const data = await fetched();
    el("stale").hidden = true;
    if (data !== null) replaceData(data);
  } catch {
    el("stale").hidden = false;
  }
  polling = setTimeout(follow, PAGE.followMs);
}
function replaceData(data) {
  const atEnd = state.slot === DATA.slots.length - 1, start = DATA.slots[state.slot][0], place = state.place < 0 ? null : DATA.places.id[state.place];
  DATA = data;
  fillControls();
  const same = DATA.slots.findIndex(slot => slot[0] === start);
  state.slot = atEnd || same < 0 ? DATA.slots.length - 1 : same;
  state.place = DATA.places.id.indexOf(place);
  state.hover = -1;
  showOther();
}

// A page may be opened before anything is published.
async function firstData() {
  for (;;) {
    try {
      return await fetched();
    } catch {
      el("empty").textContent = t("Nothing is published yet, or the server does not answer. This page asks again by itself.");
      el("empty").hidden = false;
      await new Promise(resolve => setTimeout(resolve, PAGE.followMs));
    }
  }
}
async function begin() {
  DATA = PAGE.source ? await firstData() : await ownData();
  fillControls();
  const rect = el("map").getBoundingClientRect();
  Object.assign(view, { width: rect.width, height: rect.height });
  fit();
  restore();
  if (PAGE.source && !location.hash) state.slot = DATA.slots.length - 1;
  listen();
  showOther();
  drawNow();
  if (state.place >= 0) keepAbovePanel(el("map").getBoundingClientRect().top + screenY(middle(state.place)[1]));
  if (PAGE.source) polling = setTimeout(follow, PAGE.followMs);
  performance.mark("drawn");
  document.body.dataset.ready = "yes";
}
begin();
