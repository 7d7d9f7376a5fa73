// Draws the weave that Python arranged: rows and the scale of time come ready; this maps them to the screen.
// Only what is in view is drawn, so 2,000 threads cost as much as 20. All text goes in as text nodes, never as markup.
const NS = "http://www.w3.org/2000/svg";
const ROW = 26, TOP = 30, PAD = 20;
const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 21600, 86400];
const SVG = new Set(["svg", "g", "path", "rect", "text", "defs", "pattern"]);
let views = 0;

function make(tag, props = {}, ...kids) {
  const node = SVG.has(tag) ? document.createElementNS(NS, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value != null && value !== false) node.setAttribute(name, value);
  }
  node.append(...kids.flat(9).filter((kid) => kid != null));
  return node;
}

function knot(mark, x, y, hollow) {
  const g = make("g", { transform: `translate(${x} ${y})`, style: `--c:${mark.accent}` });
  g.append(make("path", { d: mark.knot, class: hollow || mark.hollow ? "hollow" : "full" }));
  if (mark.inner) g.append(make("path", { d: mark.inner, class: hollow || mark.hollow ? "inner hollow" : "inner" }));
  return g;
}

function reach(start, next) {
  const seen = new Set([start]);
  for (const id of seen) for (const other of next.get(id) || []) seen.add(other);
  return seen;
}

function initialize({ model }) {
  // patches are folded into this side's snapshot, so that a second view, and a saved notebook, have the newest state
  model.on("msg:custom", (patch) => {
    const { nodes, gone, ...rest } = patch;
    const all = { ...model.get("snapshot").nodes, ...nodes };
    for (const id of gone) delete all[id];
    model.set("snapshot", { ...model.get("snapshot"), ...rest, nodes: all });
  });
}

