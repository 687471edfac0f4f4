/* Elements of a page, built without ever reading text as markup. */

/** Return a new element with attributes and children; children are elements or plain text. */
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** Return the element with this id. */
export const the = (id) => document.getElementById(id);

/** Return "1 card" or "2 cards". */
export const counted = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;

/** Return a time in ms since 1970 as the reader's own date and time. */
export function when(ms) {
  const shown = new Date(ms).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" });
  return el("time", { datetime: new Date(ms).toISOString() }, shown);
}
