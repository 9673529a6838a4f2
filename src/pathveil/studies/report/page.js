const text = cell => cell.textContent.trim(), order = cell => cell.dataset.order === undefined ? null : Number(cell.dataset.order);
for (const table of document.querySelectorAll("table[id]:has(> thead)")) {
  const body = table.tBodies[0], first = [...body.rows];
  const sort = event => {
    const head = event.target.closest("th"); if (!head || event.target.closest("a")) return;
    const now = { null: "descending", descending: "ascending", ascending: null }[head.getAttribute("aria-sort")], column = head.cellIndex;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    if (!now) return body.append(...first);
    head.setAttribute("aria-sort", now);
    const numbers = first.some(row => order(row.cells[column]) !== null);
    const value = row => numbers ? order(row.cells[column]) : text(row.cells[column]) || null;
    const compared = (x, y) => numbers ? x - y : x.localeCompare(y, undefined, { numeric: true });
    // What has no value stands last, whichever way the others are sorted.
    body.append(...[...first].sort((a, b) => { const x = value(a), y = value(b);
      return x === null || y === null ? (x === null) - (y === null) : now === "ascending" ? compared(x, y) : compared(y, x); }));
  };
  table.tHead.addEventListener("click", sort);
  table.tHead.addEventListener("keydown", event => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); sort(event); } });
}
for (const tabs of document.querySelectorAll("[role=tablist]")) {
  const all = [...tabs.children];
  const show = chosen => { for (const tab of all) {
    tab.setAttribute("aria-selected", tab === chosen); tab.tabIndex = tab === chosen ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = tab !== chosen; } };
  tabs.addEventListener("click", event => { if (all.includes(event.target)) show(event.target); });
  tabs.addEventListener("keydown", event => {
    const at = all.indexOf(event.target), to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: all.length - 1 }[event.key];
    if (at < 0 || to === undefined) return;
    event.preventDefault();
    const next = all[(to + all.length) % all.length]; show(next); next.focus();
  });
  show(all[0]);
}
// Every file leaves by one link; a page opened from a disk may make one, and nothing is fetched.
const save = (content, type, name) => {
  const link = document.createElement("a");
  link.href = content instanceof Blob ? URL.createObjectURL(content) : URL.createObjectURL(new Blob([content], { type }));
  link.download = name; link.click();
};
const quoted = value => typeof value === "number" ? String(value) : /[",\n]/.test(value) ? '"' + value.replaceAll('"', '""') + '"' : value;
const csv = lines => lines.map(line => line.map(one => quoted(one ?? "")).join(",")).join("\n") + "\n";
const plain = id => {
  const [head, ...rows] = document.getElementById(id).rows, names = [...head.cells].map(cell => JSON.parse(cell.dataset.names));
  const values = (cell, place) => { const found = cell.dataset.values ? JSON.parse(cell.dataset.values) : [text(cell)];
    return names[place].map((_, part) => found[part] ?? ""); };
  return [names.flat(), ...rows.map(row => [...row.cells].flatMap(values))];
};
// Cells between tabs, as spreadsheets take them.
for (const button of document.querySelectorAll("button[data-copy]")) button.addEventListener("click", () => {
  const area = document.createElement("textarea");
  area.value = plain(button.dataset.copy).map(line => line.join("\t")).join("\n") + "\n";
  document.body.append(area); area.select();
  button.textContent = document.execCommand("copy") ? "Copied" : "Cannot be copied here";  // the one way that a file, too, may copy
  area.remove(); setTimeout(() => { button.textContent = "Copy"; }, 2000);
});
for (const button of document.querySelectorAll("button[data-csv]")) button.addEventListener("click", () =>
  save(csv(plain(button.dataset.csv)), "text/csv", button.dataset.csv + ".csv"));
// A drawing by itself has the colours of light paper: those that stand behind the page's names.
const alone = svg => {
  const copy = svg.cloneNode(true), box = svg.dataset.whole || svg.getAttribute("viewBox"), [, , width, height] = box.split(" ").map(Number);
  copy.setAttribute("viewBox", box); copy.setAttribute("width", width); copy.setAttribute("height", height); copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  return [new XMLSerializer().serializeToString(copy).replace(/var\(--[a-z0-9]+, (#[0-9a-f]{6})\)/g, "$1"), width, height];
};
const figureFiles = {
  svg: (figure, name) => save(alone(figure.querySelector(".drawing svg"))[0], "image/svg+xml", name),
  csv: (figure, name) => save(csv(JSON.parse(figure.dataset.rows)), "text/csv", name),
  png: (figure, name) => {
    const [text, width, height] = alone(figure.querySelector(".drawing svg")), image = new Image(), scale = 3;
    image.onload = () => {
      const canvas = Object.assign(document.createElement("canvas"), { width: width * scale, height: height * scale }), pen = canvas.getContext("2d");
      pen.fillStyle = "#fff"; pen.fillRect(0, 0, canvas.width, canvas.height); pen.drawImage(image, 0, 0, canvas.width, canvas.height);
      canvas.toBlob(blob => save(blob, "image/png", name), "image/png");
    };
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  },
};
for (const button of document.querySelectorAll("button[data-file]")) button.addEventListener("click", () => {
  const figure = document.getElementById(button.dataset.figure);
  figureFiles[button.dataset.file](figure, figure.dataset.name + "." + button.dataset.file);
});
// An enlarged figure: the wheel or two fingers go nearer, a drag moves it, a double click shows the whole, Escape closes.
for (const figure of document.querySelectorAll("figure[id]")) {
  const svg = figure.querySelector(".drawing svg"); if (!svg) continue;
  const whole = svg.dataset.whole = svg.getAttribute("viewBox"), first = whole.split(" ").map(Number), fingers = new Map();
  let box = [...first];
  const show = () => svg.setAttribute("viewBox", box.join(" ")), large = () => figure.matches(":target");
  const nearer = (factor, x, y) => {
    const frame = svg.getBoundingClientRect(), across = (x - frame.left) / frame.width, up = (y - frame.top) / frame.height;
    const width = Math.min(first[2], Math.max(first[2] / 12, box[2] * factor)), height = width * first[3] / first[2];
    box = [box[0] + (box[2] - width) * across, box[1] + (box[3] - height) * up, width, height]; show();
  };
  svg.addEventListener("wheel", event => { if (large()) { event.preventDefault(); nearer(event.deltaY > 0 ? 1.15 : 1 / 1.15, event.clientX, event.clientY); } }, { passive: false });
  svg.addEventListener("pointerdown", event => { if (large()) { fingers.set(event.pointerId, event); svg.setPointerCapture(event.pointerId); } });
  for (const end of ["pointerup", "pointercancel"]) svg.addEventListener(end, event => fingers.delete(event.pointerId));
  svg.addEventListener("pointermove", event => {
    const before = fingers.get(event.pointerId); if (!before) return;
    const other = [...fingers.values()].find(one => one.pointerId !== event.pointerId), frame = svg.getBoundingClientRect();
    if (other) nearer(Math.hypot(before.clientX - other.clientX, before.clientY - other.clientY) / Math.max(1, Math.hypot(event.clientX - other.clientX, event.clientY - other.clientY)), other.clientX, other.clientY);
    else { box = [box[0] - (event.clientX - before.clientX) * box[2] / frame.width, box[1] - (event.clientY - before.clientY) * box[3] / frame.height, box[2], box[3]]; show(); }
    fingers.set(event.pointerId, event);
  });
  svg.addEventListener("dblclick", () => { box = [...first]; show(); });
  addEventListener("hashchange", () => { box = [...first]; show(); fingers.clear(); });
}
addEventListener("keydown", event => { const large = document.querySelector("figure:target"); if (event.key === "Escape" && large) large.querySelector(".close").click(); });
// Meanings where words stand: beside the mouse or the keyboard's place, instead of the browser's own slow ones.
const tip = Object.assign(document.createElement("div"), { id: "tip", hidden: true }); tip.setAttribute("role", "tooltip"); document.body.append(tip);
for (const term of document.querySelectorAll(".term")) { term.dataset.tip = term.title; term.removeAttribute("title"); }
const shown = event => {
  const term = event.target.closest?.(".term") || (event.type === "focusin" && event.target.querySelector?.(":scope > .term"));
  if (!term) { tip.hidden = true; return; }
  tip.textContent = term.dataset.tip; tip.hidden = false; term.setAttribute("aria-describedby", "tip");
  const at = term.getBoundingClientRect(), left = Math.max(8, Math.min(at.left, innerWidth - tip.offsetWidth - 8));
  tip.style.left = left + "px"; tip.style.top = (at.bottom + tip.offsetHeight + 8 < innerHeight ? at.bottom + 6 : at.top - tip.offsetHeight - 6) + "px";
};
for (const moved of ["mouseover", "focusin"]) document.addEventListener(moved, shown);
addEventListener("scroll", () => { tip.hidden = true; }, { passive: true });
// The contents say where one is.
const links = new Map([...document.querySelectorAll("nav a")].map(link => [link.hash.slice(1), link])), places = [...links.keys()].map(id => document.getElementById(id)).filter(Boolean);
const here = () => {
  const top = place => place.getBoundingClientRect().top;
  const now = places.filter(place => top(place) < innerHeight / 3).sort((a, b) => top(a) - top(b)).at(-1) || places[0];
  for (const [id, link] of links) { if (id === now?.id) { if (!link.hasAttribute("aria-current")) { link.setAttribute("aria-current", "location"); const bar = link.parentElement; if (bar.scrollWidth > bar.clientWidth) bar.scrollLeft = link.offsetLeft - 40; } } else link.removeAttribute("aria-current"); }
};
addEventListener("scroll", here, { passive: true }); here();
// A link into what is folded unfolds it.
const unfold = () => { const place = location.hash && document.getElementById(decodeURIComponent(location.hash.slice(1))); if (place?.tagName === "DETAILS") place.open = true; };
addEventListener("hashchange", unfold); unfold();
// Paper has no fold to open: what is closed is opened while it prints.
let opened = [];
addEventListener("beforeprint", () => { opened = [...document.querySelectorAll("details:not([open])")]; for (const one of opened) one.open = true; });
addEventListener("afterprint", () => { for (const one of opened) one.open = false; opened = []; });
