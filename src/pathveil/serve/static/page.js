"use strict";
// The keyboard of a registrar. Everything here only moves and fills what the server's forms already have.

const all = (selector, from = document) => [...from.querySelectorAll(selector)];
const typing = (target) => target.matches("input:not([type=radio]), select, textarea");

let leaving = false;  // another page is on its way: keys that follow are meant for it

function press(selector) {
  const found = document.querySelector(selector);
  if (found) found.click();
}

// A key as it is without Caps Lock.
const keyOf = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);

function shared(event) {
  const key = keyOf(event);
  if (/^[ut]$/.test(key)) press(`button[data-key=${key}]`);
  else if (key === "q") {
    leaving = true;
    location.href = "/queue";
  }
  else return false;
  return true;
}

// The queue: Enter opens the next case, arrows move along the rows.

function queueKeys(event) {
  const links = all("table.queue a");
  const at = links.indexOf(document.activeElement);
  if (event.key === "Enter" && (event.target === document.body || event.target.id === "main")) press("#next");
  else if (event.key === "ArrowDown") links[Math.min(at + 1, links.length - 1)]?.focus();
  else if (event.key === "ArrowUp") links[Math.max(at - 1, 0)]?.focus();
  else return shared(event);
  return true;
}

// A case.

let active = 0;
let chosenHere = false;  // codes that the server does not have yet

function tasks() {
  return all(".task");
}

function activate(number) {
  const fields = tasks();
  active = Math.max(0, Math.min(number, fields.length - 1));
  fields.forEach((field, place) => field.classList.toggle("active", place === active));
  highlight(fields[active]?.dataset.task);
  fields[active]?.scrollIntoView({ block: "nearest" });
}

function highlight(task) {
  for (const mark of all("mark")) {
    mark.className = "";
    for (const pair of mark.dataset.tasks.trim().split(" ")) {
      const [name, strength] = pair.split(":");
      if (name === task) mark.className = "on" + strength;
    }
  }
}

// The codes chosen so far for the tumour that a field belongs to.
function chosen(field) {
  const codes = new URLSearchParams();
  for (const radio of all(".task input[type=radio]:checked", field.closest(".tumour"))) codes.set(radio.closest(".task").dataset.task, radio.value);
  return codes;
}

function undecided() {
  return tasks().findIndex((field) => !field.querySelector("input[type=radio]:checked"));
}

// Where to go on after a choice: the next task that nobody has decided, else the next one.
function nextTask(number) {
  const open = tasks().map((field) => !field.querySelector("input[type=radio]:checked"));
  const after = open.indexOf(true, number + 1);
  return after >= 0 ? after : open.includes(true) ? open.indexOf(true) : number + 1;
}

async function checkCombination(field) {
  const asked = String(chosen(field));
  const answer = await fetch("/combinations?" + asked);
  if (!answer.ok) return;
  const { contradictions } = await answer.json();
  if (asked !== String(chosen(field))) return;  // another code has been chosen since, and has its own answer
  const list = field.closest(".tumour").querySelector(".contradictions");
  list.replaceChildren(...contradictions.map((sentence) => {
    const item = document.createElement("li");
    item.textContent = sentence;
    return item;
  }));
}

function choose(field, radio) {
  radio.checked = true;
  chosenHere = true;
  document.querySelector("#hint").textContent = "";
  checkCombination(field);
}

function takeOther(field, code, term) {
  const known = all(".offer:not(.other) input", field).find((radio) => radio.value === code);
  if (known) return choose(field, known);
  const other = field.querySelector(".other");
  const radio = other.querySelector("input");
  radio.disabled = false;
  radio.value = code;
  other.querySelector("b").textContent = code;
  other.querySelector(".term").textContent = term;
  other.hidden = false;
  choose(field, radio);
}

function accept() {
  const open = undecided();
  if (open < 0) return document.querySelector("#codes").requestSubmit();
  activate(open);
  document.querySelector("#hint").textContent = "Choose the " + tasks()[open].dataset.task + " first: the model leaves it to you.";
}

function caseKeys(event) {
  const field = tasks()[active];
  const aside = document.querySelector("#skip");
  if (aside.open && /^[1-9]$/.test(event.key)) all("button", aside)[Number(event.key) - 1]?.click();
  else if (aside.open && event.key === "Escape") aside.open = false;
  else if (event.key === "Enter") {
    if (event.target.matches("a, button, summary")) return false;
    accept();
  } else if (event.key === "ArrowDown") activate(active + 1);
  else if (event.key === "ArrowUp") activate(active - 1);
  else if (/^[1-3]$/.test(event.key)) {
    const radio = all(".offer:not(.other) input", field)[Number(event.key) - 1];
    if (radio) {
      choose(field, radio);
      activate(nextTask(active));
    }
  } else if (event.key === "/") field.querySelector("input[type=search]").focus();
  else if (keyOf(event) === "s") {
    aside.open = true;
    aside.querySelector("button").focus();
  } else return shared(event);
  return true;
}

const NOTHING = "Nothing found. 1 to 3 take a code above, Esc leaves the search.";

