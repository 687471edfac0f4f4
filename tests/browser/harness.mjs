/*
 * What the tests ask of rngsvc/pages/rs1.js, in Node and in Chromium alike: run a file of vectors, verify documents.
 *
 * Each function takes the module and JSON, and returns JSON. Vectors return { cases, failures: [name, ..] }.
 */

const hexOfBase64 = (text) =>
  Array.from(atob(text), (each) => each.charCodeAt(0).toString(16).padStart(2, "0")).join("");
const hexOfText = (text) => Array.from(text, (each) => each.charCodeAt(0).toString(16).padStart(2, "0")).join("");

/**
 * Verify [document, vkey, now, policy, auditor] rows; a document is text, or bytes in { base64 }, an auditor's key is
 * PEM. Returns the steps of each.
 */
export async function verifyAll(rs1, rows) {
  const reports = [];
  for (const [document, vkey, now, file, pem] of rows) {
    const policy = file ? await rs1.parsePolicy(file) : undefined;
    const auditor = pem ? await rs1.openingKey(pem) : undefined;
    const given = document.base64 === undefined ? document : rs1.toBytes(hexOfBase64(document.base64));
    const { steps } = await rs1.verify(given, vkey, now ?? undefined, policy, auditor);
    reports.push(steps.map(({ id, claim, outcome, detail }) => [id, claim, outcome, detail]));
  }
  return reports;
}

/** Return why each policy file is refused, "" where it is not. */
export async function policyErrors(rs1, files) {
  const errors = [];
  for (const file of files)
    errors.push(
      await rs1.parsePolicy(file).then(
        () => "",
        ({ message }) => message,
      ),
    );
  return errors;
}

/** Open [pem, escrow, origin, table, seq, commitment] rows; returns each seed, or why there is none. */
export async function openAll(rs1, rows) {
  const opened = [];
  for (const [pem, escrow, ...hand] of rows)
    opened.push(
      await rs1
        .openingKey(pem)
        .then((key) => rs1.openSeed(escrow, key, ...hand))
        .catch(({ message }) => message),
    );
  return opened;
}

async function tally(cases, check) {
  const failures = [];
  for (const each of cases) {
    let wrong;
    try {
      wrong = await check(each);
    } catch (error) {
      wrong = String(error);
    }
    if (wrong) failures.push(wrong);
  }
  return { cases: cases.length, failures };
}

/** Return the name of the first of `pairs` (name, found, expected) that differs, undefined if none does. */
function firstDifference(pairs) {
  return pairs.find(([, found, expected]) => JSON.stringify(found) !== JSON.stringify(expected))?.[0];
}

const refused = (promise) =>
  promise.then(
    () => false,
    () => true,
  );

