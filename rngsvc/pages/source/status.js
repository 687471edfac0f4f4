/* The status page: shows status.json as a person reads it, and asks for it again every ten seconds. */

import { counted, el, the, when } from "./elements.js";
import { ending } from "./words.js";

const REFRESH_MS = 10_000;
const VERDICTS = {
  pass: ["is-good", "passed"],
  fail: ["is-bad", "failed"],
  undecided: ["is-open", "undecided: too little to judge by"],
};
const KINDS = {
  start: () => "Self-tests at start",
  daily: () => "Daily statistical battery",
  audit: ({ first, last }) => `Auditor's verdict on entries ${first} to ${last}`,
};
const STATES = {
  reserved: "waiting",
  promised: "waiting, seeds promised",
  unchosen: "two decks sealed, none chosen yet",
  sealed: "being played",
  drawn: "numbers drawn",
};

function board(status) {
  return [
    verdict(status),
    el(
      "div",
      { class: "figures" },
      figure(status.log.size, "log entries"),
      figure(status.hands.in_play, "hands in play"),
      figure(status.hands.waiting, "hands reserved and waiting"),
      figure(status.hands.overdue, "hands overdue", status.hands.overdue ? "is-bad" : ""),
    ),
    section("Integrity checks", integrity(status)),
    section("Witnesses", witnesses(status)),
    section(
      "Hands not closed",
      table(["Table", "Hand", "State", "Must be closed by", "Check"], status.hands.open.map(openHand)),
    ),
    section(
      "Hands closed last",
      table(["Closed", "Table", "Hand", "Outcome", "Check"], status.hands.closed.map(closedHand)),
    ),
  ];
}

function verdict({ signing, log, hands, integrity: results, witnesses: cosigned }) {
  const newest = log.time === null ? "The log is empty." : el("span", {}, "Newest checkpoint: ", when(log.time), ".");
  const troubles = [];
  if (!signing.able) troubles.push(`Signing is stopped: ${signing.why}`);
  if (hands.overdue) troubles.push(`${counted(hands.overdue, "hand is", "hands are")} past the deadline.`);
  if (results.entries.some(({ verdict: said }) => said === "fail"))
    troubles.push("An integrity check below has failed.");
  if (cosigned.each.length && !cosigned.cosigned_size) troubles.push("No quorum of witnesses has cosigned the log.");
  if (results.log_audit.trouble) troubles.push(`Not in order: ${results.log_audit.trouble}.`);
  if (results.daily_overdue) troubles.push("No daily battery has reported in the last 26 hours.");
  const kind =
    !signing.able || hands.overdue || results.log_audit.verdict === "fail"
      ? "failed"
      : troubles.length
        ? "open"
        : "checked";
  const title = { checked: "✓ In order", open: "– Running, with remarks", failed: "✗ Needs attention" }[kind];
  return el(
    "section",
    { class: `verdict ${kind}`, "data-verdict": kind, "aria-labelledby": "said" },
    el("h2", { id: "said" }, title),
    el("p", {}, newest),
    ...troubles.map((each) => el("p", {}, each)),
  );
}

const figure = (value, name, kind = "") => el("div", {}, el("strong", { class: kind }, value.toLocaleString()), name);

function section(title, content) {
  const id = title.toLowerCase().replaceAll(" ", "-");
  return el("section", { class: "sheet", "aria-labelledby": id }, el("h2", { id }, title), content);
}

/** Return a table; on a phone each row becomes a card, where the roles say that it still is one. */
function table(heads, rows) {
  if (!rows.length) return el("p", { class: "quiet" }, "None.");
  const titles = heads.map((each) => el("th", { scope: "col", role: "columnheader" }, each));
  const body = rows.map((row) =>
    el("tr", { role: "row" }, ...row.map((each, i) => el("td", { role: "cell", "data-head": heads[i] }, each))),
  );
  return el(
    "table",
    { role: "table" },
    el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, ...titles)),
    el("tbody", { role: "rowgroup" }, ...body),
  );
}

function integrity({ integrity: { entries, code: running, log_audit: audit } }) {
  const rows = entries.map((entry) => {
    const { index, time, kind, verdict: found, code } = entry;
    return [
      when(time),
      KINDS[kind](entry),
      said(found),
      `${index}`,
      code === undefined ? "–" : code === running ? "as now" : el("code", {}, `${code.slice(0, 16)}…`),
    ];
  });
  const files = el("a", { href: "manifest" }, "these files");
  const runs = el(
    "p",
    {},
    "The service runs the code of ",
    files,
    "; SHA-256 of their list: ",
    el("code", {}, running),
  );
  const audited = audit.verdict
    ? el(
        "p",
        {},
        `It audited its own log up to ${counted(audit.size, "entry", "entries")}, `,
        when(audit.time),
        ": ",
        said(audit.verdict),
      )
    : el("p", { class: "quiet" }, "It has not yet audited its own log since it started.");
  return el("div", {}, runs, audited, table(["When", "What", "Verdict", "Log entry", "Code"], rows));
}

function said(found) {
  const [look, word] = VERDICTS[found];
  return el("span", { class: look }, word);
}

function witnesses({ witnesses: { each, cosigned_size: size } }) {
  if (!each.length)
    return el("p", { class: "quiet" }, "The service asks no witnesses: nobody else vouches that all see the same log.");
  const rows = each.map(({ name, size: known, away }) => [
    name,
    known.toLocaleString(),
    away ? el("span", { class: "is-open" }, "did not answer last time") : el("span", { class: "is-good" }, "answers"),
  ]);
  const quorum = size
    ? `A quorum has cosigned the log up to ${counted(size, "entry", "entries")}.`
    : "No quorum has cosigned yet.";
  return el("div", {}, el("p", {}, quorum), table(["Witness", "Cosigned entries", "State"], rows));
}

function openHand({ table: id, seq, state, expires, overdue }) {
  const deadline = expires ? when(expires) : "after the hands before it";
  return [
    brief(id),
    `${seq}`,
    STATES[state] ?? state,
    overdue ? el("span", { class: "is-bad" }, deadline, " (overdue)") : deadline,
    handLink(id, seq),
  ];
}

function closedHand({ time, table: id, seq, outcome, reason }) {
  const said = el("span", { class: outcome === "lost" ? "is-bad" : "" }, ending(outcome, reason));
  return [when(time), brief(id), `${seq}`, said, handLink(id, seq)];
}

const brief = (id) => el("code", { title: id }, `${id.slice(0, 8)}…`);

function handLink(id, seq) {
  const about = {
    href: `verify?table=${encodeURIComponent(id)}&seq=${seq}`,
    "aria-label": `check hand ${seq} of table ${id}`,
  };
  return el("a", about, "check");
}

async function refresh() {
  try {
    const answer = await fetch("status.json");
    if (!answer.ok) throw new Error(`the service answered ${answer.status}`);
    const status = await answer.json();
    the("origin").textContent = `Log ${status.log.origin}`;
    the("board").replaceChildren(...board(status));
  } catch (error) {
    const said = `The service cannot be read just now: ${error.message}. Trying again every ten seconds.`;
    the("board").replaceChildren(el("p", { class: "said failed", role: "alert" }, said));
  }
  the("board").removeAttribute("aria-busy");
}

await refresh();
setInterval(refresh, REFRESH_MS);
