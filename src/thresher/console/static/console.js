// All that moves on the console's pages. Everything works without it, a little less smoothly.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const one = (selector, root = document) => root.querySelector(selector);

/** A part of a page from the server; an ended session leads to the login page. */
async function fragment(address, signal) {
  const response = await fetch(address, { headers: { "X-Fragment": "1" }, credentials: "same-origin", signal });
  if (response.status === 401) {
    location.assign("/login?ended=1&next=" + encodeURIComponent(location.pathname + location.search));
    throw new DOMException("signed out", "AbortError");
  }
  if (response.status === 429) { // overtaken by another window of the same session
    await pause(500);
    return fragment(address, signal);
  }
  if (!response.headers.has("X-Fragment")) throw new Error("not from this server"); // a proxy's own page, say
  return response.text();
}

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/** Put a part into its place; only the newest of several requests for the same place wins. */
const waiting = new Map();
async function show(place, address) {
  waiting.get(place)?.abort();
  const control = new AbortController();
  waiting.set(place, control);
  place.setAttribute("aria-busy", "true");
  try {
    place.innerHTML = await fragment(address, control.signal);
    enliven(place);
  } catch (error) {
    if (error.name !== "AbortError") say(place, "The server cannot be reached. Try again in a moment.");
    return;
  } finally {
    if (waiting.get(place) === control) place.setAttribute("aria-busy", "false");
  }
}

/** Say that what is shown may be old, while the server cannot be reached. */
function lost(yes) {
  const note = document.getElementById("lost");
  if (note) note.hidden = !yes;
}

function say(place, text) {
  const alert = document.createElement("div");
  alert.className = "alert";
  alert.setAttribute("role", "alert");
  alert.textContent = text;
  place.replaceChildren(alert);
}

// Colours -------------------------------------------------------------------------------------------------------------

function themes() {
  const group = one(".themes");
  if (!group) return;
  group.hidden = false;
  const mark = () => {
    const now = document.documentElement.dataset.theme || "system";
    for (const button of all("[data-theme-choice]", group)) {
      button.setAttribute("aria-pressed", String(button.dataset.themeChoice === now));
    }
  };
  group.addEventListener("click", (event) => {
    const button = event.target.closest("[data-theme-choice]");
    if (!button) return;
    const theme = button.dataset.themeChoice;
    if (theme === "system") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try { localStorage.setItem("thresher-theme", theme); } catch { /* storage may be off */ }
    mark();
  });
  mark();
}

// Are you sure? -------------------------------------------------------------------------------------------------------

function confirmations() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const button = event.submitter;
    if (!button?.dataset.confirm || button.dataset.confirmed) return;
    event.preventDefault();
    const needed = button.dataset.needs && document.getElementById(button.dataset.needs);
    if (needed && !needed.value.trim()) {
      needed.focus();
      needed.setAttribute("aria-invalid", "true");
      return;
    }
    const dialog = document.createElement("dialog");
    const text = document.createElement("p");
    text.id = "confirm-text";
    text.textContent = button.dataset.confirm;
    dialog.setAttribute("aria-labelledby", "confirm-text");
    const buttons = document.createElement("div");
    buttons.className = "buttons";
    const yes = document.createElement("button");
    yes.type = "button";
    yes.className = "primary";
    yes.textContent = button.dataset.yes || "Yes";
    const no = document.createElement("button");
    no.type = "button";
    no.textContent = "Not now";
    buttons.append(yes, no);
    dialog.append(text, buttons);
    document.body.append(dialog);
    dialog.addEventListener("close", () => dialog.remove());
    no.addEventListener("click", () => dialog.close());
    yes.addEventListener("click", () => {
      dialog.close();
      // A watched page is drawn anew while the dialog is open, and its old forms with it: this one is sent all the same.
      if (!form.isConnected) {
        form.hidden = true;
        document.body.append(form);
      }
      if (button.form !== form) return; // another plan is shown by now, and was not agreed to
      button.dataset.confirmed = "yes";
      form.requestSubmit(button);
      delete button.dataset.confirmed;
    });
    dialog.showModal();
    no.focus();
  });
}

