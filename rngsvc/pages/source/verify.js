/* The verify page: takes a document in, has rs1.js check it, and says what came out as a person understands it. */

import {
  cardLeaf,
  cardOf,
  fingerprint,
  missingCryptography,
  openingKey,
  parseDocument,
  parsePolicy,
  parseVkey,
  permute,
  toBytes,
  verify,
} from "../rs1.js";
import { counted, el, the, when } from "./elements.js";
import { ending } from "./words.js";

const SERVED = location.protocol !== "file:";
const PINS = "rs1-log-keys";
const POLICY = "rs1-witness-policy";
const MAX_FILE_BYTES = 2 ** 26; // more than the most characters of a document take in UTF-8

// --- In words: what each step means to a player: its name, what it looks at, and what is wrong if it fails ---

const TWIN = ["choice", "twin"];
const GROUPS = [
  ["The log", ["document", "entries", "keys", "checkpoints", "witnesses", "inclusion", "chain"]],
  ["The players' seeds", ["promises", "contributions", "own", "seeds"]],
  ["The shuffle", ["context", "seals", "reshuffles"]],
  ["The two decks", TWIN],
  ["The cards", ["openings", "items", "history"]],
  ["The end of the hand", ["reveal", "derivation", "close", "deadline"]],
];
const MEANING = {
  document: [
    "The file can be read",
    "It has exactly the agreed form, so that nothing in it can be read two ways.",
    "The file cannot be read as a receipt",
  ],
  entries: [
    "It tells one hand",
    "Commitment, promises, shuffle and close stand in the order that every hand must have.",
    "The entries are not those of one hand",
  ],
  keys: [
    "The log's key was handed on properly",
    "If the room changed its key, the old key signed for the new one.",
    "A change of the log's key is not properly signed",
  ],
  checkpoints: [
    "The room has signed this log",
    "The signature fits the key below; the room cannot deny it later.",
    "The room's signature on the log does not hold",
  ],
  witnesses: [
    "Independent witnesses saw the same log",
    "Enough of the witnesses that you named have cosigned it.",
    "Too few of your witnesses have seen this log",
  ],
  inclusion: [
    "Every entry is in the signed log",
    "Hashes lead from each entry of this hand to what the room signed.",
    "An entry is not in the log that the room signed",
  ],
  chain: [
    "Nothing was slipped in or taken out",
    "Each entry of this table names the entry before it.",
    "The table's entries do not follow each other",
  ],
  promises: [
    "Players promised their seeds first",
    "The shuffle is tied to promises that were logged before it.",
    "The shuffle is not tied to what the players promised",
  ],
  contributions: [
    "Every seed that was given counted",
    "Whoever gave none is listed as absent.",
    "The players' seeds did not count as the log says",
  ],
  own: [
    "Your own seed counted",
    "The random number from your side went into the shuffle as you promised it.",
    "Your own seed did not count as you promised it",
  ],
  seeds: [
    "The seeds are the promised ones",
    "After the hand all seeds were shown, and each fits its promise.",
    "The seeds that were shown are not the promised ones",
  ],
  context: [
    "All parts are bound together",
    "The room's seed was fixed before the players' seeds were shown, and neither could change.",
    "The shuffle is not bound to the seeds that were fixed before it",
  ],
  seals: [
    "The whole deck was sealed before the deal",
    "A fingerprint of every card in its place was logged before one was seen.",
    "The sealed deck in this file is not the logged one",
  ],
  reshuffles: [
    "Only cards that were there were shuffled again",
    "No card was put into a reshuffle twice.",
    "A reshuffle took cards that it could not take",
  ],
  openings: [
    "The cards you saw are the sealed ones",
    "Each fits the fingerprint that was fixed before the deal.",
    "A card in this file is not the sealed one",
  ],
  items: [
    "No card is there twice",
    "Among the cards in this file each stands in one place only.",
    "The cards in this file cannot all be from this deck",
  ],
  history: [
    "The story of the hand fits the cards",
    "Cards came off the deck in order; none was skipped or swapped.",
    "The story of the hand does not fit the cards",
  ],
  reveal: [
    "The room's seed was shown as agreed",
    "To everybody, or locked for the table's auditor: the table fixed that at its start.",
    "The room's seed was not shown as agreed",
  ],
  derivation: [
    "The shuffle comes out again",
    "With the room's seed this page shuffled the deck itself and got the same order.",
    "The shuffle does not follow from the room's seed",
  ],
  close: [
    "Nobody looked at a card out of turn",
    "The log lists every card that the table asked for, and when.",
    "The log does not list the cards that were looked at as it must",
  ],
  deadline: [
    "The hand was played in time",
    "A hand cannot be held open to wait for a better moment.",
    "The hand was not played in its time",
  ],
  choice: [
    "The players chose between the two decks",
    "Secrets that they had promised before, and showed after both decks were sealed, say which one is played.",
    "Which deck was played was not decided by the players' secrets",
  ],
  twin: [
    "The other deck was opened and is right",
    "This page shuffled the deck that was not played itself and got the sealed one, card by card.",
    "The deck that was opened is not the one that was to be shuffled",
  ],
};
const MARKS = { checked: ["✓", "checked"], failed: ["✗", "failed"], "not shown": ["–", "not checked"] };
// Without these the file speaks for nobody, and nothing else that was checked counts for much.
const ESSENTIAL = ["document", "entries", "keys", "checkpoints", "inclusion"];

