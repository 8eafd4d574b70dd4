"use strict";
// The report's own code: it filters, sorts and copies the tables, and draws the charts. It adds text only as text, never as HTML.

const shown = (selector, within = document) => [...within.querySelectorAll(selector)];

// Data of the page: columns with repeated values have each value once in `of` and its indices in `at`.
function unpacked({ columns }) {
  const values = columns.map((column) => (column.at ? column.at.map((place) => column.of[place]) : column.of));
  return { columns: columns.map((column) => column.name), rows: (values[0] ?? []).map((_, row) => values.map((column) => column[row])) };
}

function element(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}

// A text that may continue on another line after an underscore.
function breakable(text) {
  return text.split(/(?<=_)(?=\w)/).flatMap((part, at) => (at ? [element("wbr"), part] : [part]));
}

function say(text) {
  const place = document.getElementById("announcement");
  place.textContent = "";
  setTimeout(() => (place.textContent = text), 50); // announced again, even if it did not change
}

// ---------------------------------------------------------------------------------------------------------------- sorting

const numberOf = (cell) => (cell.dataset.v ? Number(cell.dataset.v.split(" ")[0]) : NaN);
const nameOf = (cell) => (cell.querySelector(".name") ?? cell).textContent;

function compare(one, other, direction, isNumber) {
  if (!isNumber) return direction * nameOf(one).localeCompare(nameOf(other), "en", { numeric: true });
  const [a, b] = [numberOf(one), numberOf(other)];
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b); // last in both directions
  if (a === b) return 0;
  return direction * (a < b ? -1 : 1);
}

// Tables of the same models keep the same order of rows, whichever of them is sorted.
function makeSortable(tables) {
  const bodies = tables.map((table) => [...table.tBodies].map((body) => [...body.rows].filter((row) => !row.matches(".family"))));
  tables.forEach((table, at) => {
    shown("thead th", table).forEach((head, column) => {
      head.querySelector("button").addEventListener("click", () => {
        const next = { ascending: "descending", descending: "none" }[head.getAttribute("aria-sort")] ?? "ascending";
        for (const other of tables.flatMap((one) => shown("thead th", one))) other.removeAttribute("aria-sort");
        if (next !== "none") head.setAttribute("aria-sort", next);
        const direction = next === "ascending" ? 1 : -1;
        const isNumber = head.matches(".number");
        bodies[at].forEach((rows, body) => {
          const order = rows.map((_, index) => index);
          if (next !== "none") order.sort((a, b) => compare(rows[a].cells[column], rows[b].cells[column], direction, isNumber) || a - b);
          tables.forEach((one, other) => {
            const ordered = order.map((index) => bodies[other][body][index]);
            one.tBodies[body].append(...ordered);
          });
        });
        say(next === "none" ? "Sorted in the original order" : `Sorted by ${nameOf(head)}, ${next}`);
      });
    });
  });
}

// -------------------------------------------------------------------------------------------------------------- filtering

function filter(cutoff) {
  for (const part of shown("#tables [data-k]")) part.hidden = cutoff !== "all" && part.dataset.k !== cutoff;
  for (const body of shown("#tables tbody")) body.hidden = shown("tr:not(.family)", body).every((row) => row.hidden);
  drawIntervals();
}

function setUpFilter() {
  const choices = document.querySelector(".cutoffs");
  if (!choices) return;
  choices.addEventListener("change", (event) => filter(event.target.value));
  const first = choices.querySelector(`[value="${choices.dataset.first}"]`);
  first.checked = true;
  filter(first.value);
}

// A line below each value: where its interval lies among those of all models. Tables that are hidden wait until they are not.
function drawIntervals() {
  for (const table of shown("#tables .scroll:not([hidden]) table:not([data-lined])")) {
    table.dataset.lined = "";
    const rows = shown("tbody tr:not(.family)", table).map((row) => shown("td", row));
    const metricsDown = table.tBodies[0].querySelector(".family") !== null;
    const lines = metricsDown ? rows : (rows[0] ?? []).map((_, column) => rows.map((row) => row[column]));
    for (const cells of lines) {
      const known = cells.map((cell) => [cell, ...(cell.dataset.v ?? "").split(" ").map(Number)]).filter((one) => one.length === 4);
      const low = Math.min(...known.map((one) => one[2]));
      const high = Math.max(...known.map((one) => one[3]));
      if (known.length < 2 || !(high > low)) continue;
      const percent = (value) => `${((100 * (value - low)) / (high - low)).toFixed(1)}%`;
      for (const [cell, value, from, to] of known) {
        cell.classList.add("bar");
        for (const [name, end] of [["--from", from], ["--at", value], ["--to", to]]) cell.style.setProperty(name, percent(end));
      }
    }
  }
}

