// The page: teaches, asks, and shows what GET /model says every two seconds. Everything from the service is put into the
// page as text, never as markup.

const REFRESH = 2000;
const find = (id) => document.getElementById(id);
const percent = (share) => `${Math.round(share * 100)} %`;
const number = (value) => value.toLocaleString("en");

let token = sessionStorage.getItem("everlearn-token") ?? "";

async function call(path, body) {
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  const options = body === undefined
    ? { headers }
    : { method: "POST", headers: { ...headers, "Content-Type": "application/json" }, body: JSON.stringify(body) };
  const response = await fetch(path, options);
  if (response.status === 401) find("token-form").hidden = false;
  const answer = await response.json().catch(() => ({ error: `the service answered ${response.status}` }));
  if (!response.ok) throw new Error(answer.error ?? `the service answered ${response.status}`);
  return answer;
}

function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A row of a bar chart: name, bar, value, and where the best was.
function bar(name, share, value, best) {
  const row = element("li");
  const track = element("div", "track");
  const fill = element("div", "fill");
  fill.style.width = percent(share).replace(" ", "");
  track.append(fill);
  if (best !== undefined) {
    const mark = element("div", "mark");
    mark.style.left = `calc(${best * 100}% - 1px)`;
    track.append(mark);
    if (best - share > 0.2) row.className = "lost";
  }
  track.setAttribute("aria-hidden", "true");
  const title = element("span", "name", name);
  title.title = name;
  row.append(title, track, element("span", "value", value));
  return row;
}

function show(list, rows) {
  if (rows.length) list.replaceChildren(...rows);
}

// Labels in a form are texts; a model may have whole numbers.
let numbersAsLabels = false;
const asLabel = (text) => (numbersAsLabels && /^-?\d+$/.test(text) ? Number(text) : text);

async function submit(form, work) {
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    await work();
  } finally {
    button.disabled = false;
  }
}

function complain(place, error) {
  place.className = "result bad";
  place.textContent = error.message;
}

find("teach").addEventListener("submit", (event) => {
  event.preventDefault();
  submit(event.target, async () => {
    const result = find("teach-result");
    const label = find("teach-label").value.trim();
    try {
      const answer = await call("/examples", { examples: [{ text: find("teach-text").value, label: asLabel(label) }] });
      await learned(answer.ids.at(-1));
      result.className = "result";
      result.textContent = `Learned as “${label}”.`;
      find("teach-text").value = "";
      find("teach-text").focus();
      refresh();
    } catch (error) {
      complain(result, error);
    }
  });
});

async function learned(id) {
  for (let tries = 0; tries < 50; tries += 1) {
    if ((await call(`/examples/${id}`)).learned) return;
    await new Promise((done) => setTimeout(done, 100));
  }
}

find("ask").addEventListener("submit", (event) => {
  event.preventDefault();
  submit(event.target, async () => {
    const result = find("ask-result");
    try {
      const [answer] = (await call("/predictions", { texts: [find("ask-text").value] })).predictions;
      const list = element("ul", "bars");
      const likely = answer.ranking.filter((one) => one.probability !== null);
      list.append(...likely.map((one) => bar(String(one.label), one.probability, percent(one.probability))));
      result.className = "result";
      result.replaceChildren(element("p", "answer", String(answer.label)), list);
    } catch (error) {
      complain(result, error);
    }
  });
});

find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  token = find("token").value;
  sessionStorage.setItem("everlearn-token", token);
  find("token-form").hidden = true;
  refresh();
});

function recentRow(example) {
  const row = element("li");
  const what = element("span", "what", `${example.label} — `);
  if (example.predicted === null) what.append("the first of all");
  else if (example.predicted === example.label) what.append(element("span", "right", "✓ it knew"));
  else what.append(element("span", "wrong", `✗ it had said ${example.predicted}`));
  row.append(element("span", "said", example.text), what);
  return row;
}

const SVG = "http://www.w3.org/2000/svg";

function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function drawCurve(points) {
  const curve = find("curve");
  const [left, right, top, bottom] = [64, 548, 12, 168];
  const shapes = [0, 0.5, 1].flatMap((share) => {
    const y = bottom - share * (bottom - top);
    return [
      shape("line", { class: "grid", x1: left, x2: right, y1: y, y2: y }),
      shape("text", { x: left - 8, y: y + 4, "text-anchor": "end" }, `${share * 100}%`),
    ];
  });
  if (points.length) {
    const [first, last] = [points[0].examples, points.at(-1).examples];
    const place = ({ examples, accuracy }) => {
      const x = last === first ? (left + right) / 2 : left + ((examples - first) / (last - first)) * (right - left);
      return [x.toFixed(1), (bottom - accuracy * (bottom - top)).toFixed(1)];
    };
    const places = points.map(place);
    const line = places.map(([x, y]) => `${x},${y}`).join(" ");
    const [endX, endY] = places.at(-1);
    shapes.push(
      shape("polygon", { class: "area", points: `${places[0][0]},${bottom} ${line} ${endX},${bottom}` }),
      shape("polyline", { class: "line", points: line }),
      shape("circle", { class: "dot", cx: endX, cy: endY, r: 4.5 }),
      shape("text", { x: left, y: 190 }, `${number(first)} examples`),
      shape("text", { x: right, y: 190, "text-anchor": "end" }, number(last)),
    );
    curve.setAttribute("aria-label", `${percent(points.at(-1).accuracy)} right after ${number(last)} examples`);
  } else {
    shapes.push(shape("text", { x: 296, y: 96, "text-anchor": "middle" }, "No examples yet"));
  }
  curve.replaceChildren(...shapes);
}

function render(model) {
  find("model").textContent = `${model.method} on ${model.encoder}`;
  const status = find("status");
  status.className = model.backlog ? "pill learning" : "pill";
  status.textContent = model.backlog ? `learning, ${number(model.backlog)} waiting` : "up to date";
  find("fact-examples").textContent = number(model.examples);
  find("fact-labels").textContent = number(model.labels.length);
  find("fact-memory").textContent = number(model.memory_entries);
  find("fact-accuracy").textContent = model.accuracy === null ? "–" : percent(model.accuracy);
  numbersAsLabels = typeof model.labels[0]?.label === "number";
  find("known-labels").replaceChildren(...model.labels.map(({ label }) => new Option(String(label))));
  const most = Math.max(...model.labels.map((one) => one.examples), 1);
  const byCount = model.labels.toSorted((one, other) => other.examples - one.examples);
  show(find("labels"), byCount.map((one) => bar(String(one.label), one.examples / most, number(one.examples))));
  show(find("recent"), model.recent.map(recentRow));
  show(find("retention"), model.retention.map((one) => bar(String(one.label), one.now, percent(one.now), one.best)));
  drawCurve(model.accuracy_curve);
}

async function refresh() {
  const problem = find("problem");
  try {
    render(await call("/model"));
    const health = await call("/health").catch((error) => ({ problem: error.message }));
    problem.hidden = !health.problem;
    problem.textContent = health.problem ?? "";
  } catch (error) {
    find("status").textContent = "not connected";
    problem.hidden = false;
    problem.textContent = error instanceof TypeError ? "The service does not answer." : error.message;
  }
}

async function keepUpToDate() {
  if (!document.hidden && find("token-form").hidden) await refresh();
  setTimeout(keepUpToDate, REFRESH);
}

drawCurve([]);
keepUpToDate();
