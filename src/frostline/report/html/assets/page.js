"use strict";
// Draws the figures of the page from the JSON in it, with uPlot; sorts the tables. Loads nothing.
(() => {
  const figures = JSON.parse(document.getElementById("data").textContent);
  const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  const arrays = { f4: Float32Array, f8: Float64Array, u1: Uint8Array };

  const PAPER = 680;  // CSS pixels: the text of an A4 page with Chromium's margins

  function unpack(field) {
    const bytes = Uint8Array.from(atob(field.data), (c) => c.charCodeAt(0));
    return new arrays[field.type](bytes.buffer);
  }

  const number = (value) =>
    value == null ? "" : value >= 100 ? value.toLocaleString("en", { maximumFractionDigits: 0 })
      : value >= 1 ? value.toFixed(1) : value >= 0.01 ? value.toFixed(2) : String(+value.toPrecision(2));
  const short = (value) =>
    value >= 1e6 ? +(value / 1e6).toPrecision(3) + " M" : value >= 1e3 ? +(value / 1e3).toPrecision(3) + " k" : String(value);
  const time = (ms) => (ms / 1000).toFixed(3) + " s";
  const seconds = (u, ticks) => ticks.map((t) => +(t / 1000).toFixed(3) + " s");
  const length = (ms) => (ms >= 1000 ? +(ms / 1000).toPrecision(4) + " s" : number(ms) + " ms");
  const milliseconds = (u, ticks) => ticks.map((t) => (t == null ? "" : length(t)));

  function axis(label, values, more) {
    return Object.assign({
      label, values, stroke: css("--fore"), labelSize: 0, size: 76, font: "12px system-ui, sans-serif",
      labelFont: "12px system-ui, sans-serif", grid: { stroke: css("--grid"), width: 1 }, ticks: { stroke: css("--grid"), width: 1 },
    }, more || {});
  }
  const below = (label, values) => axis(label, values, { size: 34 });

  // uPlot remembers the colors that it has set last: what we draw must leave them as they were.
  const kept = (paint) => (u) => { u.ctx.save(); paint(u); u.ctx.restore(); };

  let undo = [];  // what takes the figures away again, when they are drawn anew

  // ``whole``: the range of x that is shown at first, where it is not that of the data.
  function plot(place, options, data, whole) {
    const onPaper = document.documentElement.classList.contains("paper");
    const width = () => (onPaper ? PAPER : Math.max(260, place.clientWidth));
    const made = new uPlot(Object.assign({ width: width(), legend: { live: true } }, options), data, place);
    const observer = new ResizeObserver(() => {
      if (width() !== made.width) made.setSize({ width: width(), height: made.height });
    });
    observer.observe(place);
    if (whole) made.setScale("x", whole);
    const pressed = keyboard(made, whole || { min: data[0][0], max: data[0][data[0].length - 1] });
    place.addEventListener("keydown", pressed);
    undo.push(() => { observer.disconnect(); place.removeEventListener("keydown", pressed); made.destroy(); });
  }

  // A figure that has the focus is moved and zoomed by keys.
  function keyboard(made, whole) {
    return (event) => {
      const { min, max } = made.scales.x, span = max - min;
      const moves = { ArrowLeft: [-0.2, -0.2], ArrowRight: [0.2, 0.2], "+": [0.25, -0.25], "=": [0.25, -0.25], "-": [-0.5, 0.5] };
      const move = moves[event.key];
      if (event.key === "0") made.setScale("x", whole);
      else if (move) made.setScale("x", { min: min + move[0] * span, max: max + move[1] * span });
      else return;
      event.preventDefault();
    };
  }

  // Red where a pass of the same process overlaps: two series over one axis of time.
  function points(label, color, size) {
    return {
      label, stroke: color, fill: color, paths: () => null, value: (u, v) => (v == null ? "" : length(v)),
      points: { show: true, size, fill: color, stroke: color, width: 0 },
    };
  }

  function split(figure) {
    const start = unpack(figure.start), length = unpack(figure.length), touched = unpack(figure.touched);
    // What took no time has no place on a logarithmic scale, and stands at its foot.
    const shown = (v) => (figure.uneven ? Math.max(v, 0.01) : v);
    const clear = Array.from(length, (v, i) => (touched[i] ? null : shown(v)));
    const red = Array.from(length, (v, i) => (touched[i] === 1 ? shown(v) : null));
    const other = Array.from(length, (v, i) => (touched[i] === 2 ? shown(v) : null));
    return touched.includes(2) ? [start, clear, red, other] : [start, clear, red];
  }

  function drawSteps(place, figure, shaded) {
    const data = split(figure);
    const [clear, red] = figure.legend || ["passes took less than a tenth", "a tenth or more"];
    const x = { time: false, range: (u, low, high) => (low === high ? [low - 1, high + 1] : [low, high]) };
    const options = {
      height: shaded ? 220 : 280,
      scales: { x, y: figure.uneven ? { distr: 3, range: (u, low, high) => [Math.max(low || 0.01, 0.01), (high || 1) * 1.5] }
        : { range: (u, low, high) => [0, (high || 1) * 1.08] } },
      series: [{ label: "at", value: (u, v) => (v == null ? "" : time(v)) }, points(clear, css("--step"), 4),
        points(red, css("--full"), 6), ...(data[3] ? [points("consistent with a pass in another process", css("--middle"), 6)] : [])],
      axes: [below("", seconds), axis("", milliseconds)],
      hooks: {},
    };
    if (shaded) {
      const from = unpack(figure.pauseStart), length = unpack(figure.pauseLength);
      const elsewhere = figure.elsewhere.map((one) => [unpack(one.start), unpack(one.length)]);
      const shade = (u, starts, lengths, fill) => {
        u.ctx.fillStyle = fill;
        const edge = (t) => Math.min(u.bbox.left + u.bbox.width, Math.max(u.bbox.left, u.valToPos(t, "x", true)));
        for (let i = 0; i < starts.length; i++) {
          const left = edge(starts[i]);
          u.ctx.fillRect(left, u.bbox.top, Math.max(1, edge(starts[i] + lengths[i]) - left), u.bbox.height);
        }
      };
      options.hooks.drawClear = [kept((u) => {
        elsewhere.forEach(([starts, lengths]) => shade(u, starts, lengths, css("--elsewhere")));
        shade(u, from, length, css("--shade"));
      })];
      options.hooks.draw = [kept((u) => {  // a step lasts from its point on
        const [start, clear, red, other] = data;
        const edge = (t) => Math.min(u.bbox.left + u.bbox.width, Math.max(u.bbox.left, u.valToPos(t, "x", true)));
        const high = 3 * (devicePixelRatio || 1);
        for (let i = 0; i < start.length; i++) {
          const amber = other && other[i] != null;
          const took = amber ? other[i] : red[i] == null ? clear[i] : red[i];
          const left = edge(start[i]), right = edge(start[i] + took);
          u.ctx.fillStyle = css(amber ? "--middle" : red[i] == null ? "--step" : "--full");
          u.ctx.fillRect(left, u.valToPos(took, "y", true) - high / 2, Math.max(1, right - left), high);
        }
      })];
    }
    plot(place, options, data, shaded ? { min: figure.low, max: figure.high } : null);
  }

  function drawTimeline(place, figure) {
    const lanes = figure.lanes.map((lane) => Object.assign({}, lane, {
      start: unpack(lane.start), length: unpack(lane.length), generation: unpack(lane.generation),
      gaps: lane.gaps && { start: unpack(lane.gaps.start), length: unpack(lane.gaps.length), kind: unpack(lane.gaps.kind) },
    }));
    const kinds = ["unexplained", "consistent with a pass", "no request in flight"];
    const narrow = place.clientWidth < 600, row = 26;
    const colors = ["--young", "--middle", "--full"];
    const tip = document.createElement("div");
    tip.className = "tip";
    tip.hidden = true;
    // On a phone without the pid, where nobody else has the name.
    const bare = (name) => name.replace(/ \(pid .*/, "");
    const alone = (name) => lanes.filter((lane) => bare(lane.name) === bare(name)).length === 1;
    const most = narrow ? 15 : 30;
    const cut = (full) => {
      const name = narrow && alone(full) ? bare(full) : full;
      return name.length > most ? name.slice(0, most - 1) + "…" : name;
    };
    const options = {
      height: lanes.length * row + 60, legend: { show: false }, cursor: { y: false, points: { show: false } },
      scales: { x: { time: false, range: (u, low, high) => [low, high] }, y: { range: [-lanes.length + 0.5, 0.5], dir: 1 } },
      series: [{}, { paths: () => null, points: { show: false } }],
      axes: [below("", seconds), axis("", () => lanes.map((lane) => cut(lane.name)), {
        size: narrow ? 112 : 215, labelSize: 0, splits: () => lanes.map((_, i) => -i), ticks: { show: false },
      })],
      hooks: {
        draw: [kept((u) => {
          const ratio = devicePixelRatio || 1;
          lanes.forEach((lane, i) => {
            const middle = u.valToPos(-i, "y", true), half = row * ratio * 0.36;
            const edge = (t) => Math.min(u.bbox.left + u.bbox.width, Math.max(u.bbox.left, u.valToPos(t, "x", true)));
            u.ctx.fillStyle = css("--rule");
            u.ctx.fillRect(edge(lane.from), middle - ratio, Math.max(1, edge(lane.to) - edge(lane.from)), 2 * ratio);
            for (let generation = 0; generation <= 2; generation++) {
              u.ctx.fillStyle = css(colors[generation]);
              const tall = half * [0.35, 0.6, 1][generation];
              for (let k = 0; k < lane.start.length; k++) {
                if (lane.generation[k] !== generation) continue;
                const stop = lane.start[k] + lane.length[k];
                if (stop < u.scales.x.min || lane.start[k] > u.scales.x.max) continue;
                const left = edge(lane.start[k]);
                u.ctx.fillRect(left, middle - tall, Math.max(ratio, edge(stop) - left), 2 * tall);
              }
            }
            if (lane.gaps) {  // along the foot of the lane
              const top = middle + row * ratio * 0.37, tall = row * ratio * 0.11;
              for (let k = 0; k < lane.gaps.start.length; k++) {
                const stop = lane.gaps.start[k] + lane.gaps.length[k], kind = lane.gaps.kind[k];
                if (stop < u.scales.x.min || lane.gaps.start[k] > u.scales.x.max) continue;
                const left = edge(lane.gaps.start[k]), wide = Math.max(ratio, edge(stop) - left);
                u.ctx.fillStyle = u.ctx.strokeStyle = css(["--quiet", "--full", "--young"][kind]);
                if (kind) u.ctx.fillRect(left, top, wide, tall);
                else { u.ctx.lineWidth = ratio; u.ctx.strokeRect(left, top, wide, tall); }
              }
            }
            if (lane.boundary != null && lane.boundary >= u.scales.x.min && lane.boundary <= u.scales.x.max) {
              u.ctx.fillStyle = css("--good");
              u.ctx.fillRect(edge(lane.boundary), middle - row * ratio * 0.5, 2 * ratio, row * ratio);
            }
          });
        })],
        setCursor: [(u) => {
          const lane = Math.round(-u.posToVal(u.cursor.top, "y"));
          const here = lanes[lane];
          tip.hidden = true;
          if (!here || u.cursor.left < 0) return;
          const at = u.posToVal(u.cursor.left, "x"), near = u.posToVal(u.cursor.left + 4, "x") - at;
          let best = -1;
          for (let k = 0; k < here.start.length; k++) {
            if (here.start[k] - near <= at && at <= here.start[k] + here.length[k] + near &&
                (best < 0 || here.length[k] > here.length[best])) best = k;
          }
          let gap = -1;
          if (here.gaps) gap = here.gaps.start.findIndex((from, k) => from <= at && at <= from + here.gaps.length[k]);
          const idle = gap < 0 ? "" : `, in a gap of ${length(here.gaps.length[gap])} (${kinds[here.gaps.kind[gap]]})`;
          tip.textContent = best < 0 ? `${here.name}, ${time(at)}${idle}`
            : `${here.name}: generation ${here.generation[best]}, ${length(here.length[best])} at ${time(here.start[best])}`;
          tip.hidden = false;
          const left = Math.min(u.cursor.left + u.over.offsetLeft + 12, place.clientWidth - tip.offsetWidth - 4);
          tip.style.left = Math.max(0, left) + "px";
          tip.style.top = u.cursor.top + u.over.offsetTop - 34 + "px";
        }],
      },
    };
    plot(place, options, [[0, figure.until], [null, null]]);
    place.appendChild(tip);
  }

  const color = (i) => css("--c" + Math.min(i, 6));
  const gaps = (values) => Array.from(values, (v) => (Number.isNaN(v) ? null : v));

  function drawLines(place, figure, series, options) {
    const all = figure.lines.flatMap((line, i) => series(line, color(figure.lines.length > 1 && line.name === "any of them" ? 6 : i)));
    plot(place, Object.assign({ height: 260 }, options, {
      series: [options.first, ...all.map(([shown]) => shown)],
    }), [Array.from(unpack(figure.x)), ...all.map(([, values]) => values)]);
  }

  function drawHistogram(place, figure) {
    const stepped = uPlot.paths.stepped({ align: 1 });
    drawLines(place, figure, (line, stroke) => [[
      { label: line.name, stroke, width: 2, paths: stepped, points: { show: false }, value: (u, v) => (v == null ? "" : v.toLocaleString("en")) },
      Array.from(unpack(line.values)).slice(1),
    ]], {
      first: { label: "from", value: (u, v) => (v == null ? "" : length(v)) },
      scales: { x: { time: false, distr: 3 }, y: { distr: 4, range: (u, low, high) => [0, high * 1.3] } },
      axes: [below("", milliseconds), axis("", (u, ticks) => ticks.map((t) => (t == null || t < 0 ? "" : short(t))))],
    });
  }

  function drawHeap(place, figure) {
    drawLines(place, figure, (line, stroke) => [
      [{ label: line.name + ", not frozen", stroke, width: 2, points: { show: false }, value: (u, v) => (v == null ? "" : short(v)) }, gaps(unpack(line.tracked))],
      [{ label: line.name + ", frozen", stroke, width: 2, dash: [6, 4], points: { show: false }, value: (u, v) => (v == null ? "" : short(v)) }, gaps(unpack(line.frozen))],
    ], {
      first: { label: "at", value: (u, v) => (v == null ? "" : time(v)) },
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, (high || 1) * 1.08] } },
      axes: [below("", seconds), axis("", (u, ticks) => ticks.map(short))],
    });
  }

  function drawUtilisation(place, figure) {
    const value = (u, v) => (v == null ? "" : v.toFixed(1) + " %");
    const one = (label, stroke, values, dash) => [{ label, stroke, width: 2, dash, points: { show: false }, value }, gaps(unpack(values))];
    drawLines(place, figure, (line, stroke) => [
      one(line.name + ", MMU", stroke, line.values),
      ...(line.bounded ? [one(line.name + ", BMU", stroke, line.bounded, [6, 4])] : []),
    ], {
      first: { label: "window", value: (u, v) => (v == null ? "" : length(v)) },
      scales: { x: { time: false, distr: 3 }, y: { range: [0, 102] } },
      axes: [below("", milliseconds), axis("", (u, ticks) => ticks.map((t) => t + " %"))],
    });
  }

  function drawHost(place, figure) {
    const said = (u, v) => (v == null ? "" : v.toLocaleString("en", { maximumFractionDigits: 1 }) + figure.unit);
    const line = (label, stroke, values, dash) => [{ label, stroke, width: 2, dash, points: { show: false }, value: said }, gaps(unpack(values))];
    drawLines(place, figure, (one, stroke) => [
      line(one.name + figure.solid, stroke, one.values),
      ...(one.dashed ? [line(one.name + figure.dashed, stroke, one.dashed, [6, 4])] : []),
    ], {
      first: { label: "at", value: (u, v) => (v == null ? "" : time(v)) },
      scales: { x: { time: false }, y: { range: (u, low, high) => [0, (high || 1) * 1.08] } },
      axes: [below("", seconds), axis("", (u, ticks) => ticks.map((t) => (t == null ? ""
        : figure.unit === " MB" && t >= 1000 ? +(t / 1000).toPrecision(3) + " GB" : short(t) + figure.unit)))],
    });
  }

  const draw = {
    timeline: drawTimeline, histogram: drawHistogram, heap: drawHeap, utilisation: drawUtilisation, host: drawHost,
    steps: (place, figure) => drawSteps(place, figure, false), zoom: (place, figure) => drawSteps(place, figure, true),
  };

  function drawAll() {
    undo.forEach((one) => one());
    undo = [];
    figures.forEach((figure, i) => {
      const place = document.getElementById("figure-" + i);
      place.replaceChildren();
      draw[figure.kind](place, figure);
    });
    document.documentElement.dataset.drawn = String(figures.length);
  }

  // --- tables -----------------------------------------------------------------------
  const collator = new Intl.Collator("en", { numeric: true });
  // What is unknown comes last, whichever way a column is sorted. Letters of doubts are no part of a value.
  function key(cell, numbers) {
    const own = Array.from(cell.childNodes).filter((node) => node.className !== "marks");
    const text = own.map((node) => node.textContent).join("").trim();
    if (text === "" || text === "-") return [2, 0];
    const value = numbers ? parseFloat(text.replace(/^[<>=~+]+/, "").replace(/,/g, "")) : NaN;
    return Number.isNaN(value) ? [1, text] : [0, value];
  }
  function compare(a, b, sign) {
    if (a[0] !== b[0]) return a[0] - b[0];
    return sign * (a[0] === 1 ? collator.compare(a[1], b[1]) : a[1] - b[1]);
  }
  const SHOWN = 300;  // rows of a table at first: thousands of them take seconds to lay out
  document.querySelectorAll(".wide table").forEach((table) => {
    const body = table.tBodies[0], heads = Array.from(table.tHead.rows[0].cells);
    let rows = Array.from(table.tBodies).flatMap((one) => Array.from(one.rows)), shown = SHOWN;
    Array.from(table.tBodies).slice(1).forEach((one) => one.remove());
    function show() {
      const part = document.createDocumentFragment();
      rows.slice(0, shown).forEach((row) => part.append(row));
      body.replaceChildren(part);
    }
    if (rows.length > shown) {
      const line = document.createElement("p"), button = document.createElement("button");
      line.className = "quiet";
      line.textContent = `${shown} of ${rows.length.toLocaleString("en")} rows, as sorted. `;
      button.type = "button";
      button.className = "more noprint";
      button.textContent = "Show all";
      button.addEventListener("click", () => { shown = rows.length; line.remove(); show(); });
      line.append(button);
      table.parentElement.after(line);
      show();
    }
    heads.forEach((head, i) => head.firstElementChild.addEventListener("click", () => {
      const numbers = head.classList.contains("right"), now = head.getAttribute("aria-sort");
      // Numbers begin with the largest, words with the first.
      const sign = now === "none" ? (numbers ? -1 : 1) : now === "descending" ? 1 : -1;
      heads.forEach((other) => other.setAttribute("aria-sort", "none"));
      head.setAttribute("aria-sort", sign === 1 ? "ascending" : "descending");
      const keyed = rows.map((row) => [key(row.cells[i], numbers), row]);
      keyed.sort((a, b) => compare(a[0], b[0], sign));
      rows = keyed.map(([, row]) => row);
      rows.forEach((row) => row.cells[0].classList.remove("again"));
      show();
    }));
  });
  document.querySelectorAll("button.copy").forEach((button) => {
    button.addEventListener("click", async () => {
      const code = button.previousElementSibling;
      try {
        await navigator.clipboard.writeText(code.textContent);
        button.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
      }
    });
  });

  drawAll();
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  // Paper is white, and as wide as it is: the figures are drawn anew for it.
  function paper(on) {
    document.documentElement.classList.toggle("paper", on);
    drawAll();
  }
  addEventListener("beforeprint", () => paper(true));
  addEventListener("afterprint", () => paper(false));
})();
