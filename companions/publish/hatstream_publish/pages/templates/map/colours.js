// Colours that colour-blind people can tell apart, in light and in dark.

const SCALES = {
  // viridis, perceptually even and safe for colour-blind people: Smith and van der Walt, SciPy 2015
  value: ["#440154", "#482878", "#3e4a89", "#31688e", "#26828e", "#1f9e89", "#35b779", "#6ece58", "#b5de2b", "#fde725"],
  // blue: slower than usual, orange: faster; after ColorBrewer's PuOr, with a blue end
  difference: ["#12438c", "#3f6fb3", "#7ea2cf", "#b9cbe2", "#eeeeea", "#f3d3a4", "#e5a85b", "#c57a1f", "#8a4a06"],
  // the surer the lighter
  uncertainty: ["#eef1f6", "#d0d4e4", "#aeb1d0", "#8f8cbb", "#7767a4", "#63438a", "#4b1d6b"],
};
const STEPS = 48;
const PAPERS = {
  light: { ground: "#eef1f4", line: "#ffffff", ink: "#1c2733", soft: "#5b6875", route: "#1c273366", none: "#c4ccd4", mark: "#d1006b", hatch: "#ffffffb0", dot: "#ffffffcc", plate: "#ffffffd9", water: "#b5d3ea", park: "#cfe3c4", built: "#dcdfe3" },
  dark: { ground: "#11171d", line: "#11171d", ink: "#e8edf2", soft: "#9aa7b4", route: "#e8edf266", none: "#3a4650", mark: "#ff5ca8", hatch: "#11171db0", dot: "#11171dcc", plate: "#11171dd9", water: "#1d3950", park: "#1f3a2a", built: "#262d35" },
};
const tables = {};
let patterns = {};

function themeName() {
  const chosen = document.documentElement.dataset.theme;
  if (chosen === "light" || chosen === "dark") return chosen;
  return matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light";
}
const paper = () => PAPERS[themeName()];

function colourTable() {
  const key = state.show + themeName();
  return tables[key] ??= Array.from({ length: STEPS }, (_, step) => mixed(SCALES[state.show], step / (STEPS - 1)));
}
function mixed(scale, part) {
  // In the dark the darkest blues would be lost.
  const lifted = themeName() === "dark" && state.show === "value" ? 0.1 + 0.9 * part : part;
  const exact = lifted * (scale.length - 1), low = Math.min(scale.length - 2, Math.floor(exact)), rest = exact - low;
  const channel = (hex, at) => parseInt(hex.slice(1 + 2 * at, 3 + 2 * at), 16);
  const parts = [0, 1, 2].map(at => Math.round(channel(scale[low], at) * (1 - rest) + channel(scale[low + 1], at) * rest));
  return `rgb(${parts.join(",")})`;
}
function colourStep(number) {
  const [least, most] = range();
  return Math.round(Math.max(0, Math.min(1, (number - least) / (most - least))) * (STEPS - 1));
}
const colourOf = number => colourTable()[colourStep(number)];

// Over colours: stripes for what is not known, dots for what is known of the area around.
function patternOf(context, kind) {
  const key = kind + themeName();
  return patterns[key] ??= context.createPattern(patternTile(kind), "repeat");
}
function patternTile(kind) {
  const tile = document.createElement("canvas"), size = tile.width = tile.height = 8, pen = tile.getContext("2d");
  pen.fillStyle = pen.strokeStyle = kind === "dots" ? paper().dot : paper().hatch;
  if (kind === "dots") {
    for (const at of [2, 6]) pen.fillRect(at - 1, at - 1, 2, 2);
  } else {
    pen.lineWidth = 2.6;
    pen.beginPath();
    for (const shift of [-size, 0, size]) {
      pen.moveTo(shift - 2, size + 2);
      pen.lineTo(shift + size + 2, -2);
    }
    pen.stroke();
  }
  return tile;
}