const RANKS = ["2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K", "A"];
const RANK_NAMES = { J: "jack", Q: "queen", K: "king", A: "ace" };
const SUITS = {
  c: ["♣", "clubs", ""],
  d: ["♦", "diamonds", "red"],
  h: ["♥", "hearts", "red"],
  s: ["♠", "spades", ""],
};
const MODES = {
  shoe: "sealed; each card was opened when it was dealt",
  full: "the table knew all cards from the start",
};
const REVEALS = { public: "to everybody", escrow: "locked, for the table's auditor only" };

// --- Keys: pinned by the player, given just now, in the page's address, or as this site says ---

const keys = { given: new Map(), pinned: new Map(), address: new Map(), site: new Map() }; // the first one counts
const SOURCES = {
  given: "given by you, not pinned",
  pinned: "pinned by you",
  address: "as this page's address says",
  site: "as this site says, not pinned by you yet",
};
// Whoever made a link or a site may have chosen its key too.
const DOUBTS = {
  address: "The key came from this page's address. Compare its fingerprint below with the one that you know.",
  site: "The key came from this site itself. Compare its fingerprint below, and pin it.",
};
let canStore = true;
let policy; // the witnesses that the player trusts, undefined without any
let auditor; // the key that opens escrowed seeds, undefined for everybody but the auditor
let newest = null; // the document that was checked last, to check it again under another key

function loadPins() {
  try {
    keys.pinned = new Map(Object.entries(JSON.parse(localStorage.getItem(PINS) ?? "{}")));
  } catch {
    canStore = false; // some browsers keep nothing for pages from disk
  }
}

function storePins() {
  if (canStore) localStorage.setItem(PINS, JSON.stringify(Object.fromEntries(keys.pinned)));
}

/** Take keys from a bookmark, where the browser stores nothing; elsewhere an address is not trusted with them. */
async function loadAddress() {
  if (canStore) return;
  const given = new URLSearchParams(location.hash.slice(1)).getAll("key");
  for (const vkey of given) {
    try {
      keys.address.set((await parseVkey(vkey)).name, vkey);
    } catch {
      sayKeyError("The key in this page's address is no key.");
    }
  }
}

async function loadSite() {
  if (!SERVED) return;
  try {
    const answer = await fetch("log-key");
    const vkey = (await answer.text()).trim();
    if (answer.ok) keys.site.set((await parseVkey(vkey)).name, vkey);
  } catch {
    // A copy on another web server: no key is known until the player gives one.
  }
}

/** Return the key of the log called `origin` and where it comes from; nulls if none is known. */
function keyOf(origin) {
  const source = Object.keys(keys).find((each) => keys[each].has(origin));
  return source ? { vkey: keys[source].get(origin), source } : { vkey: null, source: null };
}

function pin(origin, vkey) {
  keys.given.delete(origin);
  if (canStore) {
    keys.pinned.set(origin, vkey);
    storePins();
  } else {
    keys.address.set(origin, vkey);
    location.hash = new URLSearchParams([...keys.address.values()].map((each) => ["key", each])).toString();
  }
  showKeys();
}

function unpin(origin) {
  keys.pinned.delete(origin);
  storePins();
  again();
}