function render({ model, el }) {
  const uid = `slg${++views}`;
  const off = new Set();
  let data, list, index, up, down, query = "", type = "", picked = null, from = 0, to = 1, auto = true, asTable = false, frame = 0, stick; // stick: the end stays in view while threads come

  const chips = make("span", { class: "slg-chips" });
  const kinds = make("select", { "aria-label": "thread type", onchange: (e) => { type = e.target.value; sift(); } });
  const status = make("span", { class: "slg-status", role: "status" });
  const button = (label, title, act) => make("button", { type: "button", title, "aria-label": title, onclick: act }, label);
  const flip = button("Table", "show as a table", () => { asTable = !asTable; flip.setAttribute("aria-pressed", asTable); draw(); });
  const bar = make("div", { class: "slg-bar" }, chips, kinds,
    make("input", { type: "search", placeholder: "Search", "aria-label": "search id, name, task, model", oninput: (e) => { query = e.target.value.toLowerCase(); sift(); } }),
    status, button("−", "zoom out (−)", () => zoom(1.5)), button("+", "zoom in (+)", () => zoom(1 / 1.5)), button("Fit", "fit the time to the rows in view (0)", () => { auto = true; later(); }), button("All", "show all of the time", () => zoom(0)), flip);
  const layer = make("div", { class: "slg-layer" });
  const tall = make("div", { class: "slg-tall" }, layer);
  const scroll = make("div", { class: "slg-scroll", tabindex: 0, role: "listbox", "aria-label": "threads; arrow keys choose one" }, tall);
  const table = make("div", { class: "slg-table", tabindex: 0 });
  const pane = make("aside", { class: "slg-pane", tabindex: -1, "aria-label": "the chosen thread" });
  const note = make("div", { class: "slg-note" });
  const root = make("div", { class: "slg", "data-lm-suppress-shortcuts": "true" }, bar, make("div", { class: "slg-body" }, scroll, table, pane), note);
  el.append(root);

  function load() {
    data = model.get("snapshot");
    up = new Map(); down = new Map();
    for (const [id, node] of Object.entries(data.nodes)) {
      const cited = node.cites.filter((c) => data.nodes[c]);
      up.set(id, cited);
      for (const c of cited) down.set(c, [...(down.get(c) || []), id]);
    }
    const nodes = Object.values(data.nodes);
    chips.replaceChildren(...Object.entries(data.marks).map(([state, mark]) => {
      const many = nodes.filter((n) => n.state === state).length;
      return make("button", { type: "button", "aria-pressed": !off.has(state), title: `show or hide ${state} threads`, onclick: () => { off.has(state) ? off.delete(state) : off.add(state); load(); } },
        make("svg", { width: 16, height: 16, "aria-hidden": "true" }, knot(mark, 8, 8)), `${state} ${many}`);
    }));
    const types = ["", ...new Set(nodes.map((n) => n.type))].sort();
    kinds.replaceChildren(...types.map((t) => make("option", { value: t, selected: t === type }, t || "all types")));
    note.textContent = `An arrow leads from an episode to the thread that was given it; a hollow end left no episode. ${nodes.some((n) => n.hops && n.hops.length) ? "A double stroke is where recovery went on to another route. " : ""}${nodes.length > 80 ? "References to far rows are drawn for the chosen thread. " : ""}${data.hidden}`;
    stick ??= nodes.some((n) => n.e == null);
    sift();
  }

  function sift() {
    list = Object.values(data.nodes).sort((a, b) => a.row - b.row).filter((n) => !off.has(n.state) && (!type || n.type === type)
      && (!query || `${n.id} ${n.name} ${n.model} ${n.card.task}`.toLowerCase().includes(query)));
    index = new Map(list.map((n, i) => [n.id, i]));
    const all = Object.keys(data.nodes).length;
    status.textContent = list.length < all ? `${list.length} of ${all} threads` : "";
    later();
  }

  const later = () => { if (!frame) frame = requestAnimationFrame(() => { frame = 0; draw(); }); };
  const time = (n) => n.time || (n.s == null ? "–" : `${Math.round(Math.max(0, data.now - n.s))} s`);

  function place(t) {
    const k = data.knots;
    let i = 1;
    while (i < k.length - 1 && t > k[i][0]) i++;
    const [[a, u], [b, v]] = [k[i - 1], k[i]];
    return u + (v - u) * Math.min(1, Math.max(0, (t - a) / (b - a || 1)));
  }

  function stamp(t, step) {
    if (data.breaks.length) return new Date(data.origin_ms + t * 1000).toISOString().slice(11, step < 1 ? 21 : 19);
    if (data.knots.at(-1)[0] < 180) return `${+t.toFixed(2)} s`;
    const iso = new Date(t * 1000).toISOString();
    return (t >= 86400 ? `${Math.floor(t / 86400)} d ` : "") + iso.slice(data.knots.at(-1)[0] < 3600 ? 14 : 11, 19);
  }

  function axis(svg, over, X, wide, high) {
    let free = 0;
    for (let i = 0; i < data.knots.length; i += 2) {
      const [[a, u], [b, v]] = [data.knots[i], data.knots[i + 1]];
      const rate = (X(b) - X(a)) / (b - a || 1);
      const step = STEPS.find((s) => s * rate >= 84) || 864000;
      const first = Math.max(a, a - X(a) / rate);
      const shift = data.breaks.length ? (data.origin_ms / 1000) % 86400 : 0;
      for (let t = Math.ceil((first + shift) / step) * step - shift; t <= b && X(t) < wide; t += step) {
        const x = X(t), label = stamp(t, step);
        svg.append(make("path", { d: `M${x} ${TOP - 5}V${high}`, class: "rule" }));
        const half = label.length * 3.4, mid = Math.min(wide - half, Math.max(half, x));
        if (mid - half >= free) { over.append(make("text", { x: mid, y: TOP - 11, "text-anchor": "middle" }, label)); free = mid + half + 8; }
      }
    }
    for (const [u, v] of data.breaks) svg.append(make("path", { d: `M${(at(u, wide) + at(v, wide)) / 2} ${TOP - 5}V${high}`, class: "cut" }));
  }

  const at = (u, wide) => PAD + (u - from) / (to - from) * (wide - 2 * PAD - 6);

  function draw() {
    const slim = root.clientWidth < 700;
    root.classList.toggle("slim", slim);
    scroll.hidden = asTable; table.hidden = !asTable; pane.hidden = !picked;
    if (asTable) return tabulate();
    const width = scroll.clientWidth;
    if (width < 340) return;
    const name = Math.round(Math.min(260, Math.max(130, width * 0.2))), left = slim ? 190 : 182 + name, right = slim ? 64 : 132, wide = width - left - right;
    root.style.setProperty("--name", `${name}px`);
    tall.style.height = `${TOP + Math.max(1, list.length) * ROW + 6}px`;
    if (stick) scroll.scrollTop = 1e9;
    const high = Math.min(scroll.clientHeight, TOP + Math.max(1, list.length) * ROW + 6), top = scroll.scrollTop;
    layer.style.height = `${high}px`;
    const lo = Math.floor(top / ROW), hi = Math.min(list.length, Math.ceil((top + high - TOP) / ROW));
    if (auto && hi > lo) {
      const seen = list.slice(lo, hi), u = Math.min(...seen.map((n) => place(n.q))), v = Math.max(...seen.map((n) => place(n.e ?? data.now)));
      const some = hi - lo < list.length, air = some ? 0.06 * (v - u) : 0;
      from = some ? Math.max(0, u - air) : 0; to = some ? Math.max(from + 1e-4, Math.min(1, v + air)) : 1;
    }
    const Y = (i) => TOP + (i + 0.5) * ROW - top, X = (t) => at(place(t), wide);
    const lit = picked && data.nodes[picked] ? new Set([...reach(picked, up), ...reach(picked, down)]) : null;
    const tone = (id) => (!lit ? "" : id === picked ? "picked" : lit.has(id) ? "lit" : "dim");

    const busy = list.filter((n) => n.state === "running").length;
    const over = make("svg", { width: wide, height: TOP, style: `left:${left}px;top:0`, "aria-hidden": "true" });
    const svg = make("svg", { width: wide, height: high - TOP, viewBox: `0 ${TOP} ${wide} ${high - TOP}`, style: `left:${left}px;top:${TOP}px`, class: busy && busy <= 40 ? "live" : "", "aria-hidden": "true" });
    svg.append(make("defs", {}, [["running", "M-1 7L7 -1M-4 4L4 -4M2 10L10 2"], ["failed", "M1.5 0V6M4.5 0V6"], ["cancelled", "M0 3H2.5"]].map(([state, d]) =>
      make("pattern", { id: `${uid}${state}`, width: 6, height: 6, patternUnits: "userSpaceOnUse" },
        make("rect", { width: 6, height: 6, class: "ground" }), make("path", { d, stroke: data.marks[state].accent, "stroke-width": 2.2 })))));
    axis(svg, over, X, wide, high);
    const rows = [], bars = [], end = (n) => Math.max(X(n.e ?? data.now), X(n.s ?? n.q) + 8);
    for (let i = lo; i < hi; i++) {
      const n = list[i], y = Y(i), mark = data.marks[n.state], x0 = X(n.q), x1 = X(n.s ?? n.e ?? data.now), x2 = end(n);
      rows.push(make("div", { class: `slg-row ${tone(n.id)} ${i % 2 ? "odd" : ""}`, style: `top:${y - ROW / 2}px`, id: `${uid}${n.id}`, role: "option",
        "aria-selected": n.id === picked, "aria-label": `${n.id} ${n.name}, ${n.state}, ${time(n)}`, title: `${n.id} ${n.name}\n${n.model} · ${n.state} · ${time(n)}` },
        make("b", {}, n.id), make("span", {}, n.name), make("span", { class: "soft more" }, n.model), make("i"), make("span", { class: "soft end" }, time(n)), make("span", { class: "soft end more" }, n.tokens)));
      bars.push(make("g", { class: `${tone(n.id)} ${n.state}` }, x1 - x0 > 2 ? make("path", { d: `M${x0} ${y}H${x1}`, class: "wait" }) : null,
        n.state === "queued" ? null : make("rect", { x: x1, y: y - 4, width: x2 - x1, height: 8, rx: 2, stroke: mark.accent, fill: n.state === "successful" ? mark.accent : `url(#${uid}${n.state})` }),
        (n.hops || []).map((t) => { const x = Math.min(x2, Math.max(x1, X(t))); return make("path", { d: `M${x - 2} ${y - 7}v14m4 -14v14`, class: "hop" }); }),
        knot(mark, x2, y, n.state !== "running" && !n.episode)));
    }
    for (const [id, cited] of up) for (const c of cited) {
      const i = index.get(c), j = index.get(id);
      if (i == null || j == null || Math.max(i, j) < lo || Math.min(i, j) >= hi || (lit ? !lit.has(id) || !lit.has(c) : (i < lo && j >= hi) || Math.abs(j - i) > 80)) continue;
      const a = end(list[i]) + 7, b = X(list[j].q) - 3, bend = Math.min(70, Math.max(16, Math.abs(b - a) / 2));
      const tip = `M${b - 5} ${Y(j) - 3}L${b + 1} ${Y(j)}L${b - 5} ${Y(j) + 3}`;
      svg.append(make("path", { d: `M${a} ${Y(i)}C${a + bend} ${Y(i)} ${b - bend} ${Y(j)} ${b} ${Y(j)}${tip}`, class: lit ? "edge lit" : "edge" }));
    }
    svg.append(...bars);
    const head = make("div", { class: "slg-row slg-head", "aria-hidden": "true" }, make("b", {}, "id"), make("span", {}, "thread"), make("span", { class: "more" }, "model"), make("i"), make("span", { class: "end" }, "time"), make("span", { class: "end more" }, "tokens"));
    layer.replaceChildren(...rows, head, svg, over);
    if (picked && index.has(picked)) scroll.setAttribute("aria-activedescendant", `${uid}${picked}`); else scroll.removeAttribute("aria-activedescendant");
    card();
  }

  function tabulate() {
    const names = ["id", "name", "type", "state", "model", "time", "tokens", "cost", "episode", "context"];
    const line = (n) => [n.id, n.name, n.type, n.state, n.model, time(n), n.tokens, n.cost, n.episode || "–", n.cites.join(", ") || "–"];
    table.replaceChildren(make("table", {}, make("thead", {}, make("tr", {}, names.map((h) => make("th", { scope: "col" }, h)))), make("tbody", {}, list.map((n) => make("tr", {}, line(n).map((v) => make("td", {}, v)))))));
    card();
  }

  let shown = null;
  function card() {
    const n = picked && data.nodes[picked];
    if (n === shown) return;
    shown = n;
    if (!n) return pane.replaceChildren();
    const mark = data.marks[n.state], goto = (id) => make("button", { type: "button", class: "slg-link", onclick: () => pick(id) }, id);
    const links = (title, ids) => (ids.length ? [make("dt", {}, title), make("dd", {}, ids.slice(0, 40).map(goto), ids.length > 40 ? `and ${ids.length - 40} more` : null)] : []);
    pane.replaceChildren(...[
      make("div", { class: "slg-title" }, make("svg", { width: 16, height: 16, "aria-hidden": "true" }, knot(mark, 8, 8)), make("b", {}, n.id), make("span", {}, n.state), button("×", "close (Esc)", () => pick(null))),
      n.card.task.startsWith(n.name) ? null : make("p", { class: "slg-name" }, n.name), make("p", { class: "slg-task" }, n.card.task),
      make("dl", {}, n.card.rows.map(([k, v]) => [make("dt", {}, k), make("dd", {}, v)]), links("given", up.get(n.id) || []), links("cited by", down.get(n.id) || [])),
      ...n.card.sections.flatMap(([title, text]) => [make("h4", {}, title), make("p", {}, text)])].filter((part) => part));
    pane.scrollTop = 0;
  }

  function pick(id) {
    picked = id === picked ? null : id;
    const i = index.get(picked);
    if (i != null && (i * ROW < scroll.scrollTop || (i + 1) * ROW + TOP > scroll.scrollTop + scroll.clientHeight)) scroll.scrollTop = i * ROW - scroll.clientHeight / 3;
    later();
  }

  function zoom(factor, about = 0.5) {
    auto = false;
    const wide = factor ? Math.min(1, Math.max(1e-4, (to - from) * factor)) : 1, mid = from + (to - from) * about;
    from = Math.min(1 - wide, Math.max(0, mid - wide * about));
    to = from + wide;
    later();
  }
  const slide = (by) => { auto = false; const d = Math.min(1 - to, Math.max(-from, by * (to - from))); from += d; to += d; later(); };

  let press = null;
  scroll.addEventListener("scroll", () => { stick = scroll.scrollTop + scroll.clientHeight > tall.clientHeight - ROW; later(); });
  scroll.addEventListener("wheel", (e) => {
    if (!e.ctrlKey) return;
    e.preventDefault();
    const box = layer.lastChild.getBoundingClientRect();
    zoom(e.deltaY > 0 ? 1.2 : 1 / 1.2, Math.min(1, Math.max(0, (e.clientX - box.left) / box.width)));
  }, { passive: false });
  scroll.addEventListener("pointerdown", (e) => { if (e.button === 0) press = { x: e.clientX, y: e.clientY, moved: 0, last: e.clientX, top: scroll.scrollTop }; });
  scroll.addEventListener("pointermove", (e) => {
    if (!press || !e.buttons) return;
    press.moved = Math.max(press.moved, Math.abs(e.clientX - press.x) + Math.abs(e.clientY - press.y));
    if (press.moved < 5) return;
    slide((press.last - e.clientX) / Math.max(1, scroll.clientWidth - 452));
    press.last = e.clientX;
    scroll.scrollTop = press.top + press.y - e.clientY;
  });
  scroll.addEventListener("pointerup", (e) => {
    const box = layer.getBoundingClientRect(), y = e.clientY - box.top;
    const hit = list[Math.floor((y - TOP + scroll.scrollTop) / ROW)];
    if (press && press.moved < 5 && y > TOP && hit) pick(hit.id);
    press = null;
  });
  root.addEventListener("keydown", (e) => {
    e.stopPropagation();
    if (e.key === "Escape") { picked = null; scroll.focus(); return later(); }
    if (e.target !== scroll || e.ctrlKey || e.metaKey || e.altKey) return;
    const i = index.get(picked) ?? -1, go = { ArrowDown: i + 1, ArrowUp: Math.max(0, i - 1), Home: 0, End: list.length - 1 }[e.key];
    if (go != null) { if (list[go] && go !== i) pick(list[go].id); } else if (e.key === "Enter") pane.focus();
    else if (e.key === "+" || e.key === "=") zoom(1 / 1.5); else if (e.key === "-") zoom(1.5); else if (e.key === "0") { auto = true; later(); }
    else if (e.key === "ArrowRight") slide(0.1); else if (e.key === "ArrowLeft") slide(-0.1); else return;
    e.preventDefault();
  });

  model.on("change:snapshot", load);
  const sized = new ResizeObserver(() => (data ? later() : load())); // an element has no size before its first tick
  sized.observe(root);
  return () => { sized.disconnect(); cancelAnimationFrame(frame); model.off("change:snapshot", load); };
}

export default { initialize, render };
