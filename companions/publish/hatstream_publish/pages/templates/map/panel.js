// Words beside the map: what is known of the chosen place, a table of all, and a legend.

function node(name, attributes = {}, ...inner) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "text") made.textContent = value;
    else if (key === "onclick") made.onclick = value;
    else if (value !== false) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...inner.filter(Boolean));
  return made;
}

// Why a value may be used, or not. PAGE.says: what each status means, in words.
function statusText(slot, place) {
  const code = codeAt(slot, place), drawn = drawnAs(slot, place);
  if (code === null) return t(DATA.standing ? "There is no row of this place on this map." : "There is no row of this place in this slot.");
  if (drawn === "none") return t(PAGE.says[code.status] ?? code.status);
  if (drawn === "day") return t("This time is not known by itself: what is shown is the value of the place's whole day.");
  if (drawn === "area") return t("The place is not known by itself: this is the value of the area of several places around it ({}).", DATA.places.area[place]);
  if (drawn === "unknown" && code.drawn !== "unknown") return t("The interval is wider than {} {} to either side.", DATA.wide, layer().unit);
  return t(PAGE.says[code.status] ?? code.status);
}
function intervalText(slot, place) {
  const bounds = boundsAt(slot, place);
  return bounds ? t("95 % interval: {} to {} {}", ...bounds.map(number => numberText(number)), layer().unit) : "";
}
function differenceText(slot, place) {
  const difference = differenceAt(slot, place);
  if (difference === null) return "";
  const text = isBeyondNoise(slot, place) ? "{} {} to the usual {}: beyond what noise explains" : "{} {} to the usual {}: no more than noise explains";
  return t(text, numberText(difference, true), layer().unit, numberText(usualAt(slot, place)));
}
function vehiclesText(slot, place) {
  const vehicles = DATA.vehicles?.[spot(slot, place)];
  return vehicles ? t("At least {} vehicles were there on the days that this rests on (95 %, for all places together).", vehicles) : "";
}
// One line for the ear and for the pointer.
function spoken(slot, place) {
  const value = valueAt(slot, place), drawn = drawnAs(slot, place);
  if (value === null || drawn === "none") return t("{}: no value", nameOf(place));
  const how = { known: "", area: ", of the area around it", day: ", of its whole day", forecast: ", forecast", unknown: ", not reliable" }[drawn];
  return `${nameOf(place)}: ${numberText(value)} ${layer().unit}${t(how)}`;
}

function showPanel() {
  const panel = el("panel");
  panel.classList.toggle("chosen", state.place >= 0);
  if (state.place < 0) return panel.replaceChildren(...overview());
  const place = state.place, slot = state.slot, value = valueAt(slot, place), drawn = drawnAs(slot, place);
  const doubtful = drawn === "unknown" || drawn === "none", code = codeAt(slot, place);
  panel.replaceChildren(...[
    node("button", { id: "close", class: "quiet", "aria-label": t("Close this place"), text: "×", onclick: close }),
    node("h2", { text: nameOf(place) }),
    node("p", { class: "soft", text: [DATA.places.id[place] !== nameOf(place) && DATA.places.id[place], DATA.places.note[place]].filter(Boolean).join(" · ") }),
    node("p", { id: "p-when" }, slotText(slot), kindOfSlot(slot) && node("span", { class: "chip", text: t(kindOfSlot(slot)) })),
    node("p", {}, node("span", { id: "p-value", class: doubtful ? "big doubtful" : "big", text: value === null || drawn === "none" ? t("no value") : `${numberText(value)} ${layer().unit}` })),
    node("p", { id: "p-interval", text: drawn === "none" ? "" : intervalText(slot, place) }),
    node("p", { id: "p-difference", text: differenceText(slot, place) }),
    node("p", { id: "p-status", text: statusText(slot, place) }),
    vehiclesText(slot, place) && node("p", { id: "p-vehicles", text: vehiclesText(slot, place) }),
    drawn === "unknown" && node("p", { id: "p-warn", class: "warn", text: t("Not reliable: too little is known here, do not act on it.") }),
    !DATA.standing && node("h3", { text: dateText(dateOf(slot)) }), !DATA.standing && dayChart(place),
    node("h3", { text: t(DATA.standing ? "How it was known day by day" : "Days and times") }), weekGrid(fieldOfPlace(place)),
    ...weekdayCharts(place),
    node("p", { class: "soft", text: code ? t("Released by {}.", code.mechanism) : "" }),
  ].filter(Boolean));
}
function close() {
  choose(-1);
  el("map").focus();
}
function overview() {
  const counts = { known: 0, area: 0, day: 0, forecast: 0, unknown: 0, none: 0 };
  for (let place = 0; place < places(); place++) counts[drawnAs(state.slot, place)] += 1;
  const said = [["known", "{} known by themselves"], ["area", "{} known by the area around them"], ["day", "{} known by their whole day alone"], ["forecast", "{} forecast"], ["unknown", "{} not reliable"], ["none", "{} without a value"]];
  return [
    node("h2", { class: "hint", text: t("Choose a place") }),
    node("p", { class: "hint", text: t("Click one, search for one, or press Tab until the map has the focus and then the arrow keys and Enter. Page Up and Page Down change the time.") }),
    node("p", { class: "soft", text: t(DATA.standing ? "Of {} places on this map:" : "Of {} places in this slot:", places().toLocaleString(LANGUAGE)) }),
    node("ul", {}, ...said.filter(([key]) => counts[key]).map(([key, words]) => node("li", { text: t(words, counts[key].toLocaleString(LANGUAGE)) }))),
    node("h3", { text: t("How much is known when") }), weekGrid(fieldOfAll),
  ];
}

