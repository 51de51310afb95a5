// The page: teaches, asks, and shows what GET /model says every two seconds.

import { bar, drawCurve, element, number, percent } from "/page/drawing.js";
import { TokenNeeded, call, hasToken, useToken } from "/page/service.js";

const REFRESH = 2000;
const MOST_ROWS = 200;
const find = (id) => document.getElementById(id);
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));
const counted = (count, one, many) => `${number(count)} ${count === 1 ? one : many}`;

let waiting = 0; // examples not learned yet, when last heard of
let numbersAsLabels = false; // labels in a form are texts; a model may have whole numbers
const asLabel = (text) => (numbersAsLabels && /^-?\d+$/.test(text) ? Number(text) : text);

function say(place, text, bad = false) {
  if (place.textContent === text) return; // or it would be read out again
  place.classList.toggle("bad", bad);
  place.textContent = text;
}

async function submit(form, result, work) {
  const button = form.querySelector("button");
  if (button.ariaDisabled === "true") return; // not `disabled`, which would take the focus away
  button.ariaDisabled = "true";
  try {
    await work();
  } catch (error) {
    if (error instanceof TokenNeeded) lock();
    else say(result, error.message, true);
  } finally {
    button.ariaDisabled = "false";
  }
}

function onSubmit(id, result, work) {
  const form = find(id);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    submit(form, find(result), work);
  });
  form.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
}

let newest = 0; // the last example taught here; they are learned in order, so the others are learned before it

onSubmit("teach", "teach-result", async () => {
  const label = find("teach-label").value.trim();
  const answer = await call("/examples", { examples: [{ text: find("teach-text").value, label: asLabel(label) }] });
  waiting = answer.backlog;
  newest = answer.ids.at(-1);
  follow(newest, label);
  find("teach-text").value = "";
  find("teach-text").focus();
});

// Says that an example is written down until it is learned, however long that takes.
async function follow(id, label) {
  const result = find("teach-result");
  for (let wait = 100; id === newest; wait = Math.min(wait * 1.5, REFRESH)) {
    const known = await call(`/examples/${id}`).catch(() => ({ learned: false }));
    if (id !== newest) return;
    if (known.learned) {
      say(result, `Learned as “${label}”.`);
      refresh();
      return;
    }
    say(result, `Written down, not learned yet: ${number(Math.max(waiting, 1))} waiting.`);
    await pause(wait);
  }
}

onSubmit("ask", "ask-result", async () => {
  const text = find("ask-text").value;
  find("correct").hidden = true;
  const [answer] = (await call("/predictions", { texts: [text] })).predictions;
  const result = find("ask-result");
  const list = element("ul", "bars");
  const likely = answer.ranking.filter((one) => one.probability >= 0.005); // null, too, is not
  list.append(...likely.map((one) => bar(String(one.label), one.probability, percent(one.probability))));
  result.classList.remove("bad");
  result.replaceChildren(element("p", "answer", String(answer.label)), list);
  find("correct").hidden = false;
  find("correct").onclick = () => {
    find("teach-text").value = text;
    find("teach-label").value = String(answer.label);
    find("teach-label").focus();
    find("teach-label").select();
  };
});

function lock() {
  find("main").classList.add("locked");
  find("problem").hidden = true;
  say(find("status"), "locked");
  find("links").hidden = true;
  say(find("token-result"), hasToken() ? "This is not the right token." : "", true);
  if (!find("token-form").hidden) return;
  find("token-form").hidden = false;
  find("token").focus();
}

onSubmit("token-form", "token-result", async () => {
  say(find("token-result"), "");
  useToken(find("token").value.trim());
  find("token").select();
  await refresh();
});

function unlock() {
  if (find("token-form").hidden) return;
  find("token-form").hidden = true;
  find("token").value = "";
  find("main").classList.remove("locked");
  find("teach-text").focus();
}

function recentRow(example) {
  const row = element("li");
  const what = element("span", "what");
  what.append(element("span", "label", String(example.label)), " ");
  if (example.predicted === null) what.append("nothing was known before");
  else if (example.predicted === example.label) what.append(element("span", "right", "✓ it knew"));
  else what.append(element("span", "wrong", `✗ it had said ${example.predicted}`));
  row.append(element("span", "said", example.text), what);
  return row;
}