async function showKeys() {
  const origins = [...new Set(Object.values(keys).flatMap((each) => [...each.keys()]))];
  const shown = await Promise.all(origins.map(oneKey));
  if (!shown.length)
    shown.push(el("p", {}, "No key is known yet. The room publishes it as one line of text: paste it here."));
  if (!canStore) {
    const how =
      "This browser stores nothing for this page. A key that you pin goes into the page's address: bookmark that.";
    shown.push(el("p", { class: "said" }, how));
  }
  the("keys").replaceChildren(...shown);
}

async function oneKey(origin) {
  const { vkey, source } = keyOf(origin);
  const digits = (await fingerprint(vkey)).match(/.{4}/g).join(" ");
  const button =
    source === "pinned"
      ? el("button", { type: "button" }, "Forget it")
      : el("button", { type: "button" }, "Pin this key");
  button.addEventListener("click", () => (source === "pinned" ? unpin(origin) : pin(origin, vkey)));
  const offered = keys.site.get(origin);
  const differs = source !== "site" && offered && offered !== vkey;
  return el(
    "div",
    { "data-origin": origin, "data-source": source },
    el("p", {}, el("strong", {}, origin), ` (${SOURCES[source]})`),
    el("span", {}, "Fingerprint (SHA-256 of the key's text):"),
    el("code", { class: "fingerprint" }, digits),
    differs
      ? el(
          "p",
          { class: "said failed", role: "alert" },
          `This site shows another key for this log. Hands are checked with the one ${SOURCES[source]}.`,
        )
      : null,
    el("p", { class: "row" }, button),
  );
}

function sayKeyError(message) {
  the("key-error").textContent = message;
  the("key-error").hidden = !message;
}

async function useKey(event) {
  event.preventDefault();
  const vkey = the("vkey").value.trim();
  try {
    const { name } = await parseVkey(vkey);
    keys.given.set(name, vkey);
    the("vkey").value = "";
    sayKeyError("");
    await again();
  } catch (error) {
    sayKeyError(`This is no key of a log: ${error.message}.`);
  }
}

// --- Witnesses ---

async function setPolicy(file) {
  try {
    policy = file.trim() ? await parsePolicy(file) : undefined;
    the("policy-said").textContent = policy
      ? `${counted(policy.witnesses.size, "witness", "witnesses")}, quorum ${policy.quorum}.`
      : "None in use.";
    return true;
  } catch (error) {
    the("policy-said").textContent = `Not taken: ${error.message}.`;
    return false;
  }
}

async function usePolicy(event) {
  event.preventDefault();
  const file = the("policy").value;
  if (!(await setPolicy(file))) return;
  if (canStore) localStorage.setItem(POLICY, file);
  await again();
}

async function loadPolicy() {
  if (canStore) the("policy").value = localStorage.getItem(POLICY) ?? "";
  await setPolicy(the("policy").value);
}

// --- Checking ---

let turn = 0;

/** Take away what is shown, so that no older verdict stands beside another document; return the new turn's number. */
function startOver(said) {
  turn += 1;
  the("result").hidden = true;
  the("busy").className = "quiet";
  the("busy").textContent = said;
  the("busy").hidden = !said;
  return turn;
}

/** Say why there is nothing to show. */
function giveUp(why) {
  startOver(why);
  the("busy").className = "said failed";
}

/** Check a document (text or bytes); what comes from the room itself is `isPublic`, without anybody's cards. */
async function check(document, { isPublic = false } = {}) {
  const mine = startOver("Checking …");
  newest = [document, { isPublic }];
  try {
    await checkAndShow(document, isPublic, mine);
  } catch (error) {
    if (mine === turn) giveUp(`This page could not check that file: ${error.message}. Nothing was checked.`);
  }
}

async function checkAndShow(document, isPublic, mine) {
  let key = { vkey: null, source: null };
  try {
    key = keyOf(parseDocument(document).receipt.origin);
  } catch {
    // Then verifying will say what is wrong with the document.
  }
  const report = await verify(document, key.vkey, Date.now(), policy, auditor);
  const cards = report.hand ? await cardsOf(report) : [];
  const decks = report.hand?.twin ? await twinOf(report) : [];
  if (mine !== turn) return; // another document came in meanwhile
  the("busy").hidden = true;
  the("verdict").replaceWith(verdict(report, { ...key, isPublic }));
  the("hand").hidden = !report.hand;
  if (report.hand) the("hand").replaceChildren(...facts(report.hand));
  the("cards").hidden = !cards.length;
  the("cards").replaceChildren(...cards);
  the("twin").hidden = !decks.length;
  the("twin").replaceChildren(...decks);
  the("steps").replaceChildren(...GROUPS.map(([title, ids]) => group(title, ids, report.steps)).filter(Boolean));
  // Whoever got used to giving his key to a page from the room would give it to a changed one, too.
  the("auditor").hidden = SERVED || report.hand?.close?.escrow === undefined;
  the("result").hidden = false;
  the("said").focus({ preventScroll: true });
  the("verdict").scrollIntoView();
}

