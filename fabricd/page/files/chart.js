// Small lines over time, and figures as people read them.

export function short(value) {
  const steps = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]];
  for (const [size, letter] of steps) if (value >= size) return `${(value / size).toPrecision(3)} ${letter}`;
  return value >= 100 || Number.isInteger(value) ? value.toFixed(0) : value.toPrecision(2);
}

export function inBytes(value) {
  return `${short(value)}${value >= 1e3 ? "" : " "}B`;
}

/** Microseconds, in the unit that fits. */
export function inTime(us) {
  if (us < 1e3) return `${short(us)} µs`;
  return us < 1e6 ? `${(us / 1e3).toPrecision(3)} ms` : `${(us / 1e6).toPrecision(3)} s`;
}

/** A length of time in seconds, in the unit that fits. */
export function seconds(s) {
  if (s >= 120) return `${(s / 60).toPrecision(3)} min`;
  if (s >= 1 || s <= 0) return `${Number(s.toPrecision(3))} s`;
  const [size, unit] = [[1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]].find(([least]) => s >= least) || [1e-12, "ps"];
  return `${Number((s / size).toPrecision(3))} ${unit}`;
}

/** Draws values, each from a time to another, over a window of time; `at` is marked. */
export function drawChart(canvas, values, [begin, end], { colours, colour, unit, at = null, last = "now" }) {
  const ratio = window.devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight;
  if (!wide) return;
  canvas.width = wide * ratio;
  canvas.height = high * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  const seen = values.filter(([from, to]) => to > begin && from < end), largest = Math.max(...seen.map(value => value[2]), 0);
  const top = 14, foot = high - 14, most = largest || 1;
  pen.strokeStyle = colours.grid;
  pen.beginPath();
  for (const y of [top, (top + foot) / 2, foot]) {
    pen.moveTo(0, y + 0.5);
    pen.lineTo(wide, y + 0.5);
  }
  pen.stroke();
  const x = time => (wide * (Math.max(begin, Math.min(end, time)) - begin)) / (end - begin || 1), y = v => foot - (v / most) * (foot - top);
  pen.fillStyle = colour;
  for (const [from, to, value] of seen) pen.fillRect(x(from), y(value), Math.max(1, x(to) - x(from)), foot - y(value));
  if (at !== null) {
    pen.fillStyle = colours.text;
    pen.fillRect(x(at), top - 4, 1.5, foot - top + 8);
  }
  pen.fillStyle = colours.soft;
  pen.textAlign = "left";
  pen.fillText(`${short(largest)}${unit.startsWith("B") && largest >= 1e3 ? "" : " "}${unit}`, 0, 10);
  pen.fillText(last === "now" ? `${seconds(end - begin)} ago` : "0", 0, high - 2);
  pen.textAlign = "right";
  pen.fillText(last, wide, high - 2);
}
