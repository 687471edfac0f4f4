/*
 * Checks one hand of the protocol rs1: the same steps, in the same words, as rngsvc/protocol/verify.py.
 *
 * One ES module without dependencies, for browsers and Node from version 20 on; all cryptography is WebCrypto's. The
 * pages beside rngsvc/protocol say what is computed and why: hand-protocol.md, transparency-log.md, receipt.md.
 *
 * Bytes are lower-case hex strings everywhere, as they stand in the files, so that `+` joins them and a line reads as
 * it does on the page. JSON objects are read into Maps: whatever a document calls its members, it touches nothing else.
 *
 *     import { verify } from "./rs1.js";
 *     const report = await verify(text, vkey, Date.now());
 *     report.steps  // [{ id, claim, outcome: "checked" | "failed" | "not shown", detail }, ..]
 */

/** @typedef {string} Hex bytes in lower-case hex */
/** @typedef {{ id: string, claim: string, outcome: "checked" | "failed" | "not shown", detail: string }} Step */
/** @typedef {{ order: number[], used: number }} Shuffled the item at each place, and the stream bytes taken */
/** @typedef {{ name: string, publicKey: Hex, keyId: Hex }} NoteKey the key of a log or a witness */
/** @typedef {{ text: string, signatures: { name: string, keyId: Hex, signature: Hex }[] }} Note a signed note, read */
/** @typedef {{ origin: string, size: number, root: Hex }} Checkpoint */
/** @typedef {{ key: CryptoKey, publicKey: Hex }} OpeningKey an auditor's X25519 key */

const MAX_INT = Number.MAX_SAFE_INTEGER;
const MAX_SEQ = MAX_INT;
const MAX_ITEMS = 1020;
const MAX_SHUFFLES = 16;
const MAX_CONTRIBUTORS = 16;
const MAX_HANDS = 64; // in one reserve or promise entry
const STREAM_BYTES = 65536;
const MAX_ENTRY_BYTES = 65535;
const MAX_NOTE_CHARACTERS = 65536;
const MAX_SIGNATURES = 64;
const MAX_PROOF_HASHES = 63;
const MAX_DOCUMENT_CHARACTERS = 2 ** 24;
const MAX_DEPTH = 900;
const MAX_INTEGER_DIGITS = 4300;
const MAX_CLOCK_AHEAD_MS = 300_000;
const ZERO_HASH = "00".repeat(32);

/** Bytes, text or a value that the pages do not allow; `field` names the member. */
export class MalformedError extends Error {
  /**
   * @param {string} field
   * @param {string} allowed what it must be
   */
  constructor(field, allowed) {
    super(`${field}: ${allowed}`);
    this.field = field;
  }
}

/** Well-formed evidence that does not show what it claims. */
export class ProofError extends Error {}

/** The document, or this browser, does not have what a check needs. */
export class NotShownError extends Error {}

/** The 65,536 bytes of one derivation are used up: the hand must be aborted. */
export class StreamExhaustedError extends Error {}

// --- Bytes ---

const HEX = Array.from({ length: 256 }, (_, byte) => byte.toString(16).padStart(2, "0"));

/**
 * Return the bytes of a hex string.
 * @param {Hex} hex
 * @returns {Uint8Array<ArrayBuffer>}
 */