async function again() {
  await showKeys();
  if (newest) await check(...newest);
}

function verdict({ steps, hand }, { vkey, source, isPublic }) {
  const failed = steps.filter(({ outcome }) => outcome === "failed");
  const missing = steps.filter(({ outcome }) => outcome === "not shown");
  const unproven = missing.filter(({ id }) => ESSENTIAL.includes(id));
  const passed = steps.length - failed.length - missing.length;
  const section = (kind, title, ...children) =>
    el(
      "section",
      { id: "verdict", class: `verdict ${kind}`, "aria-labelledby": "said", "data-verdict": kind },
      el("h2", { id: "said", tabindex: "-1" }, title),
      ...children,
    );
  if (failed.length) {
    const unreadable = failed.some(({ id }) => id === "document");
    const unsigned = vkey && failed.some(({ id }) => id === "checkpoints");
    return section(
      "failed",
      unreadable ? "✗ This is not a readable receipt" : "✗ This hand does not check out",
      el("ul", {}, ...failed.map(({ id, detail }) => el("li", {}, el("strong", {}, MEANING[id][2]), ` (${detail}).`))),
      el(
        "p",
        {},
        unreadable
          ? "If the file was copied by hand, take it again from the table, whole."
          : "Keep this file: it is your evidence. Show it to the room, and to others who have the log.",
      ),
      unsigned
        ? el("p", {}, `The key used was the one ${SOURCES[source]}: first make sure that it is this room's key.`)
        : null,
    );
  }
  if (unproven.length) {
    const why = vkey
      ? unproven[0].detail
      : `No key of the log ${hand.receipt.origin} is known here: give it below, then the signature is checked too.`;
    return section(
      "open",
      "– Not proven: the log's signature is unchecked",
      el("p", {}, why),
      el("p", {}, `${counted(passed, "other check")} passed.`),
    );
  }
  const title = hand.close ? "✓ This hand checks out" : "✓ So far this hand checks out";
  const children = [el("p", {}, `${counted(passed, "check")} of ${steps.length} passed, none failed.`)];
  const absent = missing.filter(({ id }) => !TWIN.includes(id)).map(({ id }) => MEANING[id][0].toLowerCase());
  if (absent.length) {
    const names = absent.join("; ");
    children.push(el("p", {}, `Not checked, because this file does not hold what is needed: ${names}.`));
  }
  if (hand.twin) children.push(el("p", {}, twinSaid(hand)));
  if (isRoomsAlone(hand))
    children.push(
      el("p", {}, "No player's seed went into this hand: the room alone could have chosen the order of the deck."),
    );
  if (isPublic)
    children.push(el("p", {}, "This is the public part of the hand. Your cards are checked with your own file."));
  if (DOUBTS[source]) children.push(el("p", {}, DOUBTS[source]));
  return section("checked", title, ...children);
}

/** Whether the hand was shuffled or drawn without anybody's seed but the room's. */
function isRoomsAlone(hand) {
  const started = hand.seals[0] ?? hand.draw;
  return started !== undefined && started.absent.length === hand.promised.length;
}

/** Return the steps of one question, folded up unless one of them failed; null where it is not asked. */
function group(title, ids, steps) {
  const asked = ids.map((id) => steps.find((each) => each.id === id)).filter(Boolean);
  if (!asked.length) return null;
  const worst = ["failed", "checked", "not shown"].find((outcome) => asked.some((each) => each.outcome === outcome));
  const passed = asked.filter(({ outcome }) => outcome === "checked").length;
  const said =
    worst === "failed" ? "failed" : passed === asked.length ? "all checked" : `${passed} of ${asked.length} checked`;
  return el(
    "details",
    { class: worst.replace(" ", "-"), ...(worst === "failed" && { open: "" }) },
    el("summary", {}, mark(worst), el("span", {}, title, el("span", { class: "outcome" }, ` · ${said}`))),
    el("ul", { class: "steps" }, ...asked.map(oneStep)),
  );
}

