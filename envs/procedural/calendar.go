package procedural

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

const isoDay = "2006-01-02"

// calendarArithmetic: dates, weekdays, working days and clocks.
func calendarArithmetic(r *rand.Rand, level int) Puzzle {
	day := time.Date(1990+r.IntN(40), 1, 1, 0, 0, 0, 0, time.UTC).AddDate(0, 0, r.IntN(365))
	span := 1 + r.IntN(15*level*level)
	switch kind := r.IntN(min(3+level/2, 6)); kind {
	case 0:
		return dayAnswer(fmt.Sprintf("Which date is %d days after %s?", span, day.Format(isoDay)), day.AddDate(0, 0, span))
	case 1:
		return dayAnswer(fmt.Sprintf("Which date is %d days before %s?", span, day.Format(isoDay)), day.AddDate(0, 0, -span))
	case 2:
		later := day.AddDate(0, 0, span)
		return numberAnswer(fmt.Sprintf("How many days after %s is %s?", day.Format(isoDay), later.Format(isoDay)), span, "day", "days")
	case 3:
		nth, month := 1+r.IntN(4), time.Date(day.Year(), day.Month(), 1, 0, 0, 0, 0, time.UTC)
		first := (int(day.Weekday()) - int(month.Weekday()) + 7) % 7
		return dayAnswer(fmt.Sprintf("Which date is %s number %d of %s?", day.Weekday(), nth, day.Format("January 2006")), month.AddDate(0, 0, first+7*(nth-1)))
	case 4:
		n := 1 + r.IntN(5*level)
		end := day
		for left := n; left > 0; {
			end = end.AddDate(0, 0, 1)
			if w := end.Weekday(); w != time.Saturday && w != time.Sunday {
				left--
			}
		}
		return dayAnswer(fmt.Sprintf("Work begins on %s and takes %d working days; the first working day after that date is day 1, and Saturdays and Sundays are free. Which date is day %d?", day.Format(isoDay), n, n), end)
	}
	return flight(r, day, level)
}

// flight: a clock in another time zone.
func flight(r *rand.Rand, day time.Time, level int) Puzzle {
	offset := func() int { return 15 * (r.IntN(97) - 48) } // minutes, -12:00 to +12:00
	from := offset()
	to := offset()
	start := r.IntN(24 * 60)
	takes := 30 + r.IntN(200*level)
	land := day.Add(time.Duration(start-from+takes+to) * time.Minute)
	zone := func(m int) string { return fmt.Sprintf("UTC%+03d:%02d", m/60, max(m, -m)%60) }
	if from < 0 && from > -60 || to < 0 && to > -60 {
		return flight(r, day, level) // %+03d has no -00
	}
	at := land.Format("2006-01-02 15:04")
	return Puzzle{
		Question: fmt.Sprintf("A plane starts on %s at %02d:%02d local time, where clocks show %s. It flies for %d hours and %d minutes and lands where clocks show %s. When does it land in local time? Answer in the form YYYY-MM-DD HH:MM.",
			day.Format(isoDay), start/60, start%60, zone(from), takes/60, takes%60, zone(to)),
		Answer: at, Check: oneWord(at),
	}
}

func dayAnswer(question string, day time.Time) Puzzle {
	return Puzzle{Question: question + " Answer in the form YYYY-MM-DD.", Answer: day.Format(isoDay), Check: oneWord(day.Format(isoDay))}
}

func numberAnswer(question string, n int, units ...string) Puzzle {
	return Puzzle{Question: question, Answer: strconv.Itoa(n), Check: number(n, units...)}
}
