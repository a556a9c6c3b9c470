// Nodes as CSV (RFC 4180). A cell that a spreadsheet would take for a formula gets an apostrophe before it.

export function cell(value) {
  let text = String(value);
  if (/^[=+\-@\t\r]/.test(text) && !/^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text)) text = `'${text}`;
  return /[",\r\n]/.test(text) || /^\s|\s$/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

/** Lines for the nodes: id, label and factor where there are any, degree, and q0 … of each. */
export function table(data, nodes) {
  const label = data.column("label");
  const factor = data.column("factor");
  const degree = data.column("degree");
  const q = Array.from({ length: data.factors }, (_, k) => `q${k}`);
  const lines = [["id", ...(label ? ["label"] : []), "degree", ...(factor ? ["factor"] : []), ...q]];
  for (const node of nodes) {
    const line = [data.ids[node]];
    if (label) line.push(label.values[node] < 0 ? "" : label.names[label.values[node]]);
    line.push(degree.values[node]);
    if (factor) line.push(factor.values[node] < 0 ? "" : factor.values[node]);
    for (let k = 0; k < data.factors; k += 1) line.push(Number(data.nodeQ[node * data.factors + k].toFixed(6)));
    lines.push(line);
  }
  return lines.map((line) => line.map(cell).join(",")).join("\r\n") + "\r\n";
}

export function download(name, text) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "text/csv;charset=utf-8" }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}