function oneStep({ id, outcome, detail }) {
  const [name, meaning] = MEANING[id];
  return el(
    "li",
    { class: outcome.replace(" ", "-"), "data-step": id, "data-outcome": outcome, "data-detail": detail },
    mark(outcome),
    el(
      "div",
      {},
      el("strong", {}, name, el("span", { class: "outcome" }, ` · ${MARKS[outcome][1]}`)),
      el("p", {}, meaning),
      el("p", { class: "detail" }, detail),
    ),
  );
}

const mark = (outcome) => el("span", { class: "mark", "aria-hidden": "true" }, MARKS[outcome][0]);

function facts(hand) {
  const { table, reserve, promise, close, receipt } = hand;
  const started = hand.seals[0] ?? hand.draw;
  const rows = [
    ["Log", receipt.origin],
    ["Table", el("code", {}, receipt.table)],
    ["Hand", `${receipt.seq}`],
    ["Room's part fixed", when(reserve.time)],
    started ? [hand.draw ? "Drawn" : "Shuffled and sealed", when(started.time)] : null,
    ["Cards", MODES[table.mode]],
    ["Room's seed", REVEALS[table.reveal]],
    promise ? ["Players' seeds", contributors(hand)] : null,
    ["Ended", close ? endOf(close) : "not yet, when this file was made"],
  ];
  const list = rows.filter(Boolean).flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  return [el("h2", { id: "hand-title" }, "The hand"), el("dl", {}, ...list)];
}

function contributors(hand) {
  const absent = (hand.seals[0] ?? hand.draw)?.absent ?? [];
  return names(hand, (i) => !absent.includes(i)) || "nobody's";
}

/** Return who promised, and who of them gave nothing: `gave` tells it by number. */
function names({ promised, receipt }, gave) {
  const name = ([id], i) => `${readable(id)}${id === receipt.own?.id ? " (you)" : ""}${gave(i) ? "" : " (gave none)"}`;
  return promised.map(name).join(", ");
}

/** Return an id as text if it is plain text, else as hex. */
function readable(hex) {
  const text = String.fromCharCode(...toBytes(hex));
  return /^[ -~]+$/.test(text) ? text : hex;
}

const endOf = ({ outcome, reason, time }) => el("span", {}, `${ending(outcome, reason)}, `, when(time));

// --- Cards ---

async function cardsOf({ hand, events }) {
  if (hand.draw) return numbers(hand.draw);
  const shown = [];
  const burnt = new Set();
  const out = new Set();
  for (const { how, k, p } of (events ?? []).flatMap(({ cards }) => cards)) {
    if (how === "burnt") burnt.add(`${k}/${p}`);
    out.add(`${k}/${p}`);
  }
  for (const { k, n, inputs } of hand.seals) {
    const openings = (hand.receipt.openings ?? []).filter((each) => each.k === k);
    const leaves = hand.receipt.shuffles?.find((each) => each.k === k)?.leaves ?? [];
    const places = new Map();
    for (const { p, item, salt } of openings) {
      places.set(
        p,
        face(item, hand.seals[0].n, p, burnt.has(`${k}/${p}`), (await cardLeaf(k, p, item, salt)) === leaves[p]),
      );
    }
    for (let p = 0; p < n; p += 1) {
      if (out.has(`${k}/${p}`) && !places.has(p)) places.set(p, back(p, burnt.has(`${k}/${p}`)));
    }
    const sorted = [...places.keys()].sort((a, b) => a - b).map((p) => places.get(p));
    const name =
      k === 0 ? `The deck: ${counted(n, "card")}` : `Reshuffle ${k}: ${counted(inputs.length, "card")} shuffled again`;
    const hidden = n - sorted.length;
    const rest = `${counted(hidden, "card is", "cards are")} not in this file.`;
    shown.push(el("h3", {}, name));
    if (sorted.length) shown.push(el("ul", { class: "cards" }, ...sorted));
    if (hidden) shown.push(el("p", { class: "quiet" }, sorted.length ? `The other ${rest}` : rest));
  }
  if (!shown.length) return [];
  const what =
    "Each card with its place from the top of the deck, counted from 0. Cards that nobody showed you lie face down.";
  return [el("h2", { id: "cards-title" }, "The cards in this file"), el("p", { class: "quiet" }, what), ...shown];
}