// Puts rows into a list when they have changed, so that nothing moves under a reader's hands.
const shown = new Map();

function show(id, values, row, nothing) {
  const key = JSON.stringify([values, nothing]);
  if (shown.get(id) === key) return;
  shown.set(id, key);
  const rows = values.slice(0, MOST_ROWS).map(row);
  if (values.length > MOST_ROWS) rows.push(element("li", "empty", `and ${number(values.length - MOST_ROWS)} more`));
  if (!values.length && nothing) rows.push(element("li", "empty", nothing));
  const list = find(id);
  list.replaceChildren(...rows);
  if (list.scrollHeight > list.clientHeight + 1) list.tabIndex = 0; // to be scrolled with the keyboard
  else list.removeAttribute("tabindex");
}

function retained({ label, now, best }) {
  const row = bar(String(label), now, best > now ? `${percent(now)}, was ${percent(best)}` : percent(now), best);
  if (best - now > 0.2) row.className = "lost";
  return row;
}

function forgotten(retention) {
  if (!retention.length) return "Measured once a label has three examples in the memory.";
  const lost = retention.filter(({ now, best }) => now < best).length;
  if (!lost) return `Nothing: all ${counted(retention.length, "label", "labels")} measured are known as well as ever.`;
  return `${number(lost)} of ${counted(retention.length, "label", "labels")} measured: known less well than before.`;
}

function learning(model, stopped) {
  const just = model.recent.length ? " Just learned:" : "";
  if (!model.backlog) return model.examples ? `Nothing is waiting.${just}` : "";
  const many = `${counted(model.backlog, "example is", "examples are")} waiting`;
  const rate = Math.round(model.examples_per_second);
  return !stopped && rate >= 1 ? `${many}; it learns about ${number(rate)} a second.${just}` : `${many}.${just}`;
}

function render(model, health) {
  const stopped = health.status === "failed";
  waiting = model.backlog;
  say(find("model"), `A classifier that keeps learning: ${model.method} on ${model.encoder}`);
  say(find("status"), stopped ? "stopped" : model.backlog ? "learning" : "up to date");
  find("status").className = `pill ${stopped ? "bad" : model.backlog ? "busy" : ""}`;
  say(find("fact-examples"), number(model.examples));
  say(find("fact-labels"), number(model.labels.length));
  say(find("fact-memory"), number(model.memory_entries));
  say(find("memory-bound"), model.memory_capacity === null ? "in memory" : `in memory, of ${number(model.memory_capacity)}`);
  say(find("fact-accuracy"), model.accuracy === null ? "–" : percent(model.accuracy));
  numbersAsLabels = typeof model.labels[0]?.label === "number";
  const byCount = model.labels.toSorted((one, other) => other.examples - one.examples);
  const most = Math.max(...byCount.slice(0, 1).map((one) => one.examples), 1);
  show("known-labels", model.labels.map(({ label }) => label), (label) => new Option(String(label)));
  show("labels", byCount, (one) => bar(String(one.label), one.examples / most, number(one.examples)), "No labels yet.");
  say(find("learning"), learning(model, stopped));
  const nothing = model.examples ? "Nothing new since the service was started." : "Nothing yet: teach it a text with its label.";
  show("recent", model.recent, recentRow, nothing);
  say(find("forgotten"), forgotten(model.retention));
  show("retention", model.retention, retained);
  drawCurve(find("curve"), model.accuracy_curve);
}

function warn(text) {
  find("problem").hidden = !text;
  say(find("problem"), text);
}

async function refresh() {
  try {
    const model = await call("/model");
    const health = await call("/health");
    unlock();
    find("links").hidden = hasToken(); // a link cannot carry the token
    render(model, health);
    const what = health.status === "failed" ? "Nothing more is learned" : "The model cannot be saved at the moment";
    warn(health.status === "ok" ? "" : `${what}: ${health.problem}.`);
  } catch (error) {
    if (error instanceof TokenNeeded) {
      lock();
      return;
    }
    say(find("status"), "not connected");
    find("status").className = "pill bad";
    warn(error.message);
  }
}

async function keepUpToDate() {
  if (!document.hidden && find("token-form").hidden) await refresh();
  setTimeout(keepUpToDate, REFRESH);
}

drawCurve(find("curve"), []);
keepUpToDate();
