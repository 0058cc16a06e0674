// Says which pair is under the pointer, or which the arrow keys have reached. Without it the page has all but that.
"use strict";
for (const figure of document.querySelectorAll("figure.map[data-hosts]")) {
	const { hosts, step, side, unit, low, high, values } = figure.dataset;
	const names = JSON.parse(figure.closest("[data-names]").dataset.names);
	const svg = figure.querySelector("svg"), map = figure.querySelector("image"), box = figure.querySelector(".scroll");
	const fields = Math.ceil(hosts / step);
	const says = document.createElement("output");
	says.setAttribute("aria-live", "polite");
	says.textContent = "Point at a field, or select the map and use the arrow keys.";
	box.before(says);
	const cross = [0, 1].map(() => {
		const r = document.createElementNS("http://www.w3.org/2000/svg", "rect");
		r.setAttribute("class", "cross");
		svg.append(r);
		return r;
	});
	let codes;
	const figureOf = (from, to) => {
		if (!values) return "the figure is in the JSON file";
		if (!codes) {
			const text = atob(values.replaceAll("-", "+").replaceAll("_", "/"));
			codes = new Uint16Array(text.length / 2);
			for (let i = 0; i < codes.length; i++) codes[i] = text.charCodeAt(2 * i) | text.charCodeAt(2 * i + 1) << 8;
		}
		const code = codes[from * hosts + to];
		if (code == 0) return "not measured";
		if (code == 65535) return "failed";
		const v = low * Math.exp((code - 1) / 65533 * Math.log(high / low));
		return Number(v.toPrecision(4)) + " " + unit;
	};
	const range = i => {
		const first = i * step, last = Math.min(first + Number(step), hosts) - 1;
		return first == last ? names[first] : names[first] + " … " + names[last];
	};
	let at = null;
	const show = (row, column) => {
		at = [row, column];
		says.textContent = "from " + range(row) + " to " + range(column) +
			(step == 1 ? ": " + figureOf(row, column) : "");
		const x = Number(map.getAttribute("x")), y = Number(map.getAttribute("y")), all = fields * side;
		for (const [r, list] of [[cross[0], [x, y + row * side, all, side]], [cross[1], [x + column * side, y, side, all]]])
			["x", "y", "width", "height"].forEach((key, i) => r.setAttribute(key, list[i]));
	};
	svg.addEventListener("pointermove", e => {
		const r = map.getBoundingClientRect();
		const column = Math.floor((e.clientX - r.left) / r.width * fields);
		const row = Math.floor((e.clientY - r.top) / r.height * fields);
		if (row >= 0 && column >= 0 && row < fields && column < fields) show(row, column);
	});
	box.addEventListener("keydown", e => {
		const d = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
		if (!d) return;
		e.preventDefault();
		const [row, column] = at ?? [0, 0];
		const most = fields - 1;
		show(Math.min(Math.max(row + d[0], 0), most), Math.min(Math.max(column + d[1], 0), most));
		const r = map.getBoundingClientRect(), b = box.getBoundingClientRect();
		const px = r.left + (at[1] + .5) * r.width / fields;
		if (px < b.left + 20 || px > b.right - 20) box.scrollLeft += px - (b.left + b.right) / 2;
	});
}