function face(item, n, p, isBurnt, fits) {
  const card = cardOf(item, n);
  let picture;
  if (card) {
    const rank = RANKS[card.rank];
    const [glyph, suit, colour] = SUITS[card.suit];
    const name = `${RANK_NAMES[rank] ?? rank} of ${suit}`;
    picture = el(
      "span",
      { class: `card ${colour}`, role: "img", "aria-label": name },
      el("span", {}, rank),
      el("span", {}, `${glyph}\uFE0E`),
    );
  } else {
    picture = el("span", { class: "card number", role: "img", "aria-label": `item ${item}` }, `${item}`);
  }
  return place(picture, p, isBurnt, fits);
}

const back = (p, isBurnt) =>
  place(el("span", { class: "card back", role: "img", "aria-label": "a card face down" }), p, isBurnt, true);

function place(picture, p, isBurnt, fits) {
  const captions = [`${p}`, isBurnt ? "burnt" : "", fits ? "" : "wrong"].filter(Boolean);
  return el("li", fits ? {} : { class: "wrong" }, picture, ...captions.map((each) => el("small", {}, each)));
}

function numbers({ purpose, m, values }) {
  const items = values.map((value) => el("li", {}, el("span", { class: "card number" }, `${value}`)));
  const title = `Numbers drawn for “${readable(purpose)}”`;
  return [
    el("h2", { id: "cards-title" }, title),
    el("p", { class: "quiet" }, `${counted(values.length, "number")} from 0 to ${m - 1}.`),
    el("ul", { class: "cards" }, ...items),
  ];
}

// --- Two decks, one of which is opened ---

/** Return what twin mode shows of this hand, in a sentence, when nothing has failed. */
function twinSaid(hand) {
  const { choose, close, sealed, deck } = hand;
  if (!choose && close) {
    return sealed
      ? "The hand ended before one of its two decks was chosen. If you had given your choice, ask the room why."
      : "The hand ended before its two decks were sealed.";
  }
  if (!choose) return "This table plays one of two sealed decks; which one was not decided when this file was made.";
  if (!choose.choices.some(Boolean)) {
    return "Nobody chose between the two decks, and the room knew which one it would open: the opened deck proves nothing.";
  }
  return `Two decks were sealed. Players chose deck ${deck}; deck ${1 - deck} was opened, and comes out again here.`;
}

/** What the opened deck is worth, by how the check of the choice ended. */
const WORTH = {
  checked: [
    "quiet",
    "Where the players are honest, a room that seals a wrong deck is caught in every second hand: in ten hands it " +
      "escapes once in 1,024 times. With one player on its side who chooses last, it is caught in every fourth.",
  ],
  failed: ["said failed", "The players' secrets in the log do not make this deck the one that is played."],
  "not shown": [
    "said",
    "Nobody chose. The room knew before it sealed the decks which one it would open, so that this hand proves nothing " +
      "about its shuffles.",
  ],
};

async function twinOf({ hand, steps }) {
  const { choose, close, sealed, deck } = hand;
  if (!sealed) return [];
  const heading = [
    el("h2", { id: "twin-title" }, "The two decks"),
    el(
      "p",
      { class: "quiet" },
      "The room sealed two decks for this hand. Which one is played, players decide with secrets that they show only " +
        "then; the other is opened whole, so that everybody can see whether it was shuffled as it must be.",
    ),
  ];
  if (!choose) {
    const ended = "The hand ended before a choice. Both decks were revealed like the seed of any hand.";
    return [...heading, el("p", { class: "said" }, close ? ended : "Nobody had chosen when this file was made.")];
  }
  const outcome = (id) => steps.find((each) => each.id === id).outcome;
  const isRight = outcome("twin") === "checked";
  const opened = isRight
    ? el("span", { class: "is-good" }, `✓ this page shuffled it again: the same ${counted(sealed.n, "card")}`)
    : el("span", { class: "is-bad" }, "✗ it does not come out of the seed that was shown");
  const rows = [
    ["Both sealed", when(sealed.time)],
    ["Chosen by", names(hand, (i) => choose.choices[i]) || "nobody"],
    ["Played", `deck ${deck}`],
    ["Opened", el("span", {}, `deck ${1 - deck}, `, when(choose.time), ": ", opened)],
  ];
  const list = rows.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]);
  const [look, worth] = WORTH[outcome("choice")];
  const shown = [...heading, el("dl", {}, ...list), el("p", { class: look }, worth)];
  return isRight ? [...shown, await openedDeck(hand)] : shown;
}

