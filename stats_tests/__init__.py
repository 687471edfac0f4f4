"""A statistical battery for card shuffles, from raw bits to dealt hands, that an auditor can sign."""

import os

# The battery spreads its work over processes. Threads of the linear algebra library inside each would only wait for
# each other; the library reads this when NumPy is first imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