// Once is enough ------------------------------------------------------------------------------------------------------

function once() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (event.defaultPrevented || (event.submitter?.formMethod || form.method) !== "post") return;
    if (form.dataset.sent) event.preventDefault();
    form.dataset.sent = "yes";
  });
  // Back on a page that the browser has kept, its forms can be sent again.
  addEventListener("pageshow", () => { for (const form of all("form[data-sent]")) delete form.dataset.sent; });
}

// Ask -----------------------------------------------------------------------------------------------------------------

const scales = {
  log: { to: (position) => Number((10 ** position).toPrecision(2)), from: (value) => Math.log10(value) },
  power: { to: (position) => `1e${position}`, from: (value) => Math.round(Math.log10(value)) },
};

function asking() {
  const form = one("form[data-plan]");
  if (!form) return;
  const place = document.getElementById("plan");
  const defaults = JSON.parse(form.dataset.defaults);
  let timer = 0;
  const replan = (delay) => {
    clearTimeout(timer);
    // From here on neither the plan that is shown nor one that is on its way is the one that would be run.
    waiting.get(place)?.abort();
    waiting.delete(place);
    place.setAttribute("aria-busy", "true");
    for (const button of all("button", place)) button.disabled = true;
    timer = setTimeout(() => {
      const settings = new URLSearchParams(new FormData(form));
      show(place, `${form.dataset.plan}?${settings}`).then(mark);
      remember(settings);
    }, delay);
  };
  const mark = () => {
    const wrong = one("[data-wrong]", place)?.dataset.wrong;
    for (const field of all("[aria-invalid]", form)) field.removeAttribute("aria-invalid");
    if (wrong) document.getElementById(wrong)?.setAttribute("aria-invalid", "true");
  };
  // The address says what is filled in, so that reloading, coming back and signing in again keep it.
  const remember = (settings) => {
    for (const [name, value] of [...settings]) {
      if (name === "name" || value === defaults[name]) settings.delete(name);
    }
    const address = `/ask?${settings}`.replace(/\?$/, "");
    if (address.length < 1900) history.replaceState(null, "", address);
  };
  // What was refused was sent here; reloading shows it again instead of sending it again.
  if (new URLSearchParams(location.search).has("agreed")) remember(new URLSearchParams(new FormData(form)));
  for (const button of all("[data-fill]", form)) {
    button.addEventListener("click", () => {
      const field = document.getElementById(button.dataset.fill);
      field.value = button.dataset.value;
      field.dispatchEvent(new Event("input", { bubbles: true }));
    });
  }
  for (const slider of all("[data-slides]", form)) {
    const field = document.getElementById(slider.dataset.slides);
    const scale = scales[slider.dataset.scale];
    const follow = () => {
      const value = Number(field.value);
      if (value > 0) slider.value = scale.from(value);
      slider.setAttribute("aria-valuetext", field.value);
    };
    slider.hidden = false;
    follow();
    slider.addEventListener("input", () => {
      field.value = scale.to(Number(slider.value));
      slider.setAttribute("aria-valuetext", field.value);
    });
    field.addEventListener("input", follow);
  }
  form.addEventListener("input", (event) => {
    event.target.removeAttribute("aria-invalid");
    replan(event.target.type === "range" ? 60 : 250);
  });
  form.addEventListener("submit", (event) => {
    if (event.submitter?.dataset.confirm) return;
    event.preventDefault();
    replan(0);
  });
}

// Watch ---------------------------------------------------------------------------------------------------------------

