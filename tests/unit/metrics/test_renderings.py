"""How often metrics are rendered, and how old a repeated rendering is."""

from apf_middleware.metrics import Rendering, Renderings

SECOND = 10**9
PLAIN, MODERN = ("", False), ("application/openmetrics-text;version=1.0.0", True)


class Scraped:
    """Renderings, and the moments at which one was made."""

    def __init__(self) -> None:
        self.renderings = Renderings()
        self.made: list[int] = []

    def scrape(self, now: int, key: tuple[str, bool] = PLAIN) -> int:
        """Return the age of the rendering."""
        found = self.renderings.find(now, key)
        if found is None:
            self.made.append(now)
            found = Rendering(str(now).encode(), "text/plain", is_gzip=False)
            self.renderings.keep(now, key, found)
        return now - int(found.body)


def test_a_flood_of_scrapes_is_answered_with_ten_renderings_a_second_after_a_burst() -> None:
    scraped = Scraped()

    ages = [scraped.scrape(number * SECOND // 200) for number in range(200 * 60)]

    assert len(scraped.made) <= 20 + 10 * 60
    assert max(ages) <= SECOND // 10


def test_scrapes_at_usual_intervals_and_after_a_pause_are_fresh() -> None:
    scraped = Scraped()

    assert [scraped.scrape(number * SECOND // 10) for number in range(100)] == [0] * 100
    for number in range(1_000):
        scraped.scrape(10 * SECOND + number)
    assert scraped.scrape(10 * SECOND + 1_001) > 0
    assert scraped.scrape(10 * SECOND + 1_001 + SECOND // 10) == 0


def test_a_few_scrapes_at_one_moment_are_fresh() -> None:
    scraped = Scraped()

    assert [scraped.scrape(SECOND + number) for number in range(20)] == [0] * 20


def test_a_flood_in_one_format_does_not_make_another_one_old() -> None:
    scraped = Scraped()
    scraped.scrape(0, MODERN)

    for number in range(200 * 60):
        scraped.scrape(number * SECOND // 200)

    assert scraped.scrape(60 * SECOND - 1, MODERN) == 0
