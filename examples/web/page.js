/** A page that is a device: the person chooses what it holds and whether it takes part, and sees what it was asked. */

import { Device } from "./device.js";
import { question, REASONS, STATUSES, terms } from "./words.js";

/** Where this page keeps the person's choices: `{"consent": "on", "holds": {…}}`; nothing until the first "on". */
const CHOICES = "thresher-page";
const SHOWN = 100;
const LOOK_AGAIN = 1000;
/** Seconds after which the person is told that the server does not answer. The device goes on trying. */
const PATIENCE = 5;

const element = (id) => document.getElementById(id);
const [consent, status, problem, visit] = ["consent", "status", "problem", "visit"].map(element);

/** A new element with properties and children. Texts stay texts: nothing of a server is read as HTML. */
function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

const say = (words) => (status.textContent = words);

function complain(error) {
  problem.textContent = error ? (error.message ?? String(error)) : "";
  problem.hidden = !error;
}

// The person's choices

function choices() {
  return JSON.parse(localStorage.getItem(CHOICES) ?? "{}");
}

function choose(chosen) {
  localStorage.setItem(CHOICES, JSON.stringify(chosen));
}

/** One field for each attribute: a list to choose from, check boxes for several values, or a number. */
function field({ name, values, kind }) {
  const id = `holds-${name}`;
  const label = name.replaceAll("_", " ");
  if (kind === "several") {
    const boxes = values.map((value) =>
      make("label", { className: "box" }, make("input", { type: "checkbox", name, value }), value));
    return make("fieldset", { className: "wide" }, make("legend", {}, label), make("div", { className: "boxes" }, ...boxes));
  }
  const input = kind === "number"
    ? make("input", { id, name, type: "number", step: "any", value: values[0] })
    : make("select", { id, name }, make("option", { value: "" }, "nothing"), ...values.map((value) => make("option", { value }, value)));
  if (kind !== "number") input.value = values[0];
  return make("div", { className: "field" }, make("label", { htmlFor: id }, label), input);
}

const form = element("holds");
form.addEventListener("submit", (event) => event.preventDefault());

/** What the device holds: read whenever a question is answered. What was not chosen is no value. */
function held(attributes) {
  const data = new FormData(form);
  return Object.fromEntries(attributes.map(({ name, kind }) => {
    if (kind === "several") return [name, data.getAll(name)];
    const value = data.get(name);
    if (value === "") return [name, null];
    return [name, kind === "number" ? Number(value) : value];
  }));
}

function fill(attributes, holds) {
  for (const { name, kind } of attributes) {
    if (!Object.hasOwn(holds, name)) continue;
    if (kind === "several") {
      for (const box of form.querySelectorAll("input[type=checkbox]")) {
        if (box.name === name) box.checked = holds[name].includes(box.value);
      }
    } else {
      form.elements.namedItem(name).value = holds[name] ?? "";
    }
  }
}

// What the device was asked

function row({ time, asked, status: standing, reason }) {
  const [word, about] = STATUSES[standing];
  const when = new Date(time * 1000);
  const explained = reason ? REASONS[reason] : about;
  return make("tr", {},
    make("td", {}, make("time", { dateTime: when.toISOString() }, when.toLocaleString())),
    make("td", {}, make("strong", {}, question(asked)), make("p", { className: "help" }, terms(asked))),
    make("td", {}, make("span", { className: `badge badge-${standing}` }, word), make("p", { className: "help" }, explained)));
}

let shown = "[]";

function show(log) {
  const latest = log.slice(-SHOWN).reverse();
  const text = JSON.stringify(latest);
  if (text === shown) return;
  shown = text;
  element("entries").replaceChildren(...latest.map(row));
  element("log").hidden = latest.length === 0;
  element("empty").hidden = latest.length > 0;
  const more = log.length - latest.length;
  element("earlier").hidden = more === 0;
  element("earlier").textContent = `And ${more} earlier.`;
}

// The device

function start({ server, enrolmentKey, attributes, policy }) {
  let stop = null;

  // Made at the first "on": before that nothing is opened, kept or asked.
  let made = null;
  const device = () => (made ??= new Device(server, {
    enrolmentKey, policy, attributes: () => held(attributes), patience: PATIENCE, onProblem: complain,
  }));

  const look = async () => {
    if (stop && !document.hidden) await device().log().then((log) => stop && show(log), complain);
  };

  /** Shows whether the device takes part, as it is in all tabs of this page. */
  function present(isOn) {
    consent.checked = isOn;
    visit.disabled = !isOn;
    say(isOn ? "On: this device asks for questions and answers them while the page is open." : "Off: this device is silent.");
  }

  async function run() {
    if (stop) return;
    const { signal } = (stop = new AbortController());
    present(true);
    try {
      await device().run({ signal });
    } catch (error) {
      if (signal.aborted) return;
      complain(error);
      say("The device has stopped. Reload the page to try again.");
    }
  }

  function rest() {
    stop?.abort();
    stop = null;
    show([]);
    present(false);
  }

  async function switchOn() {
    await device().consent(true);
    choose({ consent: "on", holds: held(attributes) });
    void run();
  }

  async function switchOff() {
    rest();
    choose({ consent: "off" }); // first: if this page ends now, it forgets the rest when it is opened again
    await device().consent(false);
  }

  consent.addEventListener("change", async () => {
    complain(null);
    consent.disabled = true;
    try {
      await (consent.checked ? switchOn() : switchOff());
    } catch (error) {
      complain(error);
      consent.checked = stop !== null;
    } finally {
      consent.disabled = false;
      consent.focus();
    }
  });

  visit.addEventListener("click", async () => {
    complain(null);
    await device().visit().catch(complain);
    await look();
  });

  form.addEventListener("change", () => {
    if (stop) choose({ consent: "on", holds: held(attributes) });
  });

  // The person has chosen in another tab.
  addEventListener("storage", ({ key }) => {
    if (key !== CHOICES && key !== null) return;
    const { consent: chosen, holds = {} } = choices();
    fill(attributes, holds);
    if (chosen === "on") void run();
    else rest();
  });

  addEventListener("online", () => stop && device().visit().then(() => complain(null), complain));
  document.addEventListener("visibilitychange", look);
  setInterval(look, LOOK_AGAIN);

  element("attributes").append(...attributes.map(field));
  const { consent: chosen, holds = {} } = choices();
  fill(attributes, holds);
  present(false);
  consent.disabled = false;
  if (chosen === "on") void run();
  else if (chosen === "off") device().consent(false).catch(complain); // unless it was done before
}

try {
  const answer = await fetch("settings.json", { cache: "no-store" });
  if (!answer.ok) throw new Error(`settings.json cannot be read (status ${answer.status}).`);
  start(await answer.json());
} catch (error) {
  say("This device cannot start.");
  complain(error);
}