export function toBytes(hex) {
  const bytes = new Uint8Array(hex.length / 2);
  for (let i = 0; i < bytes.length; i += 1) bytes[i] = parseInt(hex.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/**
 * Return the hex string of bytes.
 * @param {ArrayBuffer | Uint8Array} bytes
 * @returns {Hex}
 */
export function toHex(bytes) {
  let hex = "";
  for (const byte of new Uint8Array(bytes)) hex += HEX[byte];
  return hex;
}

const utf8 = (text) => toHex(new TextEncoder().encode(text));
const unsigned = (value, bytes) => value.toString(16).padStart(2 * bytes, "0");
const u8 = (value) => unsigned(value, 1);
const u16 = (value) => unsigned(value, 2);
const u64 = (value) => unsigned(value, 8);

async function sha256(hex) {
  return toHex(await crypto.subtle.digest("SHA-256", toBytes(hex)));
}

/** Return the bytes of standard base64 in its one canonical encoding. */
function fromBase64(text, field) {
  if (/^[A-Za-z0-9+/]+={0,2}$/.test(text) && text.length % 4 === 0) {
    const binary = atob(text);
    if (btoa(binary) === text) return toHex(Uint8Array.from(binary, (each) => each.charCodeAt(0)));
  }
  throw new MalformedError(field, "must be standard base64 with its padding");
}

/**
 * Say what this browser lacks for checking hands, in words for its user; "" if nothing.
 * @returns {Promise<string>}
 */
export async function missingCryptography() {
  if (!globalThis.crypto?.subtle) {
    return "There is no cryptography for pages at this address: open the page over https, or save it and open the file.";
  }
  try {
    await crypto.subtle.importKey("raw", new Uint8Array(32), "Ed25519", false, ["verify"]);
    return "";
  } catch {
    return "This browser cannot check Ed25519 signatures: the log's signature stays unchecked. Newer browsers can.";
  }
}

// --- Primitives ---

/**
 * Throw ProofError, saying `what` is wrong, unless `signature` is the raw `publicKey`'s on `message`.
 * @param {Hex} publicKey
 * @param {Hex} signature
 * @param {Hex} message
 * @param {string} what
 * @returns {Promise<void>}
 */
export async function verifyEd25519(publicKey, signature, message, what) {
  let key;
  try {
    key = await crypto.subtle.importKey("raw", toBytes(publicKey), "Ed25519", false, ["verify"]);
  } catch (error) {
    if (error.name === "NotSupportedError") throw new NotShownError("this browser cannot check Ed25519 signatures");
    throw new ProofError(`${what} is not valid`);
  }
  if (!(await crypto.subtle.verify("Ed25519", key, toBytes(signature), toBytes(message)))) {
    throw new ProofError(`${what} is not valid`);
  }
}

/**
 * Return `length` bytes of HKDF-SHA-512 (RFC 5869), at most 255 * 64.
 * @param {Hex} keyMaterial
 * @param {Hex} salt
 * @param {Hex} info
 * @param {number} length
 * @returns {Promise<Hex>}
 */
export async function hkdfSha512(keyMaterial, salt, info, length) {
  const key = await crypto.subtle.importKey("raw", toBytes(keyMaterial), "HKDF", false, ["deriveBits"]);
  const derivation = { name: "HKDF", hash: "SHA-512", salt: toBytes(salt), info: toBytes(info) };
  return toHex(await crypto.subtle.deriveBits(derivation, key, 8 * length));
}

async function aesCtr(key, counter, length) {
  const imported = await crypto.subtle.importKey("raw", toBytes(key), "AES-CTR", false, ["encrypt"]);
  const mode = { name: "AES-CTR", counter: toBytes(counter), length: 128 };
  return new Uint8Array(await crypto.subtle.encrypt(mode, imported, new Uint8Array(length)));
}

/** Step 4. Return the 65,536 bytes of CTR_DRBG (AES-256, no derivation function) that `seed48` gives. */
async function byteStream(seed48) {
  // AES-256 under the zero key of the counters 1, 2 and 3 is what Instantiate adds to its seed.
  const instantiate = toHex(await aesCtr(ZERO_HASH, u64(0) + u64(1), 48));
  const keyAndV = unsigned(BigInt(`0x${seed48}`) ^ BigInt(`0x${instantiate}`), 48);
  const first = (BigInt(`0x${keyAndV.slice(64)}`) + 1n) % 2n ** 128n;
  return aesCtr(keyAndV.slice(0, 64), unsigned(first, 16), STREAM_BYTES);
}

// --- Merkle trees (RFC 6962) ---

/**
 * Return the hash of a leaf, an entry's bytes for instance.
 * @param {Hex} leaf
 * @returns {Promise<Hex>}
 */
export const leafHash = (leaf) => sha256("00" + leaf);
const nodeHash = (left, right) => sha256("01" + left + right);

/**
 * Return the root of the tree over `leafHashes`.
 * @param {Hex[]} leafHashes
 * @returns {Promise<Hex>}
 */
export async function rootOf(leafHashes) {
  let level = [...leafHashes];
  if (level.length === 0) return sha256("");
  while (level.length > 1) {
    const above = [];
    for (let i = 0; i < level.length; i += 2) {
      // A last one without a neighbour rises unchanged, which is RFC 6962's split.
      above.push(i + 1 < level.length ? await nodeHash(level[i], level[i + 1]) : level[i]);
    }
    level = above;
  }
  return level[0];
}

/**
 * Throw ProofError unless `proof` shows that `leaf` is number `index` in the tree of `size` leaves with `root`.
 * @param {Hex} leaf its hash
 * @param {number} index
 * @param {number} size
 * @param {Hex[]} proof
 * @param {Hex} root
 * @returns {Promise<void>}
 */
export async function verifyInclusion(leaf, index, size, proof, root) {
  if (!(index >= 0 && index < size)) throw new ProofError(`index ${index} is not in a tree of ${size} leaves`);
  const { whole } = await climb(leaf, BigInt(index), BigInt(size) - 1n, proof);
  if (whole !== root) throw new ProofError("the inclusion proof does not lead to the root");
}

/**
 * Throw ProofError unless `proof` shows that the tree of `newSize` leaves begins with the `oldSize` of the older.
 * @param {number} oldSize
 * @param {Hex} oldRoot
 * @param {number} newSize
 * @param {Hex} newRoot
 * @param {Hex[]} proof
 * @returns {Promise<void>}
 */
export async function verifyConsistency(oldSize, oldRoot, newSize, newRoot, proof) {
  if (oldSize <= 0) throw new ProofError("from the empty tree there is nothing to prove");
  if (!(oldSize <= newSize)) {
    throw new ProofError(`a tree of ${newSize} leaves cannot continue one of ${oldSize}`);
  }
  if (oldSize === newSize) {
    if (proof.length) throw new ProofError("between equal sizes a consistency proof has no hashes");
    if (oldRoot !== newRoot) throw new ProofError("two different roots for one size");
    return;
  }
  // The proof walks up from the largest complete subtree that ends the old tree. When that subtree is the whole old
  // tree, its hash is the old root and is not repeated in the proof.
  const size = BigInt(oldSize);
  let level = 0n;
  while (!((size >> level) & 1n)) level += 1n;
  const path = size === 1n << level ? [oldRoot, ...proof] : proof;
  if (!path.length) throw new ProofError("the consistency proof is empty");
  const last = (BigInt(newSize) - 1n) >> level;
  const { ended, whole } = await climb(path[0], (size - 1n) >> level, last, path.slice(1));
  if (ended !== oldRoot) throw new ProofError("the consistency proof does not lead to the old root");
  if (whole !== newRoot) throw new ProofError("the consistency proof does not lead to the new root");
}

/** Follow `path` up from node `index` of a level whose last node is `last`: the roots that end with it, and of all. */
async function climb(node, index, last, path) {
  if ([node, ...path].some((each) => each.length !== 64)) throw new ProofError("a hash in a proof is 32 bytes");
  // On the lowest `inner` levels the sibling stands on the side that the index says; above them the node lies on the
  // tree's right edge, where a level without a left sibling takes no hash.
  const inner = index === last ? 0 : (index ^ last).toString(2).length;
  const onEdge = (index >> BigInt(inner)).toString(2).replaceAll("0", "").length;
  if (path.length !== inner + onEdge) {
    throw new ProofError(`a proof of ${path.length} hashes does not fit these sizes`);
  }
  let ended = node;
  let whole = node;
  for (const [level, sibling] of path.entries()) {
    if (level < inner && !((index >> BigInt(level)) & 1n)) {
      whole = await nodeHash(whole, sibling);
    } else {
      ended = await nodeHash(sibling, ended);
      whole = await nodeHash(sibling, whole);
    }
  }
  return { ended, whole };
}

// --- The hand protocol, step by step (hand-protocol.md) ---

/**
 * Step 1. Return C.
 * @param {Hex} table
 * @param {number} seq
 * @param {Hex} seed the room's, 48 bytes
 * @returns {Promise<Hex>}
 */
export const commit = (table, seq, seed) => sha256("10" + utf8("rs1/seed") + table + u64(seq) + seed);

/**
 * Step 2. Return P, by which contributor `id` promises `seed`.
 * @param {string} origin the log's name
 * @param {Hex} table
 * @param {number} seq
 * @param {Hex} id
 * @param {Hex} seed
 * @returns {Promise<Hex>}
 */
export const promise = (origin, table, seq, id, seed) =>
  promiseWith("11" + utf8("rs1/promise"), origin, table, seq, id, seed);

async function promiseWith(tag, origin, table, seq, id, secret) {
  return sha256(tag + (await sha256(utf8(origin))) + table + u64(seq) + (await sha256(id)) + secret);
}

/**
 * Step 2. Return the Merkle leaf hash of contributor number `i`; without `seed` he is absent.
 * @param {number} i
 * @param {Hex} id
 * @param {Hex | null} [seed]
 * @returns {Promise<Hex>}
 */
export async function contributionLeaf(i, id, seed) {
  const seedHash = seed ? await sha256(seed) : ZERO_HASH;
  return leafHash(utf8("rs1/contribution") + u8(i) + (await sha256(id)) + seedHash);
}

/**
 * Step 3. Return HC_0.
 * @param {string} origin the log's name
 * @param {Hex} table
 * @param {number} seq
 * @param {Hex} commitment C
 * @param {Hex} contributionsRoot CR
 * @param {Hex} pre leaf hash of the promise entry, or of the reserve entry
 * @returns {Promise<Hex>}
 */
export async function handContext(origin, table, seq, commitment, contributionsRoot, pre) {
  const bound = table + u64(seq) + commitment + contributionsRoot + pre;
  return sha256("12" + utf8("rs1/hand") + (await sha256(utf8(origin))) + bound);
}

/**
 * Step 7. Return HC_k.
 * @param {Hex} previousContext HC of shuffle k - 1
 * @param {Hex} previousRoot its R
 * @param {number} k
 * @param {[number, number][]} locations [j, p] of each named place
 * @returns {Promise<Hex>}
 */
export function reshuffleContext(previousContext, previousRoot, k, locations) {
  const named = locations.map(([j, p]) => u16(j) + u16(p)).join("");
  return sha256("14" + utf8("rs1/reshuffle") + previousContext + previousRoot + u16(k) + u16(locations.length) + named);
}

/**
 * Step 4. Return the order of shuffle `k` over the list `items`.
 * @param {Hex} seed the room's, 48 bytes
 * @param {Hex} context HC_k
 * @param {number} k
 * @param {number[]} items
 * @returns {Promise<Shuffled>}
 */
export async function permute(seed, context, k, items) {
  const itemList = await sha256(items.map(u16).join(""));
  const seed48 = await hkdfSha512(seed, context, utf8("rs1/shuffle") + u16(k) + u16(items.length) + itemList, 48);
  return fisherYates(items, await byteStream(seed48));
}

/**
 * Step 4's byte rule: shuffle `items` with the bytes of `stream`; StreamExhaustedError if they do not suffice.
 * @param {number[]} items
 * @param {Uint8Array} stream
 * @returns {Shuffled}
 */
export function fisherYates(items, stream) {
  const order = [...items];
  const width = order.length > 256 ? 2 : 1;
  const range = 256 ** width;
  let used = 0;
  for (let m = order.length; m > 1; m -= 1) {
    let draw;
    do {
      if (used + width > stream.length) {
        throw new StreamExhaustedError(`the ${STREAM_BYTES} bytes of this derivation are used up`);
      }
      draw = width === 1 ? stream[used] : 256 * stream[used] + stream[used + 1];
      used += width;
    } while (draw >= range - (range % m)); // not `draw % m` alone: low places would come up more often
    const j = draw % m;
    [order[m - 1], order[j]] = [order[j], order[m - 1]];
  }
  return { order, used };
}

/**
 * Step 5. Return the `n` salts of shuffle `k`, 16 bytes each, in one string.
 * @param {Hex} seed the room's, 48 bytes
 * @param {Hex} context HC_k
 * @param {number} k
 * @param {number} n
 * @returns {Promise<Hex>}
 */
export const salts = (seed, context, k, n) => hkdfSha512(seed, context, utf8("rs1/salt") + u16(k), 16 * n);

/**
 * Step 5. Return the leaf of `item` at place `p` of shuffle `k`.
 * @param {number} k
 * @param {number} p
 * @param {number} item
 * @param {Hex} salt
 * @returns {Promise<Hex>}
 */
export const cardLeaf = (k, p, item, salt) => sha256("00" + utf8("rs1/card") + u16(k) + u16(p) + u16(item) + salt);

/**
 * Step 5. Return the leaf of every place.
 * @param {number} k
 * @param {number[]} order the item at each place
 * @param {Hex} allSalts
 * @returns {Promise<Hex[]>}
 */
export function seal(k, order, allSalts) {
  return Promise.all(order.map((item, p) => cardLeaf(k, p, item, allSalts.slice(32 * p, 32 * p + 32))));
}

/**
 * Step 5. Return R_k.
 * @param {number} k
 * @param {Hex[]} leaves
 * @returns {Promise<Hex>}
 */
export const cardsRoot = (k, leaves) =>
  sha256("13" + utf8("rs1/cards") + u16(k) + u16(leaves.length) + leaves.join(""));

/**
 * Step 9. Return `count` numbers below `modulus`.
 * @param {Hex} seed the room's, 48 bytes
 * @param {Hex} context HC_0
 * @param {Hex} purpose hex of ASCII bytes
 * @param {number} modulus
 * @param {number} count
 * @returns {Promise<number[]>}
 */
export async function drawNumbers(seed, context, purpose, modulus, count) {
  const info = utf8("rs1/draw") + u16(count) + u64(modulus) + (await sha256(purpose));
  const stream = await byteStream(await hkdfSha512(seed, context, info, 48));
  const words = new DataView(stream.buffer);
  const m = BigInt(modulus);
  const limit = 2n ** 64n - (2n ** 64n % m);
  const values = [];
  for (let at = 0; values.length < count; at += 8) {
    if (at === STREAM_BYTES) {
      throw new StreamExhaustedError(`the ${STREAM_BYTES} bytes of this derivation are used up`);
    }
    const word = words.getBigUint64(at);
    if (word < limit) values.push(Number(word % m));
  }
  return values;
}

/**
 * Return the card that `item` is in a deck of `n`: rank 0 (deuce) to 12 (ace), suit one of "cdhs"; null if none.
 * @param {number} item
 * @param {number} n
 * @returns {{ rank: number, suit: string } | null}
 */
export function cardOf(item, n) {
  if (![52, 36, 32].includes(n) || item >= n) return null;
  const code = item + 52 - n;
  return { rank: Math.floor(code / 4), suit: "cdhs"[code % 4] };
}

// --- Two decks, one of which is opened (twin-mode.md) ---

/**
 * Return Q, by which contributor `id` promises `choice`.
 * @param {string} origin the log's name
 * @param {Hex} table
 * @param {number} seq
 * @param {Hex} id
 * @param {Hex} choice
 * @returns {Promise<Hex>}
 */
export const promiseChoice = (origin, table, seq, id, choice) =>
  promiseWith("15" + utf8("rs1/choice"), origin, table, seq, id, choice);

/**
 * Return D of the two decks and what the contributors chose; "" or null for a choice that was not given.
 * @param {[Hex, Hex]} contexts HC_0 of deck 0 and of deck 1
 * @param {[Hex, Hex]} roots their R_0
 * @param {(Hex | null)[]} choices each contributor's, in order
 * @returns {Promise<Hex>}
 */
export async function choiceDigest(contexts, roots, choices) {
  const hashes = await Promise.all(choices.map((choice) => (choice ? sha256(choice) : ZERO_HASH)));
  return sha256("17" + utf8("rs1/twin") + contexts[0] + roots[0] + contexts[1] + roots[1] + hashes.join(""));
}

/**
 * Return 0 or 1, the deck that D tells to play.
 * @param {Hex} digest D
 * @returns {number}
 */
export const playedDeck = (digest) => parseInt(digest.slice(-2), 16) & 1;

// --- Step 8 under escrow: HPKE (RFC 9180), DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-256-GCM ---

const KEM_SUITE = utf8("KEM") + "0020";
const HPKE_SUITE = utf8("HPKE") + "0020" + "0001" + "0002";

/**
 * Read an auditor's key: the first private key (PKCS#8, X25519) of a PEM text. It cannot be taken out again.
 * @param {string} pem
 * @returns {Promise<OpeningKey>}
 */
export async function openingKey(pem) {
  const [, encoded] = /-----BEGIN PRIVATE KEY-----([^-]*)-----END PRIVATE KEY-----/.exec(pem) ?? [];
  if (encoded === undefined) throw new MalformedError("auditor", "must be a private key in PEM");
  const pkcs8 = toBytes(fromBase64(encoded.replace(/\s/g, ""), "auditor"));
  try {
    const key = await crypto.subtle.importKey("pkcs8", pkcs8, "X25519", false, ["deriveBits"]);
    return { key, publicKey: await agreed(key, X25519_BASE_POINT) };
  } catch (error) {
    if (error.name === "NotSupportedError") throw new NotShownError("this browser has no X25519");
    throw new MalformedError("auditor", "must be an X25519 key");
  }
}

/** The base point: multiplied by it, a private key gives its public one. */
const X25519_BASE_POINT = "09".padEnd(64, "0");

/** Return X25519 of a private and a public key. */
async function agreed(key, publicKey) {
  const point = await crypto.subtle.importKey("raw", toBytes(publicKey), "X25519", false, []);
  return toHex(await crypto.subtle.deriveBits({ name: "X25519", public: point }, key, 256));
}

/**
 * Return the seed in `escrow`; ProofError if this key does not open it for this hand.
 * @param {Hex} escrow enc and ciphertext, 96 bytes
 * @param {OpeningKey} auditor
 * @param {string} origin the log's name
 * @param {Hex} table
 * @param {number} seq
 * @param {Hex} commitment C
 * @returns {Promise<Hex>}
 */
export async function openSeed(escrow, auditor, origin, table, seq, commitment) {
  const info = utf8("rs1/escrow") + (await sha256(utf8(origin))) + table + u64(seq) + commitment;
  const enc = escrow.slice(0, 64);
  try {
    const shared = await labeledExtract(KEM_SUITE, "", "eae_prk", await agreed(auditor.key, enc));
    const secret = await labeledExpand(KEM_SUITE, shared, "shared_secret", enc + auditor.publicKey, 32);
    const pskIdHash = await labeledExtract(HPKE_SUITE, "", "psk_id_hash", "");
    const schedule = "00" + pskIdHash + (await labeledExtract(HPKE_SUITE, "", "info_hash", info));
    const prk = await labeledExtract(HPKE_SUITE, secret, "secret", "");
    const key = await labeledExpand(HPKE_SUITE, prk, "key", schedule, 32);
    const nonce = await labeledExpand(HPKE_SUITE, prk, "base_nonce", schedule, 12);
    const imported = await crypto.subtle.importKey("raw", toBytes(key), "AES-GCM", false, ["decrypt"]);
    const sealed = { name: "AES-GCM", iv: toBytes(nonce) };
    return toHex(await crypto.subtle.decrypt(sealed, imported, toBytes(escrow.slice(64))));
  } catch (error) {
    if (error.name !== "OperationError") throw error; // a point of small order, or a ciphertext that does not fit
    throw new ProofError("the escrow does not open with this key for this hand");
  }
}

async function hmacSha256(key, message) {
  const algorithm = { name: "HMAC", hash: "SHA-256" };
  // HMAC fills keys up with zeros, so that 32 of them are no key at all, which WebCrypto would not take.
  const imported = await crypto.subtle.importKey("raw", toBytes(key || ZERO_HASH), algorithm, false, ["sign"]);
  return toHex(await crypto.subtle.sign("HMAC", imported, toBytes(message)));
}

const labeledExtract = (suite, salt, label, keyMaterial) =>
  hmacSha256(salt, utf8("HPKE-v1") + suite + utf8(label) + keyMaterial);

/** LabeledExpand of at most 32 bytes, which are one block. */
async function labeledExpand(suite, prk, label, info, length) {
  return (await hmacSha256(prk, u16(length) + utf8("HPKE-v1") + suite + utf8(label) + info + "01")).slice(
    0,
    2 * length,
  );
}

// --- JSON, read strictly: integers only, no member twice ---

/**
 * Parse JSON into Maps, arrays, strings, numbers, booleans and null; MalformedError naming `field`.
 * @param {string} text
 * @param {string} field
 * @returns {any}
 */
export function loadJson(text, field) {
  let at = 0;
  const whole = field || "entry"; // whose members are named without it
  const notJson = () => new MalformedError(whole, "must be JSON");
  const literals = { n: ["null", null], t: ["true", true], f: ["false", false] };

  function space() {
    while (at < text.length && " \t\n\r".includes(text[at])) at += 1;
  }

  function value(depth) {
    if (depth > MAX_DEPTH) throw notJson();
    space();
    const first = text[at];
    if (first === "{") return object(depth);
    if (first === "[") return list(depth);
    if (first === '"') return string();
    const [word, meaning] = literals[first] ?? [];
    if (word && text.startsWith(word, at)) {
      at += word.length;
      return meaning;
    }
    return number();
  }

  function number() {
    const constant = ["NaN", "Infinity", "-Infinity"].find((each) => text.startsWith(each, at));
    if (constant) throw new MalformedError(whole, `must hold integers only, not ${constant}`);
    const pattern = /(-?(?:0|[1-9][0-9]*))(\.[0-9]+)?([eE][-+]?[0-9]+)?/y;
    pattern.lastIndex = at;
    const [literal, integer, fraction, exponent] = pattern.exec(text) ?? [];
    if (literal === undefined) throw notJson();
    if (fraction || exponent) throw new MalformedError(whole, `must hold integers only, not ${literal.slice(0, 20)}`);
    if (integer.replace("-", "").length > MAX_INTEGER_DIGITS) throw notJson();
    at += literal.length;
    // A number past 2^53-1 stays a BigInt, which no member takes; adding 0 makes 0 of -0.
    return Number.isSafeInteger(Number(integer)) ? Number(integer) + 0 : BigInt(integer);
  }

  function string() {
    let end = at + 1;
    while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
    const literal = text.slice(at, end + 1);
    at = end + 1;
    try {
      return JSON.parse(literal);
    } catch {
      throw notJson();
    }
  }

  function list(depth) {
    const items = [];
    at += 1;
    space();
    if (text[at] !== "]") {
      do {
        items.push(value(depth + 1));
        space();
      } while (next(","));
    }
    if (!next("]")) throw notJson();
    return items;
  }

  function object(depth) {
    const members = new Map();
    const names = [];
    at += 1;
    space();
    if (text[at] !== "}") {
      do {
        space();
        if (text[at] !== '"') throw notJson();
        const name = string();
        space();
        if (!next(":")) throw notJson();
        members.set(name, value(depth + 1));
        names.push(name);
        space();
      } while (next(","));
    }
    if (!next("}")) throw notJson();
    if (members.size !== names.length) {
      const twice = shown(names.find((name, i) => names.indexOf(name, i + 1) > 0));
      throw new MalformedError(field ? `${field}.${twice}` : twice, "stands twice");
    }
    return members;
  }

  function next(character) {
    if (text[at] !== character) return false;
    at += 1;
    return true;
  }

  const found = value(0);
  space();
  if (at !== text.length) throw notJson();
  return found;
}

/** Return a member's name as it may stand in a message: somebody else chose it. */
function shown(name) {
  const escapes = { "\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r" };
  const escaped = (each) => {
    const code = each.codePointAt(0);
    const digits = code < 0x100 ? ["x", 2] : code < 0x10000 ? ["u", 4] : ["U", 8];
    return escapes[each] ?? `\\${digits[0]}${code.toString(16).padStart(digits[1], "0")}`;
  };
  return [...name]
    .slice(0, 40)
    .join("")
    .replace(/[^ -[\]-~]/gu, escaped);
}

// --- How members are spelled: a reader takes (value, field) and returns what the value stands for ---

const integer = (low, high) => (value, field) => {
  if (typeof value !== "number" || value < low || value > high) {
    throw new MalformedError(field, `must be an integer ${low}..${high}`);
  }
  return value;
};

const octets =
  (low, high = low) =>
  (value, field) => {
    const length = typeof value === "string" && /^(?:[0-9a-f]{2})*$/.test(value) ? value.length / 2 : -1;
    if (length < low || length > high) {
      throw new MalformedError(field, `must be ${low === high ? low : `${low}..${high}`} bytes in lower-case hex`);
    }
    return value;
  };

const word =
  (...words) =>
  (value, field) => {
    if (!words.includes(value)) throw new MalformedError(field, `must be one of ${words.join(", ")}`);
    return value;
  };

const text =
  (low, high, besides = "") =>
  (value, field) => {
    const allowed = (each) => (each >= " " && each <= "~") || besides.includes(each);
    if (typeof value !== "string" || value.length < low || value.length > high || ![...value].every(allowed)) {
      throw new MalformedError(field, `must be ${low}..${high} printable ASCII characters`);
    }
    return value;
  };

const array = (item, low, high) => (value, field) => {
  if (!Array.isArray(value) || value.length < low || value.length > high) {
    throw new MalformedError(field, `must be an array of ${low}..${high}`);
  }
  return value.map((each, i) => item(each, `${field}[${i}]`));
};

const row =
  (...columns) =>
  (value, field) => {
    if (!Array.isArray(value) || value.length !== columns.length) {
      throw new MalformedError(field, `must be an array of ${columns.length}`);
    }
    return columns.map((column, i) => column(value[i], `${field}[${i}]`));
  };

const optional = (read) => Object.assign((value, field) => read(value, field), { optional: true });

const record = (members) => (value, field) => {
  if (!(value instanceof Map)) throw new MalformedError(field, "must be an object");
  const prefix = field ? `${field}.` : "";
  for (const name of value.keys()) {
    if (!Object.hasOwn(members, name)) throw new MalformedError(prefix + shown(name), "is not a member here");
  }
  const found = {};
  for (const [name, read] of Object.entries(members)) {
    if (value.has(name)) found[name] = read(value.get(name), prefix + name);
    else if (!read.optional) throw new MalformedError(prefix + name, "is missing");
  }
  return found;
};

const TIME = integer(0, MAX_INT);
const HASH = octets(32);
const KEY = octets(32);
const SIGNATURE = octets(64);
const TABLE = octets(16);
const SEQ = integer(1, MAX_SEQ);
const K = integer(0, MAX_SHUFFLES - 1);
const PLACE = integer(0, MAX_ITEMS - 1);
const ABSENT = array(integer(0, MAX_CONTRIBUTORS - 1), 0, MAX_CONTRIBUTORS);
const CONTRIBUTOR = octets(1, 64);
const CONTRIBUTION = octets(32, 64);

function keyName(value, field) {
  if (typeof value !== "string" || !/^[!-*,-~]{1,255}$/.test(value)) {
    throw new MalformedError(field, "must be 1..255 printable ASCII characters without space and plus");
  }
  return value;
}

function decimal(value, field) {
  if (!/^(?:0|[1-9][0-9]{0,15})$/.test(value) || !Number.isSafeInteger(Number(value))) {
    throw new MalformedError(field, "must be a decimal number 0..2**53-1 without leading zeros");
  }
  return Number(value);
}

// --- Log entries (transparency-log.md) ---

const ABORT_REASONS = ["expired", "misdeal", "players_left", "rng_lost", "caller", "exhausted"];
const LOST_REASONS = ["seed_lost", "key_lost"];
const VERDICT = word("pass", "fail", "undecided");
/** A contributed seed or choice, "" of a contributor who gave none. */
const OPTIONAL_SEED = (value, field) => (value === "" ? "" : CONTRIBUTION(value, field));

/** One contributor's row: his id, P and, at a twin table, Q. */
function promiseRow(value, field) {
  if (!Array.isArray(value) || value.length < 2 || value.length > 3) {
    throw new MalformedError(field, "must be an array of 2, at a twin table of 3");
  }
  return row(CONTRIBUTOR, ...Array(value.length - 1).fill(HASH))(value, field);
}

/** The members of each type of entry besides v, type and time; those of a table's entries in `IN_TABLE` too. */
const IN_TABLE = { table: TABLE, prev: HASH };
const ENTRY_MEMBERS = {
  table: {
    ...IN_TABLE,
    mode: word("shoe", "full"),
    reveal: word("public", "escrow"),
    ttl: integer(60, 2_592_000),
    auditor: optional(row(KEY, KEY)),
    twin: optional(integer(1, 1)),
  },
  reserve: {
    ...IN_TABLE,
    first: SEQ,
    commitments: array(HASH, 1, MAX_HANDS),
    twin_commitments: optional(array(HASH, 1, MAX_HANDS)),
  },
  promise: {
    ...IN_TABLE,
    first: SEQ,
    promises: array(array(promiseRow, 0, MAX_CONTRIBUTORS), 1, MAX_HANDS),
  },
  seal: {
    ...IN_TABLE,
    seq: SEQ,
    k: K,
    n: integer(1, MAX_ITEMS),
    hc: HASH,
    root: HASH,
    used: integer(0, STREAM_BYTES),
    cr: optional(HASH),
    absent: optional(ABSENT),
    pre: optional(HASH),
    inputs: optional(array(row(K, PLACE), 1, MAX_ITEMS)),
    twin_hc: optional(HASH),
    twin_root: optional(HASH),
    twin_used: optional(integer(0, STREAM_BYTES)),
  },
  choose: {
    ...IN_TABLE,
    seq: SEQ,
    choices: array(OPTIONAL_SEED, 0, MAX_CONTRIBUTORS),
    deck: integer(0, 1),
    seed: octets(48),
  },
  draw: {
    ...IN_TABLE,
    seq: SEQ,
    purpose: octets(1, 64),
    m: integer(1, MAX_INT),
    values: array(integer(0, MAX_INT - 1), 1, 1024),
    hc: HASH,
    cr: HASH,
    absent: ABSENT,
    pre: HASH,
  },
  close: {
    ...IN_TABLE,
    seq: SEQ,
    outcome: word("complete", "aborted", "lost"),
    reason: optional(word(...ABORT_REASONS, ...LOST_REASONS)),
    opened: optional(array(row(TIME, K, array(PLACE, 1, MAX_ITEMS)), 0, MAX_SHUFFLES * MAX_ITEMS)),
    seeds: optional(array(OPTIONAL_SEED, 0, MAX_CONTRIBUTORS)),
    seed: optional(octets(48)),
    escrow: optional(octets(96)),
    twin_seed: optional(octets(48)),
    twin_escrow: optional(octets(96)),
  },
  key: { old: KEY, new: KEY, sigs: row(SIGNATURE, SIGNATURE) },
  integrity: { kind: word("start", "daily"), code: HASH, results: row(HASH, VERDICT) },
  sample: { id: octets(1, 64), kind: word("bits", "numbers", "shuffles"), count: integer(1, MAX_INT) },
  audit: {
    first: integer(0, MAX_INT),
    last: integer(0, MAX_INT),
    result: HASH,
    verdict: VERDICT,
    signer: KEY,
    sig: SIGNATURE,
  },
};

/** What goes together in each type of entry. */
const ENTRY_CHECKS = {
  table(entry) {
    if ((entry.auditor !== undefined) !== (entry.reveal === "escrow")) {
      throw new MalformedError("auditor", "must be there under escrow, and only then");
    }
    if (entry.prev !== ZERO_HASH) throw new MalformedError("prev", "must be 64 zeros in a table's first entry");
  },
  reserve(entry) {
    const { commitments, twin_commitments: twins } = entry;
    checkLastSeq(entry.first, commitments.length);
    if (!twins) return;
    if (twins.length !== commitments.length) {
      throw new MalformedError("twin_commitments", "must be as many as commitments");
    }
    const same = commitments.findIndex((each, i) => each === twins[i]);
    if (same >= 0) {
      throw new MalformedError(`twin_commitments[${same}]`, "must differ from the commitment of deck 0");
    }
  },
  promise(entry) {
    checkLastSeq(entry.first, entry.promises.length);
    const width = entry.promises.flat()[0]?.length;
    for (const [i, rows] of entry.promises.entries()) {
      // Lower-case hex sorts as its bytes do, a prefix first.
      if (!ascending(rows.map(([id]) => id))) {
        throw new MalformedError(`promises[${i}]`, "must ascend strictly by contributor id");
      }
      if (rows.some((each) => each.length !== width)) {
        throw new MalformedError(`promises[${i}]`, "must promise choices as the first row does");
      }
    }
  },
  seal(entry) {
    for (const name of ["cr", "absent", "pre"]) {
      if ((entry[name] !== undefined) !== (entry.k === 0)) {
        throw new MalformedError(name, "must be there when k is 0, and only then");
      }
    }
    if ((entry.inputs !== undefined) !== entry.k > 0) {
      throw new MalformedError("inputs", "must be there when k is 1 or more, and only then");
    }
    for (const name of ["twin_hc", "twin_root", "twin_used"]) {
      if (entry[name] !== undefined && entry.k > 0) {
        throw new MalformedError(name, "must be absent when k is 1 or more");
      }
      if ((entry[name] === undefined) !== (entry.twin_hc === undefined)) {
        throw new MalformedError(name, "must be there together with twin_hc");
      }
    }
    if (!ascending(entry.absent ?? [])) throw new MalformedError("absent", "must ascend strictly");
    if (entry.inputs) {
      if (!ascending(entry.inputs.map(ordinal)) || entry.inputs.at(-1)[0] >= entry.k) {
        throw new MalformedError("inputs", "must ascend strictly and name earlier shuffles");
      }
      if (entry.inputs.length !== entry.n) throw new MalformedError("n", "must be the number of inputs");
    }
  },
  draw(entry) {
    if (toBytes(entry.purpose).some((byte) => byte > 127)) throw new MalformedError("purpose", "must be ASCII");
    for (const [i, value] of entry.values.entries()) {
      if (value >= entry.m) throw new MalformedError(`values[${i}]`, "must be below m");
    }
    if (!ascending(entry.absent)) throw new MalformedError("absent", "must ascend strictly");
  },
  close(entry) {
    if (entry.outcome === "complete") {
      if (entry.reason !== undefined) throw new MalformedError("reason", "must be absent when the hand is complete");
    } else {
      const reasons = entry.outcome === "lost" ? LOST_REASONS : ABORT_REASONS;
      if (entry.reason === undefined) throw new MalformedError("reason", "is missing");
      if (!reasons.includes(entry.reason)) throw new MalformedError("reason", `must be one of ${reasons.join(", ")}`);
    }
    if (entry.seed !== undefined && entry.escrow !== undefined) {
      throw new MalformedError("escrow", "must be absent where the seed is shown");
    }
    if ((entry.seed === undefined && entry.escrow === undefined) !== (entry.outcome === "lost")) {
      throw new MalformedError("seed", "or escrow must be there, unless the hand is lost");
    }
    for (const [name, ofDeck0] of [
      ["twin_seed", entry.seed],
      ["twin_escrow", entry.escrow],
    ]) {
      if (entry[name] !== undefined && (ofDeck0 === undefined || entry.outcome === "complete")) {
        throw new MalformedError(name, "must be revealed like the seed of deck 0, and not of a complete hand");
      }
    }
    const seen = new Set();
    let earlier = 0;
    for (const [i, [time, k, places]] of (entry.opened ?? []).entries()) {
      if (time < earlier || time > entry.time) {
        throw new MalformedError(`opened[${i}][0]`, "must not be before the opening before it or after the close");
      }
      if (!ascending(places)) throw new MalformedError(`opened[${i}][2]`, "must ascend strictly");
      if (places.some((p) => seen.has(ordinal([k, p])))) {
        throw new MalformedError(`opened[${i}][2]`, "must not name a place that was open already");
      }
      for (const p of places) seen.add(ordinal([k, p]));
      earlier = time;
    }
  },
  key(entry) {
    if (entry.old === entry.new) throw new MalformedError("new", "must differ from old");
  },
  audit(entry) {
    if (entry.first > entry.last) throw new MalformedError("last", "must not be below first");
  },
};

/** Return one number for the location [k, p], by which locations are told apart and sorted. */
const ordinal = ([k, p]) => k * 1024 + p;

const ascending = (values) => values.every((value, i) => i === 0 || values[i - 1] < value);

function checkLastSeq(first, count) {
  if (first > MAX_SEQ - count + 1) throw new MalformedError("first", "must leave every hand a number up to 2**53-1");
}

/** Return the RFC 8785 text of what `loadJson` gave, for values that entries may have. */
function canonical(value) {
  if (value instanceof Map) {
    const names = [...value.keys()].sort();
    return `{${names.map((name) => `${JSON.stringify(name)}:${canonical(value.get(name))}`).join(",")}}`;
  }
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  return JSON.stringify(value);
}

/**
 * Return the entry whose canonical text is `raw`; MalformedError names the first member that is wrong.
 * @param {string} raw
 * @returns {{ type: string, time: number, [member: string]: any }}
 */
export function parseEntry(raw) {
  const parsed = loadJson(raw, "");
  if (!(parsed instanceof Map)) throw new MalformedError("entry", "must be an object");
  const members = new Map(parsed);
  const type = members.get("type");
  if (members.get("v") !== "rs1") throw new MalformedError("v", 'must be "rs1"');
  if (typeof type !== "string" || !Object.hasOwn(ENTRY_MEMBERS, type)) {
    throw new MalformedError("type", `must be one of ${Object.keys(ENTRY_MEMBERS).join(", ")}`);
  }
  members.delete("v");
  members.delete("type");
  const entry = { type, ...record({ time: TIME, ...ENTRY_MEMBERS[type] })(members, "") };
  ENTRY_CHECKS[type]?.(entry);
  if (canonical(parsed) !== raw) {
    throw new MalformedError("entry", "must be canonical: members sorted, no spaces, no escapes");
  }
  return entry;
}

// --- Signed notes, checkpoints, proofs (C2SP) ---

const LOG = "01"; // the type of a log's signature, and of its key
const COSIGNER = "04"; // that of a witness's

/**
 * Read a verifier key text; MalformedError if it is no Ed25519 one of this type.
 * @param {string} vkey
 * @param {string} [type] "01" for a log's key, "04" for a witness's
 * @returns {Promise<NoteKey>}
 */
export async function parseVkey(vkey, type = LOG) {
  const [, name, keyId, encoded] = /^([^+]*)\+([^+]*)\+(.*)$/s.exec(vkey) ?? [];
  if (name === undefined) throw new MalformedError("vkey", "must be name+id+key");
  const typed = fromBase64(encoded, "vkey");
  if (typed.length !== 66 || !typed.startsWith(type)) {
    throw new MalformedError("vkey", `must hold an Ed25519 key (type ${type})`);
  }
  const key = await noteKey(keyName(name, "name"), typed.slice(2), type);
  if (key.keyId !== keyId) throw new MalformedError("vkey", "must carry the id of its own key");
  return key;
}

/**
 * Return the SHA-256 of a verifier key text, by which people compare keys.
 * @param {string} vkey
 * @returns {Promise<Hex>}
 */
export const fingerprint = (vkey) => sha256(utf8(vkey));

async function noteKey(name, publicKey, type = LOG) {
  return { name, publicKey, keyId: (await sha256(utf8(name) + "0a" + type + publicKey)).slice(0, 8) };
}

/**
 * Read a signed note strictly; nothing is verified yet.
 * @param {string} note
 * @returns {Note}
 */
export function parseNote(note) {
  if (note.length > MAX_NOTE_CHARACTERS) {
    throw new MalformedError("note", `must be at most ${MAX_NOTE_CHARACTERS} characters`);
  }
  if ([...note].some((each) => each < " " && each !== "\n")) {
    throw new MalformedError("note", "must have no control character but line breaks");
  }
  const blank = note.lastIndexOf("\n\n");
  if (blank < 0 || blank + 2 === note.length || !note.endsWith("\n")) {
    throw new MalformedError("note", "must be a text, an empty line and signature lines");
  }
  const lines = note.slice(blank + 2, -1).split("\n");
  if (lines.length > MAX_SIGNATURES) {
    throw new MalformedError("note", `must have at most ${MAX_SIGNATURES} signatures`);
  }
  return { text: note.slice(0, blank + 1), signatures: lines.map(parseSignature) };
}

function parseSignature(line) {
  const parts = line.split(" ");
  if (parts.length !== 3 || parts[0] !== "—") {
    throw new MalformedError("note", "must have signature lines of dash, key name and base64");
  }
  if (!parts[1] || /[+\s]/.test(parts[1])) {
    throw new MalformedError("note", "must name each signature's key without spaces and plus");
  }
  const value = fromBase64(parts[2], "note");
  if (value.length <= 8) throw new MalformedError("note", "must have a key id and a signature in each signature line");
  return { name: parts[1], keyId: value.slice(0, 8), signature: value.slice(8) };
}

/** Throw ProofError unless `key` has signed the parsed `note`. */
async function checkSignature(note, key) {
  const mine = note.signatures.filter((each) => each.name === key.name && each.keyId === key.keyId);
  for (const { signature } of mine) {
    await verifyEd25519(key.publicKey, signature, utf8(note.text), `the signature of ${key.name} (${key.keyId})`);
  }
  if (!mine.length) throw new ProofError("no known key has signed the note");
}

/** Whether `key` cosigned the parsed `note` (C2SP tlog-cosignature); ProofError if it did wrongly. */
async function isCosignedBy(note, key) {
  const mine = note.signatures.filter((each) => each.name === key.name && each.keyId === key.keyId);
  for (const { signature } of mine) {
    const time = BigInt(`0x${signature.slice(0, 16)}`);
    if (signature.length !== 144 || time === 0n || time >= 2n ** 63n) {
      throw new ProofError(`the cosignature of ${key.name} is not a time and an Ed25519 signature`);
    }
    const message = utf8(`cosignature/v1\ntime ${time}\n${note.text}`);
    await verifyEd25519(key.publicKey, signature.slice(16), message, `the cosignature of ${key.name}`);
  }
  return mine.length > 0;
}

/**
 * Read the three lines of a checkpoint.
 * @param {string} lines the text of its note
 * @returns {Checkpoint}
 */
export function parseCheckpoint(lines) {
  const [origin, size, root, end, ...more] = lines.split("\n");
  if (end !== "" || more.length) throw new MalformedError("checkpoint", "must be three lines: origin, size and root");
  const checkpoint = {
    origin: keyName(origin, "checkpoint.origin"),
    size: decimal(size, "checkpoint.size"),
    root: fromBase64(root, "checkpoint.root"),
  };
  if (checkpoint.root.length !== 64) throw new MalformedError("checkpoint.root", "must be 32 bytes");
  return checkpoint;
}

/**
 * Read a tlog-proof text; the signed note in it, `checkpoint`, is neither parsed nor verified.
 * @param {string} proof
 * @returns {{ index: number, hashes: Hex[], checkpoint: string }}
 */
export function parseTlogProof(proof) {
  const blank = proof.indexOf("\n\n");
  if (blank < 0) throw new MalformedError("proof", "must have an empty line before its checkpoint");
  const [header, second, ...lines] = proof.slice(0, blank).split("\n");
  if (header !== "c2sp.org/tlog-proof@v1") {
    throw new MalformedError("proof", 'must begin with "c2sp.org/tlog-proof@v1"');
  }
  if (!second?.startsWith("index ")) throw new MalformedError("proof", 'must have its "index" on the second line');
  const index = decimal(second.slice("index ".length), "proof.index");
  if (lines.length > MAX_PROOF_HASHES) throw new MalformedError("proof.hashes", `must be at most ${MAX_PROOF_HASHES}`);
  const hashes = lines.map((line, i) => fromBase64(line, `proof.hashes[${i}]`));
  for (const [i, each] of hashes.entries()) {
    if (each.length !== 64) throw new MalformedError(`proof.hashes[${i}]`, "must be 32 bytes");
  }
  return { index, hashes, checkpoint: proof.slice(blank + 2) };
}

// --- Which cosignatures make a checkpoint good (C2SP tlog-policy) ---

/**
 * @typedef {object} Policy
 * @property {Map<string, NoteKey>} witnesses by name
 * @property {Map<string, { needs: number, named: string[] }>} groups by name
 * @property {string | null} quorum name of a witness or a group, or "none"
 * @property {Set<Hex>} logs
 * @property {Set<string>} members names that stand in a group
 */

/**
 * Read a policy file; MalformedError names the line that is wrong.
 * @param {string} file
 * @returns {Promise<Policy>}
 */
export async function parsePolicy(file) {
  const bytes = toBytes(utf8(file));
  if (bytes.some((byte) => (byte < 0x20 && byte !== 0x09 && byte !== 0x0a) || byte === 0x7f)) {
    throw new MalformedError("policy", "must have no control characters but tab and line break");
  }
  const policy = { logs: new Set(), witnesses: new Map(), groups: new Map(), quorum: null, members: new Set() };
  for (const [i, line] of Array.from(bytes, (byte) => String.fromCharCode(byte))
    .join("")
    .split("\n")
    .entries()) {
    const items = line.split(/[ \t]+/).filter(Boolean);
    if (items.length && !items[0].startsWith("#")) await readPolicyLine(policy, `policy line ${i + 1}`, items);
  }
  if (policy.quorum === null) throw new MalformedError("policy", "must have a quorum line");
  return policy;
}

async function readPolicyLine(policy, where, [word, ...items]) {
  const { logs, witnesses, groups, members } = policy;
  const isDefined = (name) => witnesses.has(name) || groups.has(name);
  const checkNew = (name) => {
    if (name === "none" || isDefined(name)) throw new MalformedError(where, `must not define ${name} again`);
  };
  if (word === "log" && items.length >= 1 && items.length <= 2) {
    const { publicKey } = await parseVkey(items[0]);
    if (logs.has(publicKey)) throw new MalformedError(where, "must not repeat a log's key");
    logs.add(publicKey);
  } else if (word === "witness" && items.length >= 2 && items.length <= 3) {
    const key = await parseVkey(items[1], COSIGNER);
    if ([...witnesses.values()].some(({ publicKey }) => publicKey === key.publicKey)) {
      throw new MalformedError(where, "must not repeat a witness's key");
    }
    checkNew(items[0]);
    witnesses.set(items[0], key);
  } else if (word === "group" && items.length >= 3) {
    const [name, threshold, ...named] = items;
    checkNew(name);
    for (const each of named) {
      if (!isDefined(each)) throw new MalformedError(where, `names ${each}, which is not defined before`);
      if (members.has(each)) throw new MalformedError(where, `names ${each}, which is a member already`);
      members.add(each);
    }
    const words = new Map([
      ["all", named.length],
      ["any", 1],
    ]);
    const needs = words.get(threshold) ?? (/^[1-9][0-9]*$/.test(threshold) ? Number(threshold) : 0);
    if (needs < 1 || needs > named.length) {
      throw new MalformedError(where, `must have all, any or a number from 1 to ${named.length}`);
    }
    groups.set(name, { needs, named });
  } else if (word === "quorum" && items.length === 1) {
    if (policy.quorum !== null) throw new MalformedError(where, "must be the only quorum line");
    if (items[0] !== "none" && !isDefined(items[0])) {
      throw new MalformedError(where, `names ${items[0]}, which is not defined before`);
    }
    [policy.quorum] = items;
  } else {
    throw new MalformedError(where, "must be a log, witness, group or quorum line with its parts");
  }
}

/** Return the names of the witnesses that have cosigned the parsed `note`; ProofError if they make no quorum. */
async function quorumOf({ witnesses, groups, quorum }, note) {
  const cosigners = new Set();
  for (const [name, key] of witnesses) if (await isCosignedBy(note, key)) cosigners.add(name);
  const witnessed = (name) => {
    const group = groups.get(name);
    return group ? group.named.filter(witnessed).length >= group.needs : cosigners.has(name);
  };
  if (quorum !== "none" && !witnessed(quorum)) {
    const by = [...cosigners].sort().join(", ") || "nobody known";
    throw new ProofError(`the checkpoint is cosigned by ${by}, which is not the quorum ${quorum}`);
  }
  return cosigners;
}

// --- Receipts and histories (receipt.md) ---

const RECEIPT = record({
  origin: keyName,
  table: TABLE,
  seq: SEQ,
  entries: array(record({ entry: text(1, MAX_ENTRY_BYTES), proof: text(1, MAX_NOTE_CHARACTERS, "\n—") }), 1, 256),
  own: optional(record({ id: CONTRIBUTOR, seed: CONTRIBUTION, choice: optional(CONTRIBUTION) })),
  contributions: optional(array(HASH, 0, MAX_CONTRIBUTORS)),
  shuffles: optional(
    array(record({ k: K, n: integer(1, MAX_ITEMS), leaves: array(HASH, 1, MAX_ITEMS) }), 0, MAX_SHUFFLES),
  ),
  openings: optional(
    array(record({ k: K, p: PLACE, item: integer(0, MAX_ITEMS - 1), salt: octets(16) }), 0, MAX_SHUFFLES * MAX_ITEMS),
  ),
});
const CARD_MOVES = array(
  record({ how: word("dealt", "burnt", "shown"), k: K, p: PLACE, item: optional(integer(0, MAX_ITEMS - 1)) }),
  0,
  MAX_ITEMS,
);

/**
 * Read a receipt, or a dealer's history that holds one; `events` is null for a receipt alone.
 * @param {string | Uint8Array} document
 * @returns {{ receipt: any, events: any[] | null }}
 */
export function parseDocument(document) {
  const json = typeof document === "string" ? document : decoded(document);
  if (json.length > MAX_DOCUMENT_CHARACTERS && [...json].length > MAX_DOCUMENT_CHARACTERS) {
    throw new MalformedError("document", `must be at most ${MAX_DOCUMENT_CHARACTERS} characters`);
  }
  const members = loadJson(json, "document");
  if (!(members instanceof Map) || members.has("format")) return { receipt: readReceipt(members, ""), events: null };
  const receipt = readReceipt(members.get("receipt"), "receipt");
  const events = members.get("events");
  if (!Array.isArray(events)) throw new MalformedError("events", "must be an array");
  return { receipt, events: events.map((event, i) => readEvent(event, `events[${i}]`)) };
}

function decoded(bytes) {
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new MalformedError("document", "must be UTF-8");
  }
}

function readReceipt(value, field) {
  if (!(value instanceof Map)) throw new MalformedError(field || "document", "must be an object");
  const rest = new Map(value);
  rest.delete("format");
  if (value.get("format") !== "rs1-receipt/1") {
    throw new MalformedError(field ? `${field}.format` : "format", 'must be "rs1-receipt/1"');
  }
  return RECEIPT(rest, field);
}

function readEvent(event, field) {
  if (!(event instanceof Map)) throw new MalformedError(field, "must be an object");
  return {
    shuffle: event.has("shuffle") ? K(event.get("shuffle"), `${field}.shuffle`) : null,
    cards: event.has("cards") ? CARD_MOVES(event.get("cards"), `${field}.cards`) : [],
  };
}

// --- A hand as the entries of a receipt tell it ---

/** The entries of a receipt, in the log's order and each by what it is. */
class Hand {
  constructor(receipt, logged) {
    this.receipt = receipt;
    this.logged = logged;
    const all = (type) => logged.filter((each) => each.entry.type === type).map((each) => each.entry);
    const only = (type) => all(type)[0];
    this.table = only("table");
    this.reserve = only("reserve");
    this.promise = only("promise");
    this.choose = only("choose");
    this.draw = only("draw");
    this.close = only("close");
    this.twin = this.table.twin !== undefined;
    /** The deck that is played; 0 at an ordinary table and until the choice. */
    this.deck = this.choose?.deck ?? 0;
    /** The seal of k = 0 as it stands in the log, at a twin table of both decks. */
    this.sealed = only("seal");
    /** Every seal by k, that of k = 0 of the played deck alone. */
    this.seals = all("seal").map((each) => (each.k === 0 ? this.sealedDeck(this.deck) : each));
    this.keyChanges = logged.filter((each) => each.entry.type === "key");
    const { commitments, twin_commitments: twins, first } = this.reserve;
    /** C, at a twin table C and C'. */
    this.commitments = [commitments, twins].filter(Boolean).map((each) => each[receipt.seq - first]);
    /** [id, P], at a twin table [id, P, Q], of each contributor, in order. */
    this.promised = this.promise ? this.promise.promises[receipt.seq - this.promise.first] : [];
    /** For each named location the first reshuffle that took it. */
    this.named = new Map();
    for (const each of this.seals.toReversed()) {
      for (const location of each.inputs ?? []) this.named.set(ordinal(location), each.k);
    }
  }

  /** Return the seal of k = 0 as if it sealed this deck alone. */
  sealedDeck(deck) {
    const { twin_hc: hc, twin_root: root, twin_used: used, ...sealed } = needed(this.sealed, NOT_SEALED);
    return deck === 0 ? sealed : { ...sealed, hc, root, used };
  }

  /** What fixed the contributions: the seal of k = 0 or the draw. */
  get first() {
    return this.seals[0] ?? needed(this.draw, "the hand was neither sealed nor drawn");
  }

  get absent() {
    return this.first.absent;
  }

  /** What `pre` must be: the leaf hash of the promise entry, without one of the reserve entry. */
  get pre() {
    const type = this.promise ? "promise" : "reserve";
    return this.logged.find((each) => each.entry.type === type).leaf;
  }
}

function needed(value, whyNot) {
  if (value === undefined || value === null) throw new NotShownError(whyNot);
  return value;
}

/** Return the hand; ProofError unless the entries are those of this one hand in the log's order. */
async function readHand(receipt) {
  const logged = [];
  const placed = [];
  for (const [i, offered] of receipt.entries.entries()) {
    let each;
    try {
      const entry = parseEntry(offered.entry);
      each = { entry, leaf: await leafHash(utf8(offered.entry)), proof: parseTlogProof(offered.proof) };
    } catch (error) {
      if (error instanceof MalformedError) throw new ProofError(`entries[${i}] is malformed: ${error.message}`);
      throw error;
    }
    const { entry } = each;
    const name = `entries[${i}] (${entry.type})`;
    const before = logged.at(-1);
    each.index = each.proof.index;
    if (before && each.index <= before.index) {
      throw new ProofError(`${name} does not stand behind the one before it in the log`);
    }
    if (before && entry.time < before.entry.time) {
      throw new ProofError(`${name} is older than the one before it in the log`);
    }
    if (Object.hasOwn(FITS, entry.type)) {
      if (entry.table !== receipt.table) throw new ProofError(`${name} is of another table`);
      const isTwin = logged.some((earlier) => earlier.entry.twin !== undefined);
      if (!FITS[entry.type](entry, placed, receipt.seq, isTwin)) {
        throw new ProofError(`${name} does not belong here in hand ${receipt.seq}`);
      }
      placed.push(entry.type);
    } else if (entry.type !== "key") {
      throw new ProofError(`${name} does not belong to a hand`);
    }
    logged.push(each);
  }
  if (placed.length < 2) throw new ProofError("the table entry and the reserve entry must be there");
  const hand = new Hand(receipt, logged);
  checkTwinMembers(hand);
  return hand;
}

/** Throw ProofError unless the entries have the members of a twin table, or none of them at an ordinary one. */
function checkTwinMembers({ reserve, promise: promises, sealed, choose, close, twin }) {
  const width = promises?.promises.flat()[0]?.length;
  for (const [entry, has, must] of [
    [reserve, reserve.twin_commitments !== undefined, twin],
    [width && promises, width === 3, twin],
    [sealed, sealed?.twin_hc !== undefined, twin],
    [close, (close?.twin_seed ?? close?.twin_escrow) !== undefined, twin && !choose && close?.outcome !== "lost"],
  ]) {
    if (entry && has !== must) {
      throw new ProofError(`the ${entry.type} entry ${must ? "lacks the" : "has"} members of twin mode`);
    }
  }
}

const covers = (first, listed, seq) => first <= seq && seq - first < listed.length;
const isAfter =
  (...types) =>
  (placed) =>
    placed.join() === types.join();
const isReserved = isAfter("table", "reserve");
const isPromised = isAfter("table", "reserve", "promise");

/** Whether an entry can follow those `placed` so far (their types) in the life of hand `seq`, of a twin table or not. */
const FITS = {
  table: (_, placed) => placed.length === 0,
  reserve: (entry, placed, seq) => isAfter("table")(placed) && covers(entry.first, entry.commitments, seq),
  promise: (entry, placed, seq) => isReserved(placed) && covers(entry.first, entry.promises, seq),
  seal: (entry, placed, seq, isTwin) =>
    placed.length >= 2 &&
    !placed.includes("draw") &&
    !placed.includes("close") &&
    (entry.k === 0 || !isTwin || placed.includes("choose")) &&
    entry.seq === seq &&
    entry.k === placed.filter((type) => type === "seal").length,
  choose: (entry, placed, seq, isTwin) =>
    isTwin && placed.at(-1) === "seal" && !placed.includes("choose") && entry.seq === seq,
  draw: (entry, placed, seq, isTwin) => !isTwin && (isReserved(placed) || isPromised(placed)) && entry.seq === seq,
  close: (entry, placed, seq, isTwin) =>
    placed.length >= 2 &&
    !placed.includes("close") &&
    (entry.outcome !== "complete" || !isTwin || placed.includes("choose")) &&
    entry.seq === seq,
};

// --- The checks; each returns what it found, or throws why not ---

const NOT_CLOSED = "the hand was not closed when this receipt was made";
const NOT_SEALED = "the hand was not sealed when this receipt was made";
const NOT_CHOSEN = "nobody had decided between the two decks when this receipt was made";
const NO_CHOICE = "the hand ended without a choice between its two decks";
const AUDITORS = "the seed is not public: this step is the auditor's";
const NO_KEY = "no key of the log was given";

const count = (number, one, many = `${one}s`) => `${number} ${number === 1 ? one : many}`;
const placeOf = (k, p) => `place ${p} of shuffle ${k}`;
const promiseOf = ({ hand, origin }, id, seed) => promise(origin, hand.receipt.table, hand.receipt.seq, id, seed);
const choicePromiseOf = ({ hand, origin }, id, choice) =>
  promiseChoice(origin, hand.receipt.table, hand.receipt.seq, id, choice);

async function checkKeys({ hand, origin, logKey }) {
  let current = needed(logKey, NO_KEY).publicKey;
  for (const { index, entry } of hand.keyChanges) {
    if (entry.old !== current) throw new ProofError(`the key entry ${index} does not follow the key before it`);
    const message = "16" + utf8("rs1/key") + (await sha256(utf8(origin))) + entry.old + entry.new;
    await verifyEd25519(entry.old, entry.sigs[0], message, "the old key's signature in the key entry");
    await verifyEd25519(entry.new, entry.sigs[1], message, "the new key's signature in the key entry");
    current = entry.new;
  }
  return count(hand.keyChanges.length, "change of key", "changes of key");
}

async function checkCheckpoints({ hand, origin, logKey }) {
  needed(logKey, NO_KEY);
  if (hand.receipt.origin !== origin) {
    throw new ProofError(`the receipt is of the log ${hand.receipt.origin}, the key of ${origin}`);
  }
  const roots = new Map();
  for (const logged of hand.logged) {
    const note = parseNote(logged.proof.checkpoint);
    const checkpoint = parseCheckpoint(note.text);
    if (checkpoint.origin !== origin) {
      throw new ProofError(`the checkpoint under entry ${logged.index} is of the log ${checkpoint.origin}`);
    }
    const change = hand.keyChanges.findLast(({ index }) => index < checkpoint.size);
    await checkSignature(note, change ? await noteKey(origin, change.entry.new) : logKey);
    if (!roots.has(checkpoint.size)) roots.set(checkpoint.size, checkpoint.root);
    if (roots.get(checkpoint.size) !== checkpoint.root) {
      throw new ProofError(`two checkpoints of ${checkpoint.size} entries have different roots: the log is forked`);
    }
  }
  const newest = Math.max(...roots.keys());
  return `${count(roots.size, "checkpoint")}, the newest of ${count(newest, "entry", "entries")}`;
}

async function checkWitnesses({ hand, policy }) {
  const cosigners = new Set();
  for (const { index, proof } of hand.logged) {
    try {
      for (const name of await quorumOf(policy, parseNote(proof.checkpoint))) cosigners.add(name);
    } catch (error) {
      if (error instanceof ProofError) throw new ProofError(`the checkpoint under entry ${index}: ${error.message}`);
      throw error;
    }
  }
  return `cosigned by ${[...cosigners].sort().join(", ") || "nobody, as the policy allows"}`;
}

async function checkInclusion({ hand }) {
  for (const { entry, index, leaf, proof } of hand.logged) {
    const checkpoint = parseCheckpoint(parseNote(proof.checkpoint).text);
    try {
      await verifyInclusion(leaf, index, checkpoint.size, proof.hashes, checkpoint.root);
    } catch (error) {
      if (error instanceof ProofError) throw new ProofError(`the ${entry.type} entry ${index}: ${error.message}`);
      throw error;
    }
  }
  return count(hand.logged.length, "entry", "entries");
}

function checkChain({ hand }) {
  const chain = hand.logged.filter(({ entry }) => Object.hasOwn(FITS, entry.type));
  const leaves = new Set(chain.map(({ leaf }) => leaf));
  const gaps = [];
  for (const [i, { index, entry }] of chain.entries()) {
    if (i === 0 || entry.prev === chain[i - 1].leaf) continue;
    if (entry.prev === ZERO_HASH || leaves.has(entry.prev) || index === chain[i - 1].index + 1) {
      throw new ProofError(`entry ${index} does not follow the table's entry before it: the table is forked`);
    }
    gaps.push(`${chain[i - 1].index} and ${index}`);
  }
  if (gaps.length) {
    const between = gaps.join(", ");
    throw new NotShownError(`other entries of the table stand between ${between}; the rest follow each other`);
  }
  return `all ${chain.length} follow each other`;
}

function checkPromises({ hand }) {
  const tiedTo = hand.promise ? "promise" : "reserve";
  if (hand.first.pre !== hand.pre) throw new ProofError(`pre is not the leaf hash of the ${tiedTo} entry`);
  return `tied to the ${tiedTo} entry, with ${count(hand.promised.length, "promise")}`;
}

async function checkContributions({ hand }) {
  const { absent, promised } = hand;
  if (absent.some((i) => i >= promised.length)) {
    throw new ProofError("somebody who promised nothing is listed as absent");
  }
  const given = needed(hand.receipt.contributions, "the receipt does not list the contributions");
  if (given.length !== promised.length) {
    throw new ProofError(`${count(given.length, "contribution")} for ${count(promised.length, "promise")}`);
  }
  for (const [i, [id]] of promised.entries()) {
    if ((given[i] === (await contributionLeaf(i, id))) !== absent.includes(i)) {
      throw new ProofError(`contribution ${i} and the list of absent ones do not fit`);
    }
  }
  if ((await rootOf(given)) !== hand.first.cr) throw new ProofError("the contributions do not have the logged root");
  return `${count(given.length, "contribution")}, ${absent.length} absent`;
}

async function checkOwn(evidence) {
  const { hand } = evidence;
  const own = needed(hand.receipt.own, "the receipt holds no seed of its holder");
  const i = hand.promised.findIndex(([id]) => id === own.id);
  if (i < 0) throw new ProofError("the own id is not among those who promised");
  if ((await promiseOf(evidence, own.id, own.seed)) !== hand.promised[i][1]) {
    throw new ProofError("the own seed is not the promised one");
  }
  if (own.choice !== undefined && !hand.twin) {
    throw new ProofError("there is an own choice, but the table has no twin mode");
  }
  if (hand.absent.includes(i)) throw new ProofError("the own contribution is listed as absent");
  const { contributions } = hand.receipt;
  const given = needed(contributions, "as promised; but the receipt does not list the contributions");
  if (given[i] !== (await contributionLeaf(i, own.id, own.seed))) {
    throw new ProofError("the own seed did not go into the hand");
  }
  return `the own seed is contribution ${i}, as promised`;
}

async function checkContext({ hand, origin }) {
  const { table, seq } = hand.receipt;
  const { cr, pre } = hand.first;
  for (const [deck, commitment] of hand.commitments.entries()) {
    const { hc } = hand.draw ?? hand.sealedDeck(deck);
    if (hc !== (await handContext(origin, table, seq, commitment, cr, pre))) {
      throw new ProofError("the hand's context does not follow from commitment, contributions and pre");
    }
  }
  for (const [i, sealed] of hand.seals.entries()) {
    if (i === 0) continue;
    const before = hand.seals[i - 1];
    if (sealed.hc !== (await reshuffleContext(before.hc, before.root, sealed.k, sealed.inputs))) {
      throw new ProofError(`the context of reshuffle ${sealed.k} does not follow from the shuffle before it`);
    }
  }
  return count(hand.commitments.length + Math.max(0, hand.seals.length - 1), "context");
}

async function checkSeals({ hand }) {
  const { seals } = hand;
  const given = needed(hand.receipt.shuffles, "the receipt holds no leaves");
  if (hand.twin && !hand.choose && given.length) {
    throw new ProofError("the receipt holds leaves, but no choice between the two decks");
  }
  if (!ascending(given.map(({ k }) => k))) throw new ProofError("the receipt's shuffles do not ascend by k");
  for (const { k, n, leaves } of given) {
    if (k >= seals.length) throw new ProofError(`there is no seal entry of shuffle ${k}`);
    if (n !== seals[k].n || n !== leaves.length) {
      throw new ProofError(`shuffle ${k} was sealed with ${count(seals[k].n, "item")}`);
    }
    if ((await cardsRoot(k, leaves)) !== seals[k].root) {
      throw new ProofError(`the leaves of shuffle ${k} do not have the logged root`);
    }
  }
  const missing = seals.map(({ k }) => k).filter((k) => !given.some((each) => each.k === k));
  if (missing.length) {
    throw new NotShownError(`the receipt does not hold the leaves of shuffle ${missing.join(", ")}`);
  }
  return count(given.length, "shuffle");
}

function checkReshuffles({ hand }) {
  const { seals } = hand;
  if (!seals.length) throw new NotShownError(NOT_SEALED);
  const named = new Set();
  for (const sealed of seals.slice(1)) {
    for (const [j, p] of sealed.inputs) {
      if (p >= seals[j].n) {
        throw new ProofError(`reshuffle ${sealed.k} names place ${p} of shuffle ${j}, which has ${seals[j].n}`);
      }
      if (named.has(ordinal([j, p]))) {
        throw new ProofError(`reshuffle ${sealed.k} names (${j}, ${p}), which an earlier one took`);
      }
      named.add(ordinal([j, p]));
    }
  }
  return `${count(seals.length - 1, "reshuffle")} of ${count(named.size, "location")}`;
}

async function checkOpenings({ hand }) {
  const openings = needed(hand.receipt.openings, "the receipt opens no card");
  const leafAt = new Map();
  for (const { k, leaves } of hand.receipt.shuffles ?? []) {
    for (const [p, leaf] of leaves.entries()) leafAt.set(ordinal([k, p]), leaf);
  }
  for (const { k, p, item, salt } of openings) {
    const leaf = leafAt.get(ordinal([k, p]));
    // Each leaf serves once, so that no opening stands twice.
    if (!leafAt.delete(ordinal([k, p]))) {
      throw new ProofError(`${placeOf(k, p)} has no leaf in the receipt, or is opened twice`);
    }
    if ((await cardLeaf(k, p, item, salt)) !== leaf) {
      throw new ProofError(`the opening of ${placeOf(k, p)} does not give the sealed leaf`);
    }
  }
  return count(openings.length, "card");
}

function checkItems({ hand }) {
  const openings = needed(hand.receipt.openings, "the receipt opens no card");
  if (!hand.seals.length) throw new NotShownError(NOT_SEALED);
  const opened = new Map(openings.map((each) => [ordinal([each.k, each.p]), each]));
  const seen = new Map();
  for (const key of [...opened.keys()].sort((a, b) => a - b)) {
    const { k, p, item } = opened.get(key);
    if (item >= hand.seals[0].n) {
      throw new ProofError(`${placeOf(k, p)} holds item ${item}, but the hand has ${hand.seals[0].n}`);
    }
    // Seen before, an item can only come again out of a reshuffle that took it from there.
    const before = seen.get(item);
    if (before && (before.k === k || (hand.named.get(ordinal([before.k, before.p])) ?? k + 1) > k)) {
      throw new ProofError(`item ${item} lies at ${placeOf(before.k, before.p)} and at ${placeOf(k, p)}`);
    }
    seen.set(item, { k, p });
  }
  for (const sealed of hand.seals.slice(1)) {
    const wentIn = sealed.inputs.map((location) => opened.get(ordinal(location))?.item);
    const cameOut = Array.from({ length: sealed.n }, (_, p) => opened.get(ordinal([sealed.k, p]))?.item);
    for (const [some, every] of [
      [cameOut, wentIn],
      [wentIn, cameOut],
    ]) {
      if (!every.includes(undefined) && !some.every((item) => item === undefined || every.includes(item))) {
        throw new ProofError(`reshuffle ${sealed.k} does not hold the items that went into it`);
      }
    }
  }
  return `${count(seen.size, "item")}, each at one place`;
}

/**
 * Return [deck, seed] of each deck that the close reveals: the played one, or both of a hand that ended without a
 * choice. The seed is shown there or opened with the auditor's key, undefined without either.
 */
async function revealedSeeds({ hand, origin, auditor }) {
  const close = needed(hand.close, NOT_CLOSED);
  const { table, seq } = hand.receipt;
  const opened = (seed, escrow, deck) =>
    seed ?? (escrow && auditor && openSeed(escrow, auditor, origin, table, seq, hand.commitments[deck]));
  const decks = [[hand.deck, await opened(close.seed, close.escrow, hand.deck)]];
  if (hand.twin && !hand.choose) decks.push([1, await opened(close.twin_seed, close.twin_escrow, 1)]);
  return decks;
}

async function checkReveal(evidence) {
  const { hand } = evidence;
  const close = needed(hand.close, NOT_CLOSED);
  if (close.outcome === "lost") throw new NotShownError("the hand is lost: its seed cannot be shown");
  const reveal = close.seed === undefined ? "escrow" : "public";
  if (reveal !== hand.table.reveal) {
    throw new ProofError(`the close reveals by ${reveal}, the table was registered with ${hand.table.reveal}`);
  }
  const seeds = await revealedSeeds(evidence);
  for (const [deck, seed] of seeds) {
    if (seed === undefined) return "escrowed to the table's auditor";
    if ((await commit(hand.receipt.table, hand.receipt.seq, seed)) !== hand.commitments[deck]) {
      throw new ProofError("the revealed seed is not the committed one");
    }
  }
  return `the committed ${seeds.length === 1 ? "seed" : "seeds of both decks"}`;
}

async function checkDerivation(evidence) {
  const { hand } = evidence;
  const { first } = hand;
  const seeds = await revealedSeeds(evidence);
  if (hand.twin && !hand.choose) {
    for (const [deck, seed] of seeds) await derive(needed(seed, AUDITORS), hand.sealedDeck(deck));
    return "both decks derived again";
  }
  const seed = needed(seeds[0][1], AUDITORS);
  if (first === hand.draw) {
    const { hc, purpose, m, values } = hand.draw;
    if ((await drawNumbers(seed, hc, purpose, m, values.length)).join() !== values.join()) {
      throw new ProofError("the numbers do not follow from the seed");
    }
    return count(values.length, "number");
  }
  checkReshuffles(evidence);
  const orders = [];
  for (const sealed of hand.seals) {
    const items = sealed.inputs?.map(([j, p]) => orders[j][p]);
    orders.push(await derive(seed, sealed, items));
  }
  return `${count(orders.length, "shuffle")} derived again`;
}

/** Return the order that follows from `seed`; ProofError unless it is the sealed one. Without `items`, of 0 .. n-1. */
async function derive(seed, { k, n, hc, root, used }, items = Array.from({ length: n }, (_, item) => item)) {
  const derived = await permute(seed, hc, k, items);
  const leaves = await seal(k, derived.order, await salts(seed, hc, k, n));
  if ((await cardsRoot(k, leaves)) !== root) throw new ProofError(`shuffle ${k} does not follow from the seed`);
  if (derived.used !== used) throw new ProofError(`shuffle ${k} used ${count(derived.used, "byte")}, not ${used}`);
  return derived.order;
}

async function checkSeeds(evidence) {
  const { hand } = evidence;
  const { seeds, outcome } = needed(hand.close, NOT_CLOSED);
  if (!hand.seals.length && !hand.draw) {
    if (seeds) throw new ProofError("the close shows seeds of a hand that was neither sealed nor drawn");
    return "no seeds: the hand was neither sealed nor drawn";
  }
  if (!seeds && outcome === "lost") throw new NotShownError("the contributed seeds were lost with the hand");
  if (seeds?.length !== hand.promised.length) {
    throw new ProofError(`the close must show ${count(hand.promised.length, "contributed seed")}`);
  }
  const leaves = [];
  for (const [i, [id, promised]] of hand.promised.entries()) {
    const seed = seeds[i];
    if (Boolean(seed) === hand.absent.includes(i)) {
      throw new ProofError(`seed ${i} and the list of absent ones do not fit`);
    }
    if (seed && (await promiseOf(evidence, id, seed)) !== promised) {
      throw new ProofError(`seed ${i} is not the promised one`);
    }
    leaves.push(await contributionLeaf(i, id, seed));
  }
  if ((await rootOf(leaves)) !== hand.first.cr) {
    throw new ProofError("the seeds do not give the logged root of contributions");
  }
  return `${count(leaves.length - hand.absent.length, "seed")}, each as promised`;
}

function checkClose({ hand }) {
  const close = needed(hand.close, NOT_CLOSED);
  if ((close.opened !== undefined) !== (hand.table.mode === "shoe")) {
    throw new ProofError("the close lists openings in mode shoe, and only there");
  }
  const listed = new Set();
  for (const [time, k, places] of close.opened ?? []) {
    if (k >= hand.seals.length || places.at(-1) >= hand.seals[k].n) {
      throw new ProofError(`the close lists places of shuffle ${k} that there are not`);
    }
    if (time < hand.seals[k].time) {
      throw new ProofError(`the close lists an opening of shuffle ${k} from before its seal`);
    }
    if (hand.twin && !(time >= hand.choose?.time)) {
      throw new ProofError(`the close lists an opening of shuffle ${k} from before the choice between the decks`);
    }
    for (const p of places) {
      const taken = hand.named.get(ordinal([k, p]));
      if (taken !== undefined && time > hand.seals[taken].time) {
        throw new ProofError(`${placeOf(k, p)} was opened after reshuffle ${taken} had taken it`);
      }
      listed.add(ordinal([k, p]));
    }
  }
  const openings = hand.table.mode === "shoe" ? (hand.receipt.openings ?? []) : [];
  for (const { k, p } of openings) {
    if (!listed.has(ordinal([k, p]))) throw new ProofError(`the close does not list the opening of ${placeOf(k, p)}`);
  }
  const reason = close.reason ? ` (${close.reason})` : "";
  return `${close.outcome}${reason}, ${count(listed.size, "opening")} listed`;
}

function checkDeadline({ hand, now }) {
  const newest = hand.logged.at(-1).entry.time;
  if (now !== undefined && newest > now + MAX_CLOCK_AHEAD_MS) {
    throw new ProofError(`the newest entry is ${newest - now} ms ahead of this clock`);
  }
  // Sealing needs every lower hand closed, so that from the seal on only its own time counts. Before it the close of
  // the hand before may count, which a receipt does not hold: then the expiry is not before this one.
  const started = hand.seals[0] ?? hand.draw;
  const expiry = (started ?? hand.reserve).time + 1000 * hand.table.ttl;
  if (hand.choose && hand.choose.time > expiry) {
    throw new ProofError("the choice between the decks was made after the hand had expired");
  }
  for (const sealed of hand.seals.slice(1)) {
    if (sealed.time > expiry) throw new ProofError(`reshuffle ${sealed.k} was sealed after the hand had expired`);
  }
  const close = needed(hand.close, NOT_CLOSED);
  if (close.reason === "expired") {
    if (close.time < expiry) throw new ProofError("the hand was closed as expired before its time was up");
    return "closed as expired";
  }
  if (started && close.outcome !== "lost" && close.time > expiry) {
    throw new ProofError("the hand had expired before it was closed");
  }
  return "closed in time";
}

function checkHistory({ hand, events }) {
  needed(events, "the document is a receipt alone");
  const itemAt = new Map((hand.receipt.openings ?? []).map(({ k, p, item }) => [ordinal([k, p]), item]));
  const nextPlace = []; // of each shuffle sealed so far
  const out = new Set();
  for (const [i, event] of events.entries()) {
    if (event.shuffle !== null) {
      if (event.shuffle !== nextPlace.length || event.shuffle >= hand.seals.length) {
        throw new ProofError(`events[${i}]: shuffle ${event.shuffle} was not sealed then`);
      }
      nextPlace.push(0);
    }
    for (const [at, { how, k, p, item }] of event.cards.entries()) {
      const name = `events[${i}].cards[${at}]`;
      const location = ordinal([k, p]);
      if (k >= nextPlace.length || p >= hand.seals[k].n) {
        throw new ProofError(`${name}: there is no ${placeOf(k, p)} yet`);
      }
      if (how !== "shown") {
        // Places that a reshuffle has taken so far are passed over.
        let expected = nextPlace[k];
        while (hand.named.get(ordinal([k, expected])) < nextPlace.length) expected += 1;
        if (p !== expected) {
          throw new ProofError(`${name}: the next card of shuffle ${k} is at place ${expected}, not ${p}`);
        }
        nextPlace[k] = p + 1;
        out.add(location);
      } else if (!out.has(location)) {
        throw new ProofError(`${name}: ${placeOf(k, p)} was neither dealt nor burnt`);
      }
      if (item !== undefined && itemAt.get(location) !== item) {
        throw new ProofError(`${name}: no opening shows item ${item} at ${placeOf(k, p)}`);
      }
    }
  }
  for (const [, k, places] of hand.close?.opened ?? []) {
    for (const p of places) {
      if (!out.has(ordinal([k, p]))) {
        throw new ProofError(`${placeOf(k, p)} was opened, but no event deals or burns it`);
      }
    }
  }
  return `${count(out.size, "card")} dealt or burnt, in the order of the shuffles`;
}

async function checkChoice(evidence) {
  const { hand } = evidence;
  const { own } = hand.receipt;
  const mine = own?.choice;
  if (mine) {
    const promised = hand.promised.find(([id]) => id === own.id)?.[2];
    if ((await choicePromiseOf(evidence, own.id, mine)) !== promised) {
      throw new ProofError("the own choice is not the promised one");
    }
  }
  const { choices, deck } = needed(hand.choose, hand.close ? NO_CHOICE : NOT_CHOSEN);
  if (choices.length !== hand.promised.length) {
    throw new ProofError(`${count(choices.length, "choice")} for ${count(hand.promised.length, "promise")}`);
  }
  for (const [i, [id, , promised]] of hand.promised.entries()) {
    if (choices[i] && (await choicePromiseOf(evidence, id, choices[i])) !== promised) {
      throw new ProofError(`choice ${i} is not the promised one`);
    }
    if (mine && id === own.id && choices[i] !== mine) {
      throw new ProofError("the own choice is not among those that decided");
    }
  }
  const [zero, one] = [0, 1].map((number) => hand.sealedDeck(number));
  if (playedDeck(await choiceDigest([zero.hc, one.hc], [zero.root, one.root], choices)) !== deck) {
    throw new ProofError(`the choices make deck ${1 - deck} the one that is played, not ${deck}`);
  }
  const given = choices.filter(Boolean).length;
  if (!given) {
    throw new NotShownError("nobody gave a choice: the service knew which deck it would open before it sealed both");
  }
  return `deck ${deck}, by ${count(given, "choice")} of ${choices.length}`;
}

async function checkTwin({ hand }) {
  const { deck, seed } = needed(hand.choose, hand.close ? NO_CHOICE : NOT_CHOSEN);
  const other = 1 - deck;
  if ((await commit(hand.receipt.table, hand.receipt.seq, seed)) !== hand.commitments[other]) {
    throw new ProofError(`the seed that was shown is not the committed one of deck ${other}`);
  }
  const sealed = hand.sealedDeck(other);
  await derive(seed, sealed);
  return `deck ${other} derived again, ${count(sealed.n, "card")}`;
}

// --- The steps ---

const READING = [
  ["document", "The file is a receipt or a history in the one accepted form."],
  ["entries", "The entries are those of this hand, in the order of the log."],
];
const CHECKS = [
  ["keys", "Each change of the log's key is signed by the old and the new key.", checkKeys],
  ["checkpoints", "Each checkpoint is signed with the key that the log had then.", checkCheckpoints],
  ["inclusion", "Each entry stands in the log.", checkInclusion],
  ["chain", "The table's entries follow each other without gap or fork.", checkChain],
  ["promises", "The hand is tied to the promises that were logged before it.", checkPromises],
  ["contributions", "The contributions have the logged root; who gave none is listed as absent.", checkContributions],
  ["own", "The holder's own seed is the promised one and went into the hand.", checkOwn],
  ["context", "Commitment, contributions and earlier shuffles are bound into each shuffle.", checkContext],
  ["seals", "The leaves of each shuffle have the root that was logged before a card was opened.", checkSeals],
  ["reshuffles", "What was shuffled again was there, and was not taken before.", checkReshuffles],
  ["openings", "Each opened card is the sealed one.", checkOpenings],
  ["items", "No item lies at two places.", checkItems],
  ["reveal", "The close reveals the committed seed in the way the table was registered with.", checkReveal],
  ["derivation", "Orders and numbers follow from the revealed seed.", checkDerivation],
  ["seeds", "The contributed seeds are the promised ones.", checkSeeds],
  ["close", "The close lists what was opened, and nothing was opened out of turn.", checkClose],
  ["deadline", "The hand was played and closed within its time.", checkDeadline],
  ["history", "The history's cards are the opened ones, in the order of the shuffles.", checkHistory],
];
const TWIN_CHECKS = [
  ["choice", "The contributors' choices are the promised ones and decide which deck is played.", checkChoice],
  ["twin", "The deck that was not played follows from its seed, in every card.", checkTwin],
];
const WITNESSES = ["witnesses", "A quorum of independent witnesses has seen the same log.", checkWitnesses];

/**
 * Check a receipt or a dealer's history, offline. MalformedError if `vkey` is no key; all else stands in the steps.
 *
 * A hand of a twin table has two steps more, "choice" and "twin"; with a policy there is one more, "witnesses".
 *
 * @param {string | Uint8Array} document its JSON
 * @param {string | null} vkey the log's first verifier key; null leaves the steps that need it not shown
 * @param {number} [now] ms since 1970; with it entries from the future are seen
 * @param {Policy} [policy] from `parsePolicy`: its quorum must have cosigned every checkpoint
 * @param {OpeningKey} [auditor] from `openingKey`: opens an escrowed seed, so that the derivation is checked
 * @returns {Promise<{ steps: Step[], hand: Hand | null, events: any[] | null }>} `hand` is null if the document cannot
 *   be read that far
 */
export async function verify(document, vkey, now, policy, auditor) {
  const logKey = vkey === null ? null : await parseVkey(vkey);
  const steps = [];
  const add = ([id, claim], outcome, detail) => steps.push({ id, claim, outcome, detail });
  const stopped = (error) => {
    if (!(error instanceof MalformedError || error instanceof ProofError)) throw error;
    const [failed, ...rest] = [...READING, ...CHECKS].slice(steps.length);
    add(failed, "failed", error.message);
    for (const each of rest) add(each, "not shown", "the document could not be read");
    return { steps, hand: null, events: null };
  };
  let read;
  try {
    read = parseDocument(document);
  } catch (error) {
    return stopped(error);
  }
  const { receipt, events } = read;
  add(READING[0], "checked", events ? "a history" : "a receipt");
  let hand;
  try {
    hand = await readHand(receipt);
  } catch (error) {
    return stopped(error);
  }
  add(READING[1], "checked", count(hand.logged.length, "entry", "entries"));
  const evidence = { hand, events, now, logKey, policy, auditor, origin: logKey ? logKey.name : receipt.origin };
  for (const step of [...CHECKS, ...(hand.twin ? TWIN_CHECKS : []), ...(policy ? [WITNESSES] : [])]) {
    try {
      add(step, "checked", await step[2](evidence));
    } catch (error) {
      if (error instanceof NotShownError) add(step, "not shown", error.message);
      else if ([ProofError, MalformedError, StreamExhaustedError].some((kind) => error instanceof kind)) {
        add(step, "failed", error.message);
      } else throw error;
    }
  }
  return { steps, hand, events };
}
