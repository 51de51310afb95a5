// Draws bars and the curve. Everything is put into the page as text, never as markup.

const SVG = "http://www.w3.org/2000/svg";

export const number = (value) => value.toLocaleString("en");

export function percent(share) {
  if (share > 0 && share < 0.005) return "<1\u202f%";
  if (share < 1 && share >= 0.995) return ">99\u202f%";
  return `${Math.round(share * 100)}\u202f%`;
}

export function element(tag, className, text) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

// A row of a bar chart: name, bar, value, and where the best was.
export function bar(name, share, value, best) {
  const row = element("li");
  const track = element("div", "track");
  const fill = element("div", "fill");
  fill.style.width = `${share * 100}%`;
  track.append(fill);
  if (best !== undefined) {
    const mark = element("div", "mark");
    mark.style.left = `calc(${best * 100}% - 1px)`;
    track.append(mark);
  }
  track.setAttribute("aria-hidden", "true");
  const title = element("span", "name", name);
  title.title = name;
  row.append(title, track, element("span", "value", value));
  return row;
}

function shape(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

export function drawCurve(curve, points) {
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
      const x = last === first ? right : left + ((examples - first) / (last - first)) * (right - left);
      return [x.toFixed(1), (bottom - accuracy * (bottom - top)).toFixed(1)];
    };
    const places = points.map(place);
    const line = places.map(([x, y]) => `${x},${y}`).join(" ");
    const [endX, endY] = places.at(-1);
    shapes.push(
      shape("polygon", { class: "area", points: `${places[0][0]},${bottom} ${line} ${endX},${bottom}` }),
      shape("polyline", { class: "line", points: line }),
      shape("circle", { class: "dot", cx: endX, cy: endY, r: 4.5 }),
      shape("text", { x: right, y: 192, "text-anchor": "end" }, `${number(last)} examples`),
    );
    if (first < last) shapes.push(shape("text", { x: left, y: 192 }, number(first)));
    curve.setAttribute("aria-label", `${percent(points.at(-1).accuracy)} right after ${number(last)} examples`);
  } else {
    shapes.push(shape("text", { x: (left + right) / 2, y: 72, "text-anchor": "middle" }, "Nothing measured yet"));
  }
  curve.replaceChildren(...shapes);
}
