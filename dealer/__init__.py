"""The dealer: a card room's stud and draw games, from the rules to the table."""
