// What is seen, as files: a picture, a drawing of the map, a table of links.

import { DIRECTIONS, linkOf } from "../torus.js";
import { mapWords } from "../map/layout.js";
import { legendOf } from "../legend.js";
import { mapSvg } from "./svg.js";
import { shapeOf } from "./reference.js";

const LETTERING = "system-ui, 'DejaVu Sans', sans-serif";
/** Milliseconds after which a browser has begun to write a file. */
const WRITTEN = 30000;

/** Words in lines that are no wider than so much. */
function lined(pen, text, wide) {
  const lines = [""];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`.trim();
    if (lines.at(-1) && pen.measureText(longer).width > wide) lines.push(word);
    else lines[lines.length - 1] = longer;
  }
  return lines;
}

export class Export {
  constructor(view, player) {
    Object.assign(this, { view, player });
    const on = (id, ending, write) => document.getElementById(id).addEventListener("click", async () => this.save(await write(), ending));
    on("png", "png", () => new Promise(done => this.picture().toBlob(done, "image/png")));
    on("svg", "svg", () => new Blob([this.drawing()], { type: "image/svg+xml" }));
    on("csv", "csv", () => new Blob([this.table()], { type: "text/csv" }));
  }

  /** Names of the torus and the time, as files may be called. */
  name(ending) {
    const time = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
    return `angara-${shapeOf(this.view.torus).replace(":", "-")}-${time}Z.${ending}`;
  }

  save(blob, ending) {
    if (!blob) return;
    const link = document.createElement("a");
    link.href = URL.createObjectURL(blob);
    link.download = this.name(ending);
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), WRITTEN);
  }

  /** What stands above a picture: the network, what is shown of it, when. */
  title(isMap) {
    const { view, player } = this, words = isMap ? mapWords(view.torus, view.pair, view.fixed) : "torus";
    const moment = player.at === null ? "" : `, the past at ${document.getElementById("clock").textContent}`;
    return [`Angara ${document.getElementById("about").textContent}`, `${words}${moment}`, `${new Date().toISOString().slice(0, 19).replace("T", " ")} UTC`];
  }

  /** The picture with title and legend, on the ground it is seen on. */
  picture() {
    const { view } = this, { ratio, colours } = view, head = 60 * ratio, edge = 14 * ratio;
    view.hover = null;
    view.draw(performance.now());
    const canvas = document.createElement("canvas"), seen = view.canvas;
    canvas.width = seen.width;
    canvas.height = seen.height + head;
    const pen = canvas.getContext("2d"), font = (size, weight = 400) => { pen.font = `${weight} ${size * ratio}px ${LETTERING}`; };
    pen.fillStyle = colours.ground;
    pen.fillRect(0, 0, canvas.width, canvas.height);
    pen.drawImage(seen, 0, head);
    const [about, words, date] = this.title(view.isMap), wide = canvas.width - 2 * edge;
    pen.fillStyle = colours.text;
    font(15, 600);
    pen.fillText(about, edge, 26 * ratio, wide);
    pen.fillStyle = colours.soft;
    font(12);
    pen.fillText(`${words} · ${date}`, edge, 46 * ratio, wide);
    this.legend(pen, canvas, edge, font);
    return canvas;
  }

  /** The legend stands where it is seen: at the lower left. */
  legend(pen, canvas, edge, font) {
    const { view } = this, { ratio, colours } = view, { shades, labels, lines } = legendOf(view);
    const bar = 240 * ratio, step = 16 * ratio, foot = canvas.height - edge;
    font(12);
    pen.fillStyle = colours.soft;
    labels.forEach((label, i) => {
      pen.textAlign = ["left", "center", "right"][i];
      pen.fillText(label, edge + (bar * i) / 2, foot);
    });
    shades.forEach((shade, i) => {
      pen.fillStyle = shade;
      pen.fillRect(edge + (i * bar) / shades.length, foot - 25 * ratio, bar / shades.length + 1, 10 * ratio);
    });
    pen.textAlign = "left";
    pen.fillStyle = colours.soft;
    const all = lines.flatMap(line => lined(pen, line, canvas.width - edge - 140 * ratio));
    all.forEach((line, i) => pen.fillText(line, edge, foot - 34 * ratio - (all.length - 1 - i) * step));
  }

  drawing() {
    return mapSvg(this.view, this.title(true), legendOf(this.view));
  }

  /** Every link of the network, in the unit that was chosen. */
  table() {
    const { view } = this, { torus, gauge } = view, rows = ["from,direction,value,unit"];
    if (view.comparison) view.comparison.renew();
    for (let node = 0; node < torus.nodes; node++) {
      for (let direction = 0; direction < DIRECTIONS.length; direction++) {
        if (torus.neighbour(node, direction) < 0) continue;
        const [value, unit] = gauge.number(view.value(linkOf(node, direction)), view.measure);
        rows.push(`"${torus.show(node)}",${DIRECTIONS[direction]},${Number(value.toPrecision(9))},${unit}`);
      }
    }
    return `${rows.join("\n")}\n`;
  }
}