// ---------------------------------------------------------------------------------------------------------------- copying

const oneLine = (text) => text.replace(/\p{C}/gu, " ").replace(/\s+/gu, " ").trim();
const wide = (text) => [...text].length;
const pad = (text, width) => " ".repeat(Math.max(0, width - wide(text)));

const LATEX = {
  "\\": "\\textbackslash{}", "~": "\\textasciitilde{}", "^": "\\textasciicircum{}", "<": "\\textless{}", ">": "\\textgreater{}",
  "|": "\\textbar{}", "†": "\\textdagger{}", "[": "{[}", "]": "{]}", "*": "{*}",
  ...Object.fromEntries([..."&%$#_{}"].map((sign) => [sign, `\\${sign}`])),
};

const FORMS = {
  markdown: {
    escape: (text) => oneLine(text).replace(/[\\`*_[\]<>|~&#]/g, "\\$&"),
    margin: (text) => FORMS.markdown.escape(text),
    bold: (text) => `**${text}**`,
    mark: (text) => ` ${text}`,
    table({ head, rows }) {
      const widths = head.map((_, column) => Math.max(3, ...[head, ...rows].map((row) => wide(row[column]))));
      const rule = widths.map((width, column) => (column ? `${"-".repeat(width - 1)}:` : "-".repeat(width)));
      const aligned = (cell, column) => (column ? pad(cell, widths[column]) + cell : cell + pad(cell, widths[column]));
      return [head, rule, ...rows].map((row) => `| ${row.map(aligned).join(" | ")} |\n`).join("");
    },
    notes: (texts) => texts.map((text) => `\n${FORMS.markdown.escape(text)}.\n`).join(""),
  },
  latex: {
    escape(text) {
      const plain = oneLine(text);
      if (/^-\d\S*$/.test(plain)) return `$-$${plain.slice(1)}`;
      return [...plain].map((sign) => LATEX[sign] ?? sign).join("");
    },
    margin: (text) => FORMS.latex.escape(text).replace("±", "$\\pm$"),
    bold: (text) => `\\textbf{${text}}`,
    mark: (text) => `\\textsuperscript{${text}}`,
    table({ head, rows }) {
      const line = (row) => `${row.join(" & ")} \\\\`;
      const begin = `\\begin{tabular}{l${"r".repeat(head.length - 1)}}`;
      return ["% \\usepackage{booktabs}", begin, "\\toprule", line(head), "\\midrule", ...rows.map(line), "\\bottomrule",
        "\\end{tabular}\n"].join("\n");
    },
    notes: (texts) => texts.map((text) => `% ${oneLine(text)}\n`).join(""),
  },
};

const csv = (rows) => rows.map((row) => row.map((field) => (/[",\r\n]/.test(field) ? `"${field.replaceAll('"', '""')}"` : field)).join(",") + "\n").join("");

// The tables as they are shown: those that the filter leaves, their rows in order.
function tablesShown() {
  return shown("#tables .scroll:not([hidden]) table").map((table) => ({
    head: shown("thead th", table).map(nameOf),
    rows: shown("tbody tr:not(.family):not([hidden])", table).map((row) => [...row.cells]),
  }));
}

function tablesAsText(form) {
  const { escape, margin, bold, mark, table, notes } = FORMS[form];
  const value = (cell) => {
    const best = cell.querySelector("b");
    const text = escape(cell.firstElementChild === best ? best.lastChild.textContent : cell.firstChild.textContent);
    const [interval, letters] = ["small", "sup"].map((tag) => cell.querySelector(tag).textContent);
    return (best ? bold(text) : text) + (interval ? ` ${margin(interval)}` : "") + (letters ? mark(escape(letters)) : "");
  };
  const texts = tablesShown().map(({ head, rows }) =>
    table({ head: head.map(escape), rows: rows.map(([name, ...cells]) => [escape(nameOf(name)), ...cells.map(value)]) }));
  const legend = shown(".legend li").map((line) => line.textContent);
  return form === "latex" ? notes(legend) + texts.join("\n") : texts.join("\n") + notes(legend);
}

// One table, whatever was cut for the eye: value, ends of the interval and letters have columns of their own.
function tablesAsCsv() {
  const tables = tablesShown();
  const all = tables.flatMap(({ rows }) => rows.flatMap((row) => row.slice(1)));
  const parts = [(cell) => cell.dataset.v?.split(" ")[0] ?? ""];
  const names = [""];
  if (all.some((cell) => cell.dataset.v?.includes(" "))) {
    parts.push((cell) => cell.dataset.v?.split(" ")[1] ?? "", (cell) => cell.dataset.v?.split(" ")[2] ?? "");
    names.push(" low", " high");
  }
  if (all.some((cell) => cell.querySelector("sup").textContent)) {
    parts.push((cell) => cell.querySelector("sup").textContent);
    names.push(" letters");
  }
  const head = [tables[0].head[0], ...tables.flatMap((one) => one.head.slice(1).flatMap((name) => names.map((more) => name + more)))];
  const rows = tables[0].rows.map(([name], at) => [
    nameOf(name),
    ...tables.flatMap((one) => one.rows[at].slice(1).flatMap((cell) => parts.map((part) => part(cell)))),
  ]);
  return csv([head, ...rows]);
}

function copyBySelection(text) {
  const field = element("textarea", { value: text, className: "unseen", readOnly: true });
  const focused = document.activeElement;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus();
  return done;
}

async function copy(text, button) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copyBySelection(text); // where the clipboard is not offered or not allowed
  }
  say(done ? "Copied" : "The browser did not allow copying");
  button.dataset.done = done ? "copied" : "refused";
  setTimeout(() => delete button.dataset.done, 1500);
}

function setUpCopying() {
  for (const button of shown("[data-copy=tables] button")) {
    button.addEventListener("click", () => copy(button.dataset.as === "csv" ? tablesAsCsv() : tablesAsText(button.dataset.as), button));
  }
  for (const button of shown("[data-copy-code]")) {
    button.addEventListener("click", () => copy(button.parentElement.querySelector("pre").textContent, button));
  }
}

// ----------------------------------------------------------------------------------------------------- data behind charts

const MOST_ROWS = 1000; // of a table made here; copying gives all

function dataTable({ columns, rows }, label) {
  const isNumber = columns.map((_, column) => rows.every((row) => row[column] === null || typeof row[column] === "number"));
  const few = rows.length <= MOST_ROWS;
  const named = (name) => element("span", { className: "name", textContent: name || "(unnamed)" });
  const head = columns.map((name, column) => {
    const inside = few ? element("button", { type: "button" }, named(name)) : named(name);
    return element("th", { scope: "col", className: isNumber[column] ? "number" : "" }, inside);
  });
  const body = rows.slice(0, MOST_ROWS).map((row) =>
    element("tr", {}, ...row.map((value, column) => {
      const text = value === null ? "" : typeof value === "number" ? String(value) : value;
      const cell = element("td", { className: isNumber[column] ? "number" : "", textContent: text });
      if (isNumber[column] && value !== null) cell.dataset.v = value;
      return cell;
    })));
  const table = element("table", { className: "plain sortable" }, element("thead", {}, element("tr", {}, ...head)), element("tbody", {}, ...body));
  if (few) makeSortable([table]);
  const region = element("div", { className: "scroll", tabIndex: 0 }, table);
  region.setAttribute("role", "region");
  region.setAttribute("aria-label", label);
  const button = element("button", { type: "button", textContent: "Copy as CSV" });
  button.addEventListener("click", () => copy(csv([columns, ...rows.map((row) => row.map((value) => String(value ?? "")))]), button));
  const more = few ? [] : [element("p", { textContent: `Rows 1 to ${MOST_ROWS.toLocaleString("en")} of ${rows.length.toLocaleString("en")}. "Copy as CSV" copies all rows.` })];
  return [element("div", { className: "copy" }, button), ...more, region];
}

function setUpData() {
  for (const details of shown("details.data")) {
    details.addEventListener("toggle", () => {
      if (details.open && !details.querySelector("table")) {
        details.append(...dataTable(unpacked(JSON.parse(document.getElementById(details.dataset.of).textContent)), `${details.parentElement.querySelector("h2, h3").textContent}: data`));
      }
    });
  }
}

// ----------------------------------------------------------------------------------------------------------------- charts

function rowsOf(name) {
  const data = JSON.parse(document.querySelector(`.dataset[data-name="${name}"]`).textContent);
  if (Array.isArray(data)) return data;
  const { columns, rows } = unpacked(data);
  return rows.map((row) => Object.fromEntries(row.map((value, column) => [columns[column], value])));
}

// The description of a chart follows its select boxes.
function tellWhatIsChosen(holder, view, selects) {
  const texts = JSON.parse(document.getElementById(`${holder.id}-texts`).textContent);
  const caption = document.getElementById(`${holder.id}-text`);
  const tell = () => {
    const chosen = selects.map((name) => view.signal(name));
    const found = texts.find(([options]) => options.every((option, at) => option === chosen[at]));
    caption.replaceChildren(...breakable(found ? found[1] : "There are no values for this selection."));
  };
  for (const name of selects) view.addSignalListener(name, tell);
}

async function draw(holder) {
  const spec = JSON.parse(document.querySelector(`.spec[data-chart="${holder.id}"]`).textContent);
  for (const data of spec.data) if (data.values?.dataset) data.values = rowsOf(data.values.dataset);
  const inside = holder.appendChild(element("div"));
  inside.setAttribute("aria-hidden", "true"); // the description next to it has the content in words
  const { view } = await vegaEmbed(inside, spec, {
    mode: "vega", logLevel: 1, ast: true, actions: false, renderer: "svg", defaultStyle: false, bind: `#${holder.id}-bindings`,
    tooltip: { disableDefaultStyle: true },
  }); // Vega also warns of what cannot be seen, such as layers that are empty until something is chosen: level 1 is errors only
  tellWhatIsChosen(holder, view, spec.signals.filter((signal) => signal.bind).map((signal) => signal.name));
  const scrolls = () => (holder.scrollWidth > holder.clientWidth + 1 ? (holder.tabIndex = 0) : holder.removeAttribute("tabindex"));
  new ResizeObserver(scrolls).observe(holder);
}

async function drawAll() {
  for (const holder of shown(".chart")) {
    await new Promise((go) => setTimeout(go)); // the page stays responsive between charts
    try {
      await draw(holder);
    } catch (error) {
      holder.replaceChildren(element("p", { className: "warning", textContent: `This chart could not be drawn: ${error.message}` }));
      console.error(error);
    }
  }
  document.documentElement.dataset.charts = "drawn";
}

// Paper cannot be opened: definitions are printed in full. Charts are drawn as wide as paper, so that their texts keep their size.
let opened = [];
addEventListener("beforeprint", () => {
  opened = shown("details:is(.definition, .counts):not([open])");
  for (const details of opened) details.open = true;
  document.documentElement.classList.add("on-paper");
  dispatchEvent(new Event("resize"));
});
addEventListener("afterprint", () => {
  for (const details of opened) details.open = false;
  document.documentElement.classList.remove("on-paper");
  dispatchEvent(new Event("resize"));
});

// A table that is wider than the screen says so, and has a shadow where more of it is.
function setUpScrollHints() {
  for (const holder of shown("#tables .scroll")) {
    const hint = holder.previousElementSibling;
    const update = () => {
      const hidden = holder.scrollWidth - holder.clientWidth;
      hint.hidden = hidden <= 1;
      holder.toggleAttribute("data-more", hidden - holder.scrollLeft > 1);
    };
    holder.addEventListener("scroll", update, { passive: true });
    new ResizeObserver(update).observe(holder);
  }
}

setUpFilter();
setUpScrollHints();
makeSortable(shown("#tables table"));
drawIntervals();
setUpCopying();
setUpData();
drawAll();