function searchBox(field, number) {
  const input = field.querySelector("input[type=search]");
  const list = field.querySelector(".found");
  const note = field.querySelector(".find .hint");
  let asked = 0;
  let answered = 0;
  let picked = 0;

  function close() {
    list.hidden = true;
    list.setAttribute("aria-busy", "false");
    list.replaceChildren();
    note.textContent = "";
    input.setAttribute("aria-expanded", "false");
    input.removeAttribute("aria-activedescendant");
  }

  function pick(place) {
    const items = all("li", list);
    picked = Math.min(place, items.length - 1);
    items.forEach((item, at) => item.setAttribute("aria-selected", String(at === picked)));
    items[picked]?.scrollIntoView({ block: "nearest" });
    if (items[picked]) input.setAttribute("aria-activedescendant", items[picked].id);
    else input.removeAttribute("aria-activedescendant");
  }

  function leave() {
    input.value = "";
    close();
    input.blur();
  }

  function take(item) {
    takeOther(field, item.dataset.code, item.dataset.term);
    leave();
    activate(nextTask(number));
  }

  async function ask() {
    const query = input.value.trim();
    const own = ++asked;
    list.setAttribute("aria-busy", "true");  // what it shows is of what was typed before
    const answer = await fetch("/search?" + new URLSearchParams([...chosen(field), ["task", field.dataset.task], ["q", query]]));
    if (!answer.ok) return;
    const { found, near } = await answer.json();
    if (own !== asked || document.activeElement !== input) return;
    answered = own;
    list.setAttribute("aria-busy", "false");
    list.replaceChildren(...found.map((one, place) => {
      const item = document.createElement("li");
      item.id = list.id + "-" + place;
      item.setAttribute("role", "option");
      item.dataset.code = one.code;
      item.dataset.term = one.term;
      item.classList.toggle("against", !one.fits);
      const code = document.createElement("b");
      code.textContent = one.code;
      const names = document.createElement("span");
      const term = document.createElement("span");
      term.className = "term";
      term.textContent = one.term;
      names.append(term);
      if (one.synonym) {
        const synonym = document.createElement("i");
        synonym.textContent = one.synonym;
        names.append(synonym);
      }
      item.append(code, names);
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(item); });
      return item;
    }));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(Boolean(found.length)));
    note.textContent = near ? "No name has all these words. The nearest: ↓ and Enter take one." : found.length || !query ? "" : NOTHING;
    (list.hidden ? note : list).scrollIntoView({ block: "nearest" });
    pick(query && !near ? 0 : -1);  // none of the nearest is taken unasked, nor of the frequent codes that an empty query shows
  }

  input.removeAttribute("name");  // without this script a code is typed, and goes with the form
  input.placeholder = "another code or term";
  input.addEventListener("input", ask);
  input.addEventListener("focus", ask);
  input.addEventListener("blur", close);
  input.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown") pick(picked + 1);
    else if (event.key === "ArrowUp") pick(Math.max(0, picked - 1));
    else if (event.key === "Escape") leave();
    else if (note.textContent === NOTHING && answered === asked && (event.key === "Enter" || (/^[1-3]$/.test(event.key) && !/\d/.test(input.value)))) {
      leave();
      if (event.key !== "Enter") caseKeys(event);
    } else if (event.key === "Enter") {
      const item = all("li", list)[picked];
      if (item && answered === asked) take(item);  // never from the list of what was typed before
    }
    else return;
    event.preventDefault();
    event.stopPropagation();
  });
}

function startCase() {
  document.body.classList.add("keyed");  // without this script every task shows its search box
  tasks().forEach((field, number) => {
    field.addEventListener("focusin", () => activate(number));
    field.addEventListener("mouseenter", () => highlight(field.dataset.task));
    field.addEventListener("mouseleave", () => highlight(tasks()[active]?.dataset.task));
    all("input[type=radio]", field).forEach((radio) => radio.addEventListener("change", () => choose(field, radio)));
    searchBox(field, number);
  });
  const codes = document.querySelector("#codes");
  codes.addEventListener("submit", (event) => {
    if (event.submitter && event.submitter.id !== "accept") return;  // one tumour more or less
    if (undecided() < 0) { document.querySelector("#accept").disabled = true; chosenHere = false; return; }
    event.preventDefault();
    accept();
  });
  codes.addEventListener("change", () => { chosenHere = true; });
  chosenHere = codes.hasAttribute("data-chosen");
  addEventListener("pagehide", () => {
    if (chosenHere) navigator.sendBeacon(codes.dataset.draft, new URLSearchParams(new FormData(codes)));
  });
  activate(Math.max(0, undecided()));
}

const page = document.body.dataset.page;
if (document.querySelector("[data-again]")) setTimeout(() => location.reload(), 1500);  // the first cases are being coded
if (page === "case") startCase();
if (page === "queue") all(".order select").forEach((select) => select.addEventListener("change", () => select.form.submit()));
addEventListener("pageshow", () => { leaving = false; });
document.addEventListener("submit", (event) => { leaving = !event.defaultPrevented; });
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || typing(event.target)) return;
  const keys = { case: caseKeys, queue: queueKeys }[page] || shared;
  if (leaving || keys(event)) event.preventDefault();
});
