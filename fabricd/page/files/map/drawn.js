// What is drawn on a map beside cells and links: titles, numbers of rows and columns, and which side is which.

import { cornerOf, letterOf, othersOf } from "./layout.js";

const FONT = "system-ui, 'DejaVu Sans', sans-serif";
/** Pixels of a cell, at least, that numbers are written for. */
const READABLE = 15;
/** Pixels at the foot of the picture that legend and compass have for themselves. */
export const FOOT = 118;

/** Maps have titles, rows and columns numbers, where there is room. */
export function mapTitles(view) {
  const { pen, unit, ratio, map, torus } = view, [a, b] = view.pair, [ox, oy] = view.origin;
  const size = Math.min(13 * ratio, unit * 0.5), place = (x, y) => [ox + x * unit, oy + y * unit];
  pen.textBaseline = "middle";
  for (const { x, y, title } of map.maps) {
    pen.textAlign = "left";
    pen.font = `600 ${Math.max(9 * ratio, Math.min(14 * ratio, unit * 0.7))}px ${FONT}`;
    pen.fillStyle = view.colours.text;
    if (pen.measureText(title).width < unit * (torus.size[a] + 1.5)) pen.fillText(title, ...place(x - 0.4, y - 1.45));
    if (unit < READABLE * ratio) continue;
    pen.textAlign = "center";
    pen.font = `${size}px ${FONT}`;
    pen.fillStyle = view.colours.soft;
    for (let i = 0; i < torus.size[a]; i++) pen.fillText(`${i}`, ...place(x + i, y - 0.78));
    for (let j = 0; j < torus.size[b]; j++) pen.fillText(`${j}`, ...place(x - 0.78, y + j));
  }
}

/** At the lower right: which sides and corners of a cell which links leave by. */
export function mapCompass(view) {
  const { pen, canvas, ratio, torus } = view, [a, b] = view.pair;
  const ox = canvas.width - 62 * ratio, oy = canvas.height - 58 * ratio, cell = 9 * ratio, reach = 22 * ratio, far = 34 * ratio;
  const arms = [[a, 1, 0], [b, 0, 1]].filter(([d]) => torus.size[d] > 1);
  othersOf(torus, view.pair).forEach((d, order) => {
    if (torus.size[d] > 1) arms.push([d, ...cornerOf(order, 1).map(v => Math.sign(v) * 0.82)]);
  });
  pen.font = `600 ${11 * ratio}px ${FONT}`;
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.strokeStyle = view.colours.soft;
  pen.lineWidth = 1.5 * ratio;
  for (const [d, x, y] of arms) {
    for (const sign of [1, -1]) {
      pen.beginPath();
      pen.moveTo(ox, oy);
      pen.lineTo(ox + sign * x * reach, oy + sign * y * reach);
      pen.stroke();
      pen.fillStyle = sign > 0 ? view.colours.text : view.colours.soft;
      pen.fillText(`${sign > 0 ? "+" : "−"}${letterOf(d)}`, ox + sign * x * far, oy + sign * y * far);
    }
  }
  pen.fillStyle = view.colours.node;
  pen.fillRect(ox - cell, oy - cell, 2 * cell, 2 * cell);
}