// Why nothing can be seen, and what to do.
function showEmpty() {
  const codes = new Map();
  let seen = 0;
  for (let place = 0; place < places(); place++) {
    if (drawnAs(state.slot, place) !== "none") seen += 1;
    const code = codeAt(state.slot, place);
    if (code !== null) codes.set(code.status, (codes.get(code.status) ?? 0) + 1);
  }
  const [status] = [...codes].sort((a, b) => b[1] - a[1])[0] ?? [null];
  const why = seen ? "" : [DATA.standing ? "No value is published on this map." : "No value is published in this slot.", PAGE.says[status] ?? "", PAGE.advice[status] ?? ""].map(text => t(text)).join(" ");
  el("empty").textContent = why || noUsualText();
  el("empty").hidden = el("empty").textContent === "";
}

function noUsualText() {
  if (state.show !== "difference") return "";
  for (let place = 0; place < places(); place++) if (differenceAt(state.slot, place) !== null) return "";
  return t('Nothing to compare with: the usual needs {} other days of which this time is known. "Show" has the values.', FEWEST_DAYS);
}

// --- legend ---

const DRAWN_BY = { dots: "area", pale: "day", dashes: "forecast" };

function showLegend() {
  const [least, most] = range(), signed = state.show === "difference";
  el("scale").style.background = `linear-gradient(90deg, ${colourTable().join(",")})`;
  const ends = [least, (least + most) / 2, most].map(number => numberText(number, signed).replace(/[.,]0$/, ""));
  el("ends").replaceChildren(...ends.map(text => node("span", { text })));
  el("legend-title").textContent = `${SHOWN[state.show].title()}, ${layer().unit}`;
  const areLines = DATA.shapes.shapes.length > 0 && DATA.shapes.shapes.every(shape => shape.isLine);
  const kinds = { value: [["plain", "known"], ["dots", "known by the area"], ["pale", "by the whole day"], ["stripes", "not reliable"], ["dashes", "forecast"]], difference: [["plain", "beyond noise"], ["stripes", "within noise"]], uncertainty: [["plain", "the lighter the surer"]] }[state.show];
  if (state.show === "difference" || (layer().hasGaps ??= layer().value.includes(NONE))) kinds.push(["gap", state.show === "difference" ? "nothing to compare with" : "no value"]);
  el("kinds").classList.toggle("lines", areLines);
  el("kinds").replaceChildren(...kinds.filter(([kind]) => !DRAWN_BY[kind] || DATA.codes.some(code => code.drawn === DRAWN_BY[kind])).map(([kind, text]) => node("li", {}, node("span", { class: `key ${kind}`, "aria-hidden": "true" }), t(text))));
  const middle = colourTable()[Math.floor(STEPS * 0.7)];
  document.querySelectorAll(".key").forEach(key => key.style.setProperty("--of", middle));
}

// --- table ---

let tableOrder = ["name", 1];
const COLUMNS = {
  name: ["Place", place => nameOf(place)],
  value: [() => SHOWN.value.title(), place => drawnAs(state.slot, place) === "none" ? null : valueAt(state.slot, place)],
  half: ["Interval", place => halfAt(state.slot, place)],
  difference: ["To the usual", place => differenceAt(state.slot, place)],
  known: ["How it is known", place => KNOWN_WORDS[drawnAs(state.slot, place)]],
};
const KNOWN_WORDS = { known: "by itself", area: "by the area", day: "by its whole day", forecast: "forecast", unknown: "not reliable", none: "no value" };

function showTable() {
  if (el("table").hidden) return;
  const [by, sign] = tableOrder, key = COLUMNS[by][1], rows = DATA.places.id.map((_, place) => place);
  rows.sort((a, b) => compare(key(a), key(b)) * sign);
  const heads = Object.entries(COLUMNS).map(([name, [title]]) => node("th", { scope: "col", "aria-sort": name === by ? (sign > 0 ? "ascending" : "descending") : "none" },
    node("button", { class: "quiet", text: typeof title === "function" ? title() : t(title), onclick: () => sortBy(name) })));
  el("table").replaceChildren(node("table", {}, node("caption", { text: `${slotText(state.slot)}, ${layer().unit}` }),
    node("thead", {}, node("tr", {}, ...heads)), node("tbody", {}, ...rows.map(tableRow))));
}
function tableRow(place) {
  const bounds = boundsAt(state.slot, place), none = drawnAs(state.slot, place) === "none", difference = differenceAt(state.slot, place);
  const button = node("button", { class: "quiet", text: nameOf(place), onclick: () => choose(place) });
  return node("tr", {}, node("th", { scope: "row" }, button),
    node("td", { class: "number", text: none ? "" : numberText(valueAt(state.slot, place)) }),
    node("td", { class: "number", text: bounds && !none ? t("{} to {}", numberText(bounds[0]), numberText(bounds[1])) : "" }),
    node("td", { class: "number", text: difference === null ? "" : numberText(difference, true) }),
    node("td", { text: t(KNOWN_WORDS[drawnAs(state.slot, place)]) }));
}
const compare = (a, b) => a === null ? 1 : b === null ? -1 : typeof a === "string" ? a.localeCompare(b) : a - b;
function sortBy(name) {
  tableOrder = [name, tableOrder[0] === name ? -tableOrder[1] : 1];
  showTable();
}
