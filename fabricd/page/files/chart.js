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

/** Draws values, one a second, the last at the right. */
export function drawChart(canvas, values, colours, colour, unit) {
  const ratio = window.devicePixelRatio || 1, wide = canvas.clientWidth, high = canvas.clientHeight;
  if (!wide) return;
  canvas.width = wide * ratio;
  canvas.height = high * ratio;
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  const top = 14, foot = high - 14, most = Math.max(...values, 0) || 1;
  pen.strokeStyle = colours.grid;
  pen.beginPath();
  for (const y of [top, (top + foot) / 2, foot]) {
    pen.moveTo(0, y + 0.5);
    pen.lineTo(wide, y + 0.5);
  }
  pen.stroke();
  const count = Math.max(60, values.length), step = wide / (count - 1);
  const x = i => wide - (values.length - 1 - i) * step, y = v => foot - (v / most) * (foot - top);
  if (values.length > 1) {
    pen.beginPath();
    pen.moveTo(x(0), foot);
    values.forEach((v, i) => pen.lineTo(x(i), y(v)));
    pen.lineTo(wide, foot);
    pen.globalAlpha = 0.22;
    pen.fillStyle = colour;
    pen.fill();
    pen.globalAlpha = 1;
    pen.beginPath();
    values.forEach((v, i) => (i ? pen.lineTo(x(i), y(v)) : pen.moveTo(x(i), y(v))));
    pen.strokeStyle = colour;
    pen.lineWidth = 1.5;
    pen.stroke();
  }
  pen.fillStyle = colours.soft;
  pen.textAlign = "left";
  const largest = Math.max(...values, 0);
  pen.fillText(`${short(largest)}${unit.startsWith("B") && largest >= 1e3 ? "" : " "}${unit}`, 0, 10);
  pen.fillText(count > 119 ? `${Math.round(count / 60)} min ago` : `${count} s ago`, 0, high - 2);
  pen.textAlign = "right";
  pen.fillText("now", wide, high - 2);
}
