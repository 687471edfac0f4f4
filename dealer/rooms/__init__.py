"""The houses: each room is its rule page as data (`<room>.py`) beside the page in our own words (`<room>.md`)."""
