// Small pictures of one place: its day with intervals, and its weeks as a grid of days and times.

const SVG = "http://www.w3.org/2000/svg";
function svg(name, attributes, ...inner) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...inner);
  return node;
}
const pathOf = points => points.map(([x, y], at) => `${at ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

// Numbers in a row as stretches without a gap: nothing is drawn over hours of which nothing is known.
function stretches(numbers) {
  const found = [];
  numbers.forEach((number, at) => {
    if (number === null) return;
    if (at === 0 || numbers[at - 1] === null) found.push([]);
    found.at(-1).push(at);
  });
  return found;
}

function dayChart(place) {
  const slots = slotsOfDate(dateOf(state.slot)), wide = 320, high = 150, left = 30, bottom = 22, top = 8;
  const most = Math.max(range().at(-1), ...slots.map(slot => boundsAt(slot, place)?.[1] ?? valueAt(slot, place) ?? 0));
  const scaleOf = state.show === "value" ? most : Math.max(...slots.map(slot => boundsAt(slot, place)?.[1] ?? 1));
  const x = at => left + (slots.length < 2 ? (wide - left) / 2 : at * (wide - left - 8) / (slots.length - 1));
  const y = number => high - bottom - number / scaleOf * (high - bottom - top);
  const bounds = slots.map(slot => boundsAt(slot, place)), usual = slots.map(slot => usualAt(slot, place));
  const sure = slots.map(slot => ["unknown", "day"].includes(drawnAs(slot, place)) ? null : valueAt(slot, place));
  // Where each number of a stretch is drawn; one alone is a short line, so that it can be seen.
  const spots = run => run.length > 1 ? run.map(at => [x(at), at]) : [-3, 3].map(aside => [x(run[0]) + aside, run[0]]);
  const edge = (run, end) => spots(run).map(([left, at]) => [left, y(bounds[at][end])]);
  const lines = numbers => stretches(numbers).map(run => pathOf(spots(run).map(([left, at]) => [left, y(numbers[at])]))).join("");
  const band = stretches(bounds).map(run => `${pathOf([...edge(run, 1), ...edge(run, 0).reverse()])}Z`).join("");
  const chart = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "chart", role: "img", "aria-label": chartText(slots, place) });
  chart.append(...axes(slots, x, y, scaleOf, wide, high, left, bottom));
  for (const [name, path] of Object.entries({ band, usual: lines(usual), values: lines(sure) })) if (path) chart.append(svg("path", { d: path, class: name }));
  slots.forEach((slot, at) => {
    const value = valueAt(slot, place);
    if (value !== null) chart.append(svg("circle", { cx: x(at), cy: y(value), r: slot === state.slot ? 5 : 2.4, class: ["unknown", "day"].includes(drawnAs(slot, place)) ? "doubtful" : "point" }));
  });
  return chart;
}
function axes(slots, x, y, most, wide, high, left, bottom) {
  const parts = [0, most / 2, most].map(number => svg("g", { class: "axis" },
    svg("line", { x1: left, x2: wide - 4, y1: y(number), y2: y(number) }),
    svg("text", { x: left - 4, y: y(number) + 4, "text-anchor": "end" }, String(Math.round(number)))));
  const every = Math.max(1, Math.ceil(slots.length / 6));
  return parts.concat(slots.map((slot, at) => [slot, at]).filter(([, at]) => at % every === 0)
    .map(([slot, at]) => svg("text", { x: x(at), y: high - 4, "text-anchor": x(at) > wide - 20 ? "end" : "middle", class: "tick" }, clockOf(slot))));
}
function chartText(slots, place) {
  const numbers = slots.map(slot => valueAt(slot, place)).filter(number => number !== null);
  if (!numbers.length) return t("No value on this day.");
  return t("{}: {} values from {} to {} {}.", dateText(dateOf(state.slot)), numbers.length, numberText(Math.min(...numbers)), numberText(Math.max(...numbers)), layer().unit);
}

// --- weeks ---

const MOST_DAYS = 28, MOST_COLUMNS = 48;

// A grid of dates and times; each field is a slot that can be clicked. numberOf: what colours it.
function weekGrid(fieldOf) {
  const dates = nearbyDates(), times = columnTimes(dates), wide = 340, left = 72, top = 14, step = 15;
  const column = (wide - left) / times.length;
  const grid = svg("svg", { viewBox: `0 0 ${wide} ${top + dates.length * step + 2}`, class: "chart week", role: "img", "aria-label": t("Days and times; click one to go there.") });
  const at = new Map(DATA.slots.map((_, slot) => [`${dateOf(slot)} ${clockOf(slot)}`, slot]));
  const every = Math.max(1, Math.ceil(times.length / 6));
  const heading = start => start > wide - 34 ? { x: wide, "text-anchor": "end" } : { x: start };
  if (times.length > 1) times.forEach((time, place) => place % every || grid.append(svg("text", { ...heading(left + place * column), y: 10, class: "tick" }, time)));
  dates.forEach((date, row) => {
    grid.append(svg("text", { x: 0, y: top + row * step + 11, class: "tick" }, dateText(date)));
    times.forEach((time, place) => {
      const slot = at.get(`${date} ${time}`);
      if (slot === undefined) return;
      const field = svg("rect", { x: left + place * column, y: top + row * step, width: Math.max(1, column - 1), height: step - 1, "data-slot": slot, ...fieldOf(slot) });
      if (slot === state.slot) field.classList.add("now");
      grid.append(field);
    });
  });
  grid.addEventListener("click", event => event.target.dataset.slot && go(Number(event.target.dataset.slot)));
  return grid;
}
function nearbyDates() {
  const dates = [...new Set(DATA.slots.map((_, slot) => dateOf(slot)))], now = dates.indexOf(dateOf(state.slot));
  const start = Math.max(0, Math.min(now - MOST_DAYS / 2, dates.length - MOST_DAYS));
  return dates.slice(start, start + MOST_DAYS);
}
function columnTimes(dates) {
  const shown = new Set(dates), times = [...new Set(DATA.slots.map((_, slot) => slot).filter(slot => shown.has(dateOf(slot))).map(clockOf))].sort();
  const every = Math.ceil(times.length / MOST_COLUMNS); // slots of minutes: the first of each stretch
  return times.filter((_, at) => at % every === 0);
}
function fieldOfPlace(place) {
  return slot => {
    const number = shownAt(slot, place), drawn = drawnAs(slot, place);
    const title = number === null || drawn === "none" ? t("no value") : `${numberText(number)} ${layer().unit}`;
    const faint = ["unknown", "day"].includes(drawn) && state.show === "value";
    return number === null || drawn === "none" ? { class: "nothing" } : { fill: colourOf(number), "fill-opacity": faint ? 0.3 : 1, "aria-label": title };
  };
}
// A small day for each day of the week: means of what is known, the surer the heavier.
function weekdayCharts(place) {
  const sums = new Map(), times = columnTimes(nearbyDates()), wide = 340, high = 62, panel = wide / 7;
  DATA.slots.forEach((_, slot) => {
    const [weight, value] = weightAt(slot, place, layer()) ?? [0, 0], key = `${(weekday(dateOf(slot)) + 6) % 7} ${clockOf(slot)}`, [whole, sum] = sums.get(key) ?? [0, 0];
    if (weight) sums.set(key, [whole + weight, sum + weight * value]);
  });
  const meansOf = day => times.map(time => sums.get(`${day} ${time}`)).map(sum => sum ? sum[1] / sum[0] : null);
  const days = [0, 1, 2, 3, 4, 5, 6].map(meansOf), most = Math.max(...days.flat(), 1e-9);
  if (DATA.standing || times.length < 3 || days.filter(means => means.some(mean => mean !== null)).length < 2) return [];
  const chart = svg("svg", { viewBox: `0 0 ${wide} ${high}`, class: "chart days", role: "img", "aria-label": t("By day of the week") });
  days.forEach((means, day) => {
    const x = at => day * panel + at * (panel - 6) / (times.length - 1), y = mean => 46 - 42 * mean / most;
    chart.append(svg("path", { d: `M${day * panel},46h${panel - 6}`, class: "floor" }), svg("text", { x: day * panel, y: 59, class: "tick" }, dateText(`2024-01-0${day + 1}`).split(" ")[0]),
      svg("path", { d: stretches(means).map(run => pathOf(run.map(at => [x(at), y(means[at])]))).join(""), class: "values" }));
  });
  return [node("h3", { text: `${t("By day of the week")}, 0 – ${numberText(most)} ${layer().unit}` }), chart];
}
// Of all places: the darker, the more of them are known.
function fieldOfAll(slot) {
  const sure = sureCounts()[slot];
  return sure ? { class: "share", "fill-opacity": (0.12 + 0.88 * sure / places()).toFixed(2) } : { class: "nothing" };
}
