// What is known of a place in a slot: numbers, how well, and how that compares with other days.

let DATA = null;
const state = { layer: 0, show: "value", slot: 0, place: -1, hover: -1, timer: null, wanted: null };

const places = () => DATA.places.id.length;
const layer = () => DATA.layers[state.layer];
const spot = (slot, place) => slot * places() + place;
const nameOf = place => DATA.places.name[place] || DATA.places.id[place];
const plain = (of, stored) => stored * of.step + of.origin;

function valueAt(slot, place, of = layer()) {
  const stored = of.value[spot(slot, place)];
  return stored === NONE ? null : plain(of, stored);
}
function boundsAt(slot, place, of = layer()) {
  const at = spot(slot, place), value = of.value[at];
  if (value === NONE || of.below[at] === NONE || of.above[at] === NONE) return null;
  return [plain(of, value - of.below[at]), plain(of, value + of.above[at])];
}
function halfAt(slot, place, of = layer()) {
  const at = spot(slot, place);
  return of.value[at] === NONE || of.below[at] === NONE || of.above[at] === NONE ? null : (of.below[at] + of.above[at]) * of.step / 2;
}
function codeAt(slot, place, of = layer()) {
  const code = of.code[spot(slot, place)];
  return code === NO_CODE ? null : DATA.codes[code];
}

// How a value is drawn: "known", "area", "day", "forecast", "unknown", or "none" where there is none.
function drawnAs(slot, place, of = layer()) {
  const code = codeAt(slot, place, of);
  if (code === null || of.value[spot(slot, place)] === NONE) return "none";
  const half = halfAt(slot, place, of);
  return of.unit === "km/h" && half !== null && half > DATA.wide ? "unknown" : code.drawn;
}
// Of each slot, how many places are known in it: by themselves, or by the area around.
function sureCounts(of = layer()) {
  return of.sure ??= DATA.slots.map((_, slot) => {
    let sure = 0;
    for (let place = 0; place < places(); place++) if (!["unknown", "none", "day"].includes(drawnAs(slot, place, of))) sure += 1;
    return sure;
  });
}
const isSure = drawn => drawn === "known" || drawn === "area";

const dateOf = slot => DATA.slots[slot][0].slice(0, 10);
const timeOf = slot => DATA.slots[slot][0].slice(11, 16);
// The hour that a clock shows twice on the day when it is set back has one name each time.
const clockOf = slot => timeOf(slot) + (repeated().has(slot) ? ` ${t("again")}` : "");
function repeated() {
  if (DATA.repeated) return DATA.repeated;
  const met = new Set(), clock = slot => DATA.slots[slot][0].slice(0, 16);
  return DATA.repeated = new Set(DATA.slots.map((_, slot) => slot).filter(slot => met.has(clock(slot)) || !met.add(clock(slot))));
}
const slotsOfDate = date => DATA.slots.map((_, at) => at).filter(at => dateOf(at) === date);
const DATES = new Intl.DateTimeFormat(LANGUAGE, { weekday: "short", day: "numeric", month: "short", timeZone: "UTC" });
const weekday = date => new Date(`${date}T00:00:00Z`).getUTCDay();
function dateText(date) {
  const parts = Object.fromEntries(DATES.formatToParts(new Date(`${date}T00:00:00Z`)).map(part => [part.type, part.value]));
  return `${parts.weekday} ${parts.day} ${parts.month}`;
}
// On how many released days what is known of places rests.
function daysText(slot) {
  const days = DATA.days[slot];
  return days ? t(days === 1 ? ", by {} released day" : ", by {} released days", days) : "";
}
const isComparable = () => !DATA.standing && (Boolean(DATA.usual) || pastDays() > FEWEST_DAYS);
const pastDays = () => new Set(DATA.slots.map((_, slot) => slot).filter(slot => kindOfSlot(slot) !== "forecast").map(dateOf)).size;
function slotText(slot) {
  const [start, end] = DATA.slots[slot];
  if (DATA.standing) return t("As usual until {}", `${dateText(start.slice(0, 10))} ${start.slice(0, 4)}`) + daysText(slot);
  return `${dateText(start.slice(0, 10))} ${start.slice(0, 4)}, ${t("{} to {}", clockOf(slot), end.slice(11, 16))}${daysText(slot)}`;
}

// Whether a slot's values are expected or still change: "forecast", "live" or "".
function kindOfSlot(slot, of = layer()) {
  for (let place = 0; place < places(); place++) {
    const code = codeAt(slot, place, of);
    if (code !== null && code.drawn === "forecast") return "forecast";
    if (code !== null && code.live) return "live";
  }
  return "";
}

// --- the usual: what the page was told, or what the same time of other days was, weighted by how well it is known ---

const dayKind = slot => [0, 6].includes(weekday(dateOf(slot))) ? "weekend" : "weekday";

