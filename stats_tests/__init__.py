"""A statistical battery for card shuffles, from raw bits to dealt hands, that an auditor can sign."""