/** Return the deck that was not played, as its seed gives it. */
async function openedDeck(hand) {
  const { hc, n } = hand.sealedDeck(1 - hand.deck);
  const items = Array.from({ length: n }, (_, item) => item);
  const { order } = await permute(hand.choose.seed, hc, 0, items);
  const cards = order.map((item, p) => face(item, n, p, false, true));
  return el(
    "details",
    {},
    el("summary", {}, `The cards of deck ${1 - hand.deck}, which was not played`),
    el("ul", { class: "cards" }, ...cards),
  );
}

// --- Ways in ---

const BUSY = "The room's server is busy. Ask again in a moment.";
const REFUSALS = {
  400: "No hand is called like that: a table has 32 digits 0-9 and a-f, a hand is a number from 1 on.",
  404: "This room's log has no such hand.",
  429: BUSY,
  503: BUSY,
};

async function lookUp(table, seq) {
  const mine = startOver("Asking the service …");
  let failure;
  try {
    const answer = await fetch(`hands/${encodeURIComponent(table)}/${encodeURIComponent(seq)}`);
    const text = await answer.text();
    if (mine !== turn) return; // another document came in meanwhile
    if (answer.ok) {
      await check(text, { isPublic: true });
      return;
    }
    failure = REFUSALS[answer.status] ?? `The server refused: ${answer.status}.`;
  } catch {
    failure = "The server could not be reached.";
  }
  if (mine === turn) giveUp(failure);
}

async function takeOpeningKey({ target }) {
  const [file] = target.files;
  the("auditor-said").hidden = false;
  try {
    auditor = await openingKey(await file.text());
    the("auditor-said").className = "quiet";
    the("auditor-said").textContent = `Hands are opened with the key in ${file.name} until you close this page.`;
    await again();
  } catch (error) {
    the("auditor-said").className = "said failed";
    the("auditor-said").textContent = `This is no key of an auditor: ${error.message}.`;
  }
  target.value = "";
}

async function takeFile(file) {
  if (file.size > MAX_FILE_BYTES) {
    giveUp("No receipt is as large as this file. Nothing was checked.");
    return;
  }
  const mine = startOver("Reading the file …");
  try {
    const bytes = new Uint8Array(await file.arrayBuffer());
    if (mine === turn) await check(bytes);
  } catch {
    giveUp("This browser could not read the file. Nothing was checked.");
  }
}

function wire() {
  the("file").addEventListener("change", ({ target }) => {
    if (target.files.length) takeFile(target.files[0]);
    target.value = ""; // so that the same file can be chosen again
  });
  the("paste").addEventListener("input", ({ target }) => {
    if (target.value.trim()) check(target.value);
    else startOver("");
  });
  for (const kind of ["dragover", "dragleave", "drop"]) {
    document.addEventListener(kind, (event) => {
      event.preventDefault();
      the("drop").classList.toggle("over", kind === "dragover");
    });
  }
  document.addEventListener("drop", ({ dataTransfer }) => {
    if (dataTransfer.files.length) takeFile(dataTransfer.files[0]);
    else if (dataTransfer.getData("text")) check(dataTransfer.getData("text"));
  });
  the("opening-key").addEventListener("change", takeOpeningKey);
  the("give-key").addEventListener("submit", useKey);
  the("give-policy").addEventListener("submit", usePolicy);
  the("link").addEventListener("submit", (event) => {
    event.preventDefault();
    lookUp(the("table").value.trim(), the("seq").value.trim());
  });
}

async function start() {
  the("save").hidden = !SERVED;
  the("saved").hidden = SERVED;
  the("link").hidden = !SERVED;
  if (SERVED) {
    the("self").href = "verify";
    the("manifest").href = "manifest";
    the("status").href = "status";
  }
  const missing = await missingCryptography();
  the("missing").textContent = missing;
  the("missing").hidden = !missing;
  if (!globalThis.crypto?.subtle) return;
  wire();
  loadPins();
  await loadPolicy();
  await loadAddress();
  await loadSite();
  await showKeys();
  const asked = new URLSearchParams(location.search);
  if (SERVED && asked.has("table") && asked.has("seq")) {
    the("table").value = asked.get("table");
    the("seq").value = asked.get("seq");
    await lookUp(asked.get("table"), asked.get("seq"));
  }
}

await start();
document.documentElement.dataset.ready = "yes";