function usualOf(of) {
  if (of.usual) return of.usual;
  if (DATA.usual) return of.usual = toldUsual(of);
  const alike = weightedSums(of, slot => `${timeOf(slot)} ${dayKind(slot)}`), all = weightedSums(of, timeOf);
  const usual = new Float64Array(of.value.length).fill(NaN);
  for (let slot = 0; slot < DATA.slots.length; slot++) {
    for (let place = 0; place < places(); place++) {
      const own = weightAt(slot, place, of), at = spot(slot, place);
      usual[at] = withoutOwn(alike(slot), place, own) ?? withoutOwn(all(slot), place, own) ?? NaN;
    }
  }
  return of.usual = usual;
}
// A place's own value is compared with its own usual one, its area's with the area's.
function toldUsual(of) {
  return Float64Array.from(of.value, (_, at) => {
    const place = at % places(), told = DATA.usual[place], code = DATA.codes[of.code[at]];
    return told === NONE || !code || (code.about === "area") !== (DATA.usualIsArea[place] === 1) ? NaN : told * DATA.usualStep;
  });
}
function weightedSums(of, keyOf) {
  const groups = new Map();
  for (let slot = 0; slot < DATA.slots.length; slot++) {
    const key = keyOf(slot);
    if (!groups.has(key)) groups.set(key, { days: new Uint16Array(places()), weight: new Float64Array(places()), sum: new Float64Array(places()) });
    const group = groups.get(key);
    for (let place = 0; place < places(); place++) {
      const own = weightAt(slot, place, of);
      if (own === null) continue;
      group.days[place] += 1;
      group.weight[place] += own[0];
      group.sum[place] += own[0] * own[1];
    }
  }
  return slot => groups.get(keyOf(slot));
}
function weightAt(slot, place, of) {
  if (!isSure(drawnAs(slot, place, of))) return null;
  const half = halfAt(slot, place, of);
  return [1 / Math.max(half ?? 1, 0.1) ** 2, valueAt(slot, place, of)];
}
const FEWEST_DAYS = 2;
function withoutOwn(group, place, own) {
  if (group.days[place] - (own === null ? 0 : 1) < FEWEST_DAYS) return null;
  return (group.sum[place] - (own ? own[0] * own[1] : 0)) / (group.weight[place] - (own ? own[0] : 0));
}
function usualAt(slot, place) {
  const usual = usualOf(layer())[spot(slot, place)];
  return Number.isNaN(usual) ? null : usual;
}
function differenceAt(slot, place) {
  if (DATA.standing) return null; // a standing map is the usual
  const value = valueAt(slot, place), usual = usualAt(slot, place);
  return value === null || usual === null || drawnAs(slot, place) === "day" ? null : value - usual;
}
function isBeyondNoise(slot, place) {
  const bounds = boundsAt(slot, place), usual = usualAt(slot, place);
  return bounds !== null && usual !== null && isSure(drawnAs(slot, place)) && (usual < bounds[0] || usual > bounds[1]);
}

// --- what is shown ---

const SHOWN = {
  value: { title: () => t(layer().title), of: valueAt },
  difference: { title: () => t("difference to usual"), of: differenceAt },
  uncertainty: { title: () => t("half of the 95 % interval"), of: halfAt },
};
const shownAt = (slot, place) => SHOWN[state.show].of(slot, place);

// The ends of the colour scale: the same for all slots, so that slots compare.
function range() {
  const of = layer();
  of.ranges ??= {};
  return of.ranges[state.show] ??= measuredRange();
}
function measuredRange() {
  const numbers = [];
  for (let slot = 0; slot < DATA.slots.length; slot++) {
    for (let place = 0; place < places(); place++) {
      const drawn = drawnAs(slot, place);
      if (drawn === "none" || (state.show === "value" && drawn === "unknown")) continue;
      const number = shownAt(slot, place);
      if (number !== null) numbers.push(state.show === "difference" ? Math.abs(number) : number);
    }
  }
  const sorted = Float64Array.from(numbers).sort(), quantile = part => sorted[Math.floor((sorted.length - 1) * part)] ?? 1;
  const step = roundStep((quantile(0.98) - quantile(0.02)) / 5), up = number => Math.max(step, Math.ceil(number / step) * step);
  if (state.show === "difference") return [-up(quantile(0.98)), up(quantile(0.98))];
  const least = Math.floor(quantile(0.02) / step) * step;
  return [least, Math.max(least + step, up(quantile(0.98)))];
}
// 1, 2 or 5 times a power of ten, at least as large.
function roundStep(number) {
  const power = 10 ** Math.floor(Math.log10(Math.max(number, 0.1)));
  return [1, 2, 5, 10].map(times => times * power).find(step => step >= number * 0.999);
}
const numberText = (number, signed = false) => number === null ? t("none") : (signed && number > 0 ? "+" : "") + NUMBERS.format(number).replace("-", "\u2212");
const NUMBERS = new Intl.NumberFormat(LANGUAGE, { minimumFractionDigits: 1, maximumFractionDigits: 1, useGrouping: false });
