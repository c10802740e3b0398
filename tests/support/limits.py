"""How long what is tested may take before a test says that it waited.

Generous: both cores may be busy with something else. How fast things are is judged in benchmarks/.
"""

from __future__ import annotations

# For a call that waits for nobody. A wait takes longer: 5 s for a connection to a server that says nothing, as long as
# the test likes for a lock that it holds. A test with another wait sees to it that it is a second longer at least.
NOT_WAITED_S = 3.0

# For half of many such calls; those that a busy machine holds up are in the other half.
MOSTLY_NOT_WAITED_S = 0.1

# What is added to a deadline, for a thread that is given its turn late.
LATE_S = 3.0

# For what comes by itself: a wait that ends well costs nothing by being allowed more.
LEAST_WAIT_S = 60.0

# For everything that a provider accepted to be in Postgres.
LANDED_TIMEOUT_S = 150.0
