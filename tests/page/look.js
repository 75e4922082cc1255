// The faults of a page or picture that a reader would see, as sentences; empty if there are none.
() => {
  const faults = [];
  const root = document.documentElement;
  const isPage = root.tagName === "HTML";
  if (isPage && root.scrollWidth > root.clientWidth) faults.push(`${root.scrollWidth - root.clientWidth} px wider than the screen`);
  if (document.querySelector("pre")) faults.push("a dump of text");
  const headline = document.querySelector("h1")?.textContent.trim();
  if (headline && !document.querySelector(".lead")) {  // else the headline is a name, which other rows have too
    const times = document.body.innerText.split(headline).length - 1;
    if (times > 1) faults.push(`headline said ${times} times: ${headline}`);
  }

  const pen = document.createElement("canvas").getContext?.("2d");
  const ENOUGH = 170; // px: a cell this wide may break a longer word, such as an address
  for (const cell of document.querySelectorAll("th, td")) {
    if (!cell.textContent.trim() || !cell.checkVisibility()) continue;
    const style = getComputedStyle(cell);
    pen.font = style.font;
    const width = cell.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const longest = Math.max(...cell.innerText.split(/[\s-]+/).map((word) => pen.measureText(word).width));
    if (width + 1 < Math.min(longest, ENOUGH)) faults.push(`squeezed to ${width} px: ${cell.textContent}`);
  }

  for (const text of document.querySelectorAll("svg text, text")) {
    const [box, frame] = [text.getBoundingClientRect(), text.ownerSVGElement.getBoundingClientRect()];
    const isCut = box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1;
    if (box.width && isCut) faults.push(`cut: ${text.textContent}`);
  }

  const parse = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const isSolid = (colour) => colour.startsWith("rgb") && (parse(colour)[3] ?? 1) > 0.5;
  const light = (colour) => {
    const [r, g, b] = parse(colour).map((part) => (part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const rect = each.tagName === "svg" ? each.querySelector(":scope > rect") : null;
      const colour = rect ? getComputedStyle(rect).fill : getComputedStyle(each).backgroundColor;
      if (isSolid(colour)) return colour;
    }
    return "rgb(255, 255, 255)";
  };
  for (const element of document.querySelectorAll("*")) {
    const own = [...element.childNodes].some((node) => node.nodeType === Node.TEXT_NODE && node.data.trim());
    if (!own || ["STYLE", "style", "TITLE", "title"].includes(element.tagName) || !element.getClientRects().length) continue;
    const style = getComputedStyle(element);
    const [one, other] = [light(element.ownerSVGElement ? style.fill : style.color), light(ground(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) faults.push(`faint, ${contrast.toFixed(1)}: ${element.textContent.slice(0, 60)}`);
  }
  return [...new Set(faults)];
}
