// Texts in the reader's language, by the one table words.csv: English, then the others.

const WORDS = JSON.parse(document.getElementById("words").textContent);
const [LANGUAGES, ...ROWS] = WORDS.table;
const LANGUAGE = [new URLSearchParams(location.search).get("lang"), WORDS.site, ...navigator.languages].map(name => (name ?? "").slice(0, 2).toLowerCase())
  .find(name => LANGUAGES.includes(name)) ?? "en";
const TEXTS = Object.fromEntries(ROWS.map(row => [row[0], row[LANGUAGES.indexOf(LANGUAGE)]]));

// A text with its values in place of each {}.
function t(text, ...values) {
  return (TEXTS[text] ?? text).replace(/\{\}/g, () => values.shift());
}
// A text whose numbers are its values: whole, or sentence by sentence, or what stands before a colon as in titles, or not at all.
function plainly(text) {
  const number = /\d[\d.,:e^-]*\d|\d/g;  // a comma between thousands is a decimal one elsewhere
  const spaced = text => text.replace(/,(?=\d{3})/g, "\u202f");
  const numbered = part => {
    const key = part.replace(number, "{}");
    return TEXTS[part] ?? (key in TEXTS ? t(key, ...(part.match(number) ?? []).map(spaced)) : undefined);
  };
  const parts = text.split(/(?<=\.) /).map(numbered);
  return numbered(text) ?? (parts.includes(undefined) ? text.replace(/^[^:]+:/, kind => numbered(kind) ?? kind) : parts.join(" "));
}
function translatePage() {
  if (LANGUAGE === "en") return;
  document.documentElement.lang = LANGUAGE;
  document.title = plainly(document.title);
  const nodes = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (nodes.nextNode()) {
    const node = nodes.currentNode, text = node.data.replace(/\s+/g, " ").trim();
    if (text && !["SCRIPT", "CODE"].includes(node.parentElement.tagName)) node.data = node.data.replace(/^(\s*)[^]*?(\s*)$/, (_, start, end) => start + plainly(text) + end);
  }
  for (const name of ["aria-label", "aria-roledescription", "placeholder", "title"]) {
    for (const element of document.querySelectorAll(`[${name}]`)) element.setAttribute(name, plainly(element.getAttribute(name)));
  }
  for (const link of document.querySelectorAll("a[href$='.html'], iframe")) {
    const name = link.tagName === "A" ? "href" : "src";
    link.setAttribute(name, `${link.getAttribute(name)}?lang=${LANGUAGE}`);
  }
}
translatePage();
