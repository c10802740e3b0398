"""Memories of a person and of a team that have nothing in common, and messages to an agent that have with neither.

Each memory comes with a question that it answers in other words, and with a message that shares a rare word with it
and asks for something else.
"""

from __future__ import annotations

from typing import NamedTuple


class Statement(NamedTuple):
    """A memory, a question that it answers, a message that it does not."""

    memory: str
    question: str
    aside: str


_PERSON = """
Our kitten sleeps on the radiator all afternoon. | Where does a cat like to rest? | Draw a radiator as ASCII art.
I moved to Lisbon in March. | Which city is my home? | What is the population of Lisbon?
My daughter starts school in September. | When does my child's education begin? | Who directed the film School of Rock?
I cannot eat anything with peanuts. | What food am I allergic to? | Who drew the Peanuts comic strip?
I cycle to the office every morning. | How do I commute? | What is the cycle time of a processor of 3 GHz?
My favourite author is Ursula Le Guin. | Whose novels do I enjoy most? | Set the author field in package.json.
I have been learning the cello since January. | What instrument do I play? | Which clef is cello music written in?
Our wedding anniversary is on 12 June. | When did we marry? | Name a film with a wedding in it.
I prefer short answers without bullet points. | How should you write to me? | Which HTML element makes bullet points?
My mother's house is in Annecy by the lake. | Where do my parents live? | How deep is lake Baikal?
We go hiking in the Dolomites each summer. | What do we do on holiday? | Is summer warmer in Oslo or in Rome?
I drink my coffee black, no sugar. | How do I take my espresso? | Who brought coffee to Europe first?
My running shoes are size 43. | How big are my feet? | What does the size attribute of an input element do?
The dentist wants to see me in six weeks. | When is my next medical appointment? | Write a joke about a dentist.
I drive a red electric Renault. | What car do I own? | What is electric charge measured in?
"""
_TEAM = """
Restart the database after changing shared_buffers. | How do new memory settings take effect? | Is Excel a database?
The quarterly revenue grew by twelve percent. | How do our sales develop? | What does quarterly mean in French?
Deployments are frozen from Friday noon on. | May I ship a release on the weekend? | Which day follows Friday in German?
The staging server runs Debian 12. | Which operating system has the test machine? | Who founded Debian?
We pay invoices within thirty days. | How long do suppliers wait for their money? | Spell invoices backwards.
Kafka keeps messages for seven days. | What is the retention of our event queue? | Which novels did Kafka finish?
Robin is on call this week. | Whom do I ring when production breaks tonight? | Whose sidekick is Robin in the comics?
Our style guide demands tabs, never spaces. | How do we indent code? | How many tabs can a browser have open?
The nightly backup goes to Frankfurt. | Where can we restore lost data from? | How is a Frankfurt sausage made?
API keys are rotated every ninety days. | How often do we change credentials? | How many keys does a piano have?
The app is written in Kotlin and Swift. | What do the phone developers program in? | Where was Taylor Swift born?
Stand-up is at half past nine. | When do we meet in the morning? | What is nine squared?
Customers in Japan get a discount. | Do buyers from Tokyo pay less? | What is the highest mountain in Japan?
The legal department approves every contract. | Who signs off agreements? | Which legal drama won an Emmy?
Grafana runs on monitoring.internal. | Where do I look at the metrics? | Is monitoring a noun or a verb?
"""
_REQUESTS = """
Write a haiku about snow.
Convert five miles to kilometres.
What is the capital of Mongolia?
Explain how photosynthesis works.
Translate "good evening" into Polish.
Who painted The Night Watch?
Give me a regular expression that matches an IPv4 address.
How many bytes are in a gibibyte?
What does HTTP status 418 mean?
Summarise the plot of Hamlet in two sentences.
Write a Python function that reverses a linked list.
Why is the sky blue?
Fix the off-by-one error in this loop.
Is 97 a prime number?
What is the difference between TCP and UDP?
Which planets have rings?
Rename all .jpeg files in this folder to .jpg.
Show me the git log of the last ten commits.
Add a dark mode toggle to the page.
How do I boil an egg?
Draft a polite reply that turns the invitation down.
Run the tests and tell me what fails.
Make this function faster without changing what it returns.
What is the square root of 1764?
List the files that are larger than 100 MB.
Who won the world cup in 1998?
Compare quicksort and merge sort.
Can you open the pull request now?
Please continue with the next step.
What would you do in my place?
"""


def _statements(table: str) -> list[Statement]:
    return [Statement(*(cell.strip() for cell in line.split("|"))) for line in table.strip().splitlines()]


PERSON, TEAM = _statements(_PERSON), _statements(_TEAM)
REQUESTS = _REQUESTS.strip().splitlines()