function watching() {
  const place = one("[data-events]");
  if (!place) return;
  const source = new EventSource(place.dataset.events);
  const said = document.getElementById("said");
  source.addEventListener("progress", (event) => {
    const { html, said: text } = JSON.parse(event.data);
    const focused = place.contains(document.activeElement) ? document.activeElement.textContent : null;
    place.innerHTML = html;
    if (focused) all("a, button", place).find((each) => each.textContent === focused)?.focus();
    if (said.textContent !== text) said.textContent = text;
    countdown();
    lost(false);
  });
  source.addEventListener("end", () => source.close());
  source.addEventListener("error", async () => {
    lost(true);
    // A lost connection is taken up again by itself. A refusal is not: the session has ended, the server is full, or a
    // proxy answers for one that is away. The page is loaded anew when somebody is there to answer.
    while (source.readyState === EventSource.CLOSED) {
      await pause(2000);
      const answer = await fetch(location.href, { method: "HEAD", headers: { "X-Fragment": "1" } }).catch(() => null);
      if (answer && answer.status < 500) return location.reload();
    }
  });
  addEventListener("pagehide", () => source.close());
}

function countdown() {
  for (const place of all("[data-until]")) {
    const left = Math.max(0, Math.round((Date.parse(place.dataset.until) - Date.now()) / 1000));
    const [hours, minutes, seconds] = [Math.floor(left / 3600), Math.floor(left / 60) % 60, left % 60];
    const two = (number) => String(number).padStart(2, "0");
    const text = left ? `in ${hours ? `${hours}:${two(minutes)}` : minutes}:${two(seconds)}` : "any moment";
    if (place.textContent !== text) place.textContent = text;
  }
}

// Home ----------------------------------------------------------------------------------------------------------------

function refreshing() {
  const place = one("[data-refresh]");
  if (!place) return;
  setInterval(async () => {
    if (document.hidden || place.contains(document.activeElement) || getSelection()?.toString()) return;
    try {
      place.innerHTML = await fragment(place.dataset.refresh);
      lost(false);
    } catch {
      lost(true); // the next one may get through
    }
  }, 1000 * Number(place.dataset.every));
}

// Read ----------------------------------------------------------------------------------------------------------------

function tables() {
  const place = document.getElementById("table");
  if (!place) return;
  const load = (address) => {
    const url = new URL(address, location.href);
    history.replaceState(null, "", url.pathname + url.search);
    return show(place, url.pathname.replace(/\/answer$/, "/table") + url.search);
  };
  place.addEventListener("click", async (event) => {
    const link = event.target.closest("a[data-sort], a[data-page]");
    if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    const name = link.textContent;
    await load(link.href);
    all("a[data-sort], a[data-page]", place).find((each) => each.textContent === name)?.focus();
  });
  const form = one("form[data-table]");
  if (!form) return;
  let timer = 0;
  const search = () => load(`${location.pathname}?${new URLSearchParams(new FormData(form))}`);
  form.addEventListener("submit", (event) => { event.preventDefault(); clearTimeout(timer); search(); });
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(search, 200); });
}

function fragments() {
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.dataset.fragment) return;
    event.preventDefault();
    const address = new URL(form.action);
    show(document.getElementById(form.dataset.fragment), `${address.pathname}?${new URLSearchParams(new FormData(form))}`);
  });
}

function trees() {
  for (const button of all("[data-tree]")) {
    button.addEventListener("click", () => {
      for (const branch of all(".tree details")) branch.open = button.dataset.tree === "open";
    });
  }
}

function copying(root) {
  for (const button of all("[data-copy]", root)) {
    button.addEventListener("click", async () => {
      const source = document.getElementById(button.dataset.copy);
      try {
        await navigator.clipboard.writeText(source.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(source);
        button.textContent = "Selected";
      }
      setTimeout(() => { button.textContent = "Copy"; }, 2000);
    });
  }
}

/** What new parts of a page need. */
function enliven(root) {
  for (const each of all(".with-scripts", root)) each.hidden = false;
  copying(root);
}

themes();
confirmations();
once();
asking();
watching();
refreshing();
tables();
fragments();
trees();
enliven(document);
countdown();
setInterval(countdown, 1000);
