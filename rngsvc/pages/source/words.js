/* What both pages call a hand's end. */

const OUTCOMES = { complete: "played to its end", aborted: "broken off", lost: "lost by the room" };

const REASONS = {
  expired: "its time ran out",
  misdeal: "a misdeal",
  players_left: "too few players remained",
  rng_lost: "the table lost its connection to the shuffle service",
  caller: "the table gave it up",
  exhausted: "the byte stream was used up",
  seed_lost: "the stored seed cannot be read",
  key_lost: "the key to the stored seeds is gone",
};

/** Return how a hand ended: a close entry's `outcome` and `reason` (may be empty). */
export const ending = (outcome, reason) => OUTCOMES[outcome] + (reason ? `: ${REASONS[reason]}` : "");