export const vectors = {
  /** rngsvc/protocol/hand-protocol.json, "vectors": whole hands with their reshuffles. */
  hands(rs1, { vectors: hands }) {
    return tally(hands, async (hand) => {
      const { origin, table, seq, s, pre } = hand;
      const pairs = [["commitment", await rs1.commit(table, seq, s), hand.commitment]];
      const leaves = [];
      for (const [i, [name, seed]] of hand.contributions.entries()) {
        const id = hexOfText(name);
        leaves.push(await rs1.contributionLeaf(i, id, seed));
        if (seed) pairs.push([`promise ${i}`, await rs1.promise(origin, table, seq, id, seed), hand.promises[i]]);
      }
      pairs.push(["contributions root", await rs1.rootOf(leaves), hand.contributions_root]);
      let context = await rs1.handContext(origin, table, seq, hand.commitment, hand.contributions_root, pre);
      let items = Array.from({ length: hand.shuffles[0].n }, (_, item) => item);
      const orders = [];
      for (const [k, shuffle] of hand.shuffles.entries()) {
        if (k) {
          context = await rs1.reshuffleContext(context, hand.shuffles[k - 1].root, k, shuffle.inputs);
          items = shuffle.inputs.map(([j, p]) => orders[j][p]);
        }
        const { order, used } = await rs1.permute(s, context, k, items);
        const sealed = await rs1.seal(k, order, await rs1.salts(s, context, k, order.length));
        pairs.push([`context ${k}`, context, shuffle.context]);
        pairs.push([`order ${k}`, order, shuffle.order]);
        pairs.push([`used ${k}`, used, shuffle.bytes_used]);
        pairs.push([`leaves ${k}`, sealed, shuffle.leaves]);
        pairs.push([`root ${k}`, await rs1.cardsRoot(k, sealed), shuffle.root]);
        orders.push(order);
      }
      return firstDifference(pairs);
    });
  },

  /** rngsvc/protocol/twin-mode.json: two decks and the choice between them. */
  twins(rs1, { vectors: twins }) {
    return tally(twins, async (hand) => {
      const { origin, table, seq, pre, n } = hand;
      const pairs = [];
      const leaves = [];
      for (const [i, [name, seed, choice]] of hand.contributors.entries()) {
        const id = hexOfText(name);
        const [promised, promisedChoice] = hand.promises[i];
        leaves.push(await rs1.contributionLeaf(i, id, seed));
        if (seed) pairs.push([`promise ${i}`, await rs1.promise(origin, table, seq, id, seed), promised]);
        if (choice)
          pairs.push([`choice ${i}`, await rs1.promiseChoice(origin, table, seq, id, choice), promisedChoice]);
      }
      const contributionsRoot = await rs1.rootOf(leaves);
      pairs.push(["contributions root", contributionsRoot, hand.contributions_root]);
      const decks = [];
      for (const [number, expected] of hand.decks.entries()) {
        const s = hand.s[number];
        const commitment = await rs1.commit(table, seq, s);
        const context = await rs1.handContext(origin, table, seq, commitment, contributionsRoot, pre);
        const items = Array.from({ length: n }, (_, item) => item);
        const { order, used } = await rs1.permute(s, context, 0, items);
        const root = await rs1.cardsRoot(0, await rs1.seal(0, order, await rs1.salts(s, context, 0, n)));
        const found = { context, order, bytes_used: used, root };
        pairs.push([`commitment ${number}`, commitment, hand.commitments[number]]);
        pairs.push(...Object.keys(found).map((name) => [`${name} ${number}`, found[name], expected[name]]));
        decks.push(found);
      }
      const choices = hand.contributors.map(([, , choice]) => choice);
      const both = (name) => decks.map((deck) => deck[name]);
      const digest = await rs1.choiceDigest(both("context"), both("root"), choices);
      pairs.push(["digest", digest, hand.digest], ["deck", rs1.playedDeck(digest), hand.deck]);
      return firstDifference(pairs);
    });
  },

  /** rngsvc/protocol/hand-protocol.json, "draws". */
  draws(rs1, { draws }) {
    return tally(draws, async ({ s, context, purpose, m, count, values }) =>
      firstDifference([[purpose, await rs1.drawNumbers(s, context, hexOfText(purpose), m, count), values]]),
    );
  },

  /** Wycheproof's Ed25519 signatures. */
  ed25519(rs1, { testGroups }) {
    const cases = testGroups.flatMap(({ publicKey, tests }) => tests.map((test) => ({ ...test, key: publicKey.pk })));
    return tally(cases, async ({ tcId, key, sig, msg, result }) => {
      const wasRefused = await refused(rs1.verifyEd25519(key, sig, msg, "the signature"));
      return wasRefused === (result === "invalid") ? undefined : `tcId ${tcId}`;
    });
  },

  /** Wycheproof's HKDF-SHA-512. */
  hkdf(rs1, { testGroups }) {
    return tally(
      testGroups.flatMap(({ tests }) => tests),
      async ({ tcId, ikm, salt, info, size, okm, result }) => {
        const derived = rs1.hkdfSha512(ikm, salt, info, size);
        if (result === "invalid") return (await refused(derived)) ? undefined : `tcId ${tcId}`;
        return (await derived) === okm ? undefined : `tcId ${tcId}`;
      },
    );
  },

  /** transparency-dev's inclusion proofs. */
  inclusion(rs1, { inclusion }) {
    return tally(inclusion, async ({ leafIdx, treeSize, root, leafHash, proof, desc, wantErr }) => {
      const hashes = (proof ?? []).map(hexOfBase64);
      const shown = rs1.verifyInclusion(
        hexOfBase64(leafHash ?? ""),
        leafIdx,
        treeSize,
        hashes,
        hexOfBase64(root ?? ""),
      );
      return (await refused(shown)) === wantErr ? undefined : desc;
    });
  },

  /** transparency-dev's consistency proofs. */
  consistency(rs1, { consistency }) {
    return tally(consistency, async ({ size1, size2, root1, root2, proof, desc, wantErr }) => {
      const hashes = (proof ?? []).map(hexOfBase64);
      const shown = rs1.verifyConsistency(size1, hexOfBase64(root1 ?? ""), size2, hexOfBase64(root2 ?? ""), hashes);
      return (await refused(shown)) === wantErr ? undefined : desc;
    });
  },
};
