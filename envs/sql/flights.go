package sql

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

func flights() domain {
	return domain{name: "flights", schema: []string{
		"CREATE TABLE airports (code TEXT PRIMARY KEY, city TEXT NOT NULL, country TEXT NOT NULL);",
		"CREATE TABLE airlines (id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT NOT NULL);",
		"CREATE TABLE flights (id INTEGER PRIMARY KEY, airline_id INTEGER NOT NULL REFERENCES airlines(id), origin TEXT NOT NULL REFERENCES airports(code), destination TEXT NOT NULL REFERENCES airports(code), departs_on TEXT NOT NULL, distance_km INTEGER NOT NULL, delay_minutes INTEGER);",
		"CREATE TABLE bookings (id INTEGER PRIMARY KEY, flight_id INTEGER NOT NULL REFERENCES flights(id), passenger TEXT NOT NULL, class TEXT NOT NULL, paid REAL NOT NULL);",
	}, fill: fillFlights, asks: map[string][]func(*rand.Rand) question{
		"filter": {
			ask("Which flights leave from %s and are longer than %d km? Give flight id, destination and distance_km.", "SELECT id, destination, distance_km FROM flights WHERE origin = '%s' AND distance_km > %d",
				same(func(r *rand.Rand) []any { return []any{pick(r, codes), 500 * (1 + r.IntN(4))} })),
			ask("Which flights of %d were late by more than %d minutes? Give flight id and delay_minutes.", "SELECT id, delay_minutes FROM flights WHERE substr(departs_on, 1, 4) = '%d' AND delay_minutes > %d",
				same(func(r *rand.Rand) []any { return []any{2022 + r.IntN(3), 20 + 20*r.IntN(5)} })),
			ask("Which flights to %s have no recorded delay_minutes? Give flight id and departs_on.", "SELECT id, departs_on FROM flights WHERE destination = '%s' AND delay_minutes IS NULL",
				same(func(r *rand.Rand) []any { return []any{pick(r, codes)} })),
		},
		"join": {
			ask("List the flights of airlines from %s: flight id, airline's name, city of the destination.", "SELECT f.id, l.name, a.city FROM flights f JOIN airlines l ON l.id = f.airline_id JOIN airports a ON a.code = f.destination WHERE l.country = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, lands)} })),
			ask("Who flew in the class %s from %s? Give each passenger once.", "SELECT DISTINCT b.passenger FROM bookings b JOIN flights f ON f.id = b.flight_id WHERE b.class = '%s' AND f.origin = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, classes), pick(r, codes)} })),
			ask("Which flights from %s have no booking? Give flight id and departs_on.", "SELECT f.id, f.departs_on FROM flights f LEFT JOIN bookings b ON b.flight_id = f.id WHERE f.origin = '%s' AND b.id IS NULL",
				same(func(r *rand.Rand) []any { return []any{pick(r, codes)} })),
		},
		"aggregate": {
			ask("What is the average delay in minutes of flights to %s, those without a recorded one left out?", "SELECT avg(delay_minutes) FROM flights WHERE destination = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, codes)} })),
			ask("How much was paid in all for the class %s on flights of %d?", "SELECT sum(b.paid) FROM bookings b JOIN flights f ON f.id = b.flight_id WHERE b.class = '%s' AND substr(f.departs_on, 1, 4) = '%d'",
				same(func(r *rand.Rand) []any { return []any{pick(r, classes), 2022 + r.IntN(3)} })),
			ask("Of the flights from %s, give their number, the shortest and the longest distance_km.", "SELECT count(*), min(distance_km), max(distance_km) FROM flights WHERE origin = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, codes)} })),
		},
		"group": {
			ask("For each airline with more than %d flights, give its name and its number of flights.", "SELECT l.name, count(*) FROM airlines l JOIN flights f ON f.airline_id = l.id GROUP BY l.id, l.name HAVING count(*) > %d",
				same(func(r *rand.Rand) []any { return []any{8 + r.IntN(6)} })),
			ask("For each origin whose recorded delays are more than %d minutes on average, give the origin and that average.", "SELECT origin, avg(delay_minutes) FROM flights GROUP BY origin HAVING avg(delay_minutes) > %d",
				same(func(r *rand.Rand) []any { return []any{40 + 5*r.IntN(7)} })),
			ask("For each class, give the class, the number of bookings and the average paid, of flights longer than %d km.", "SELECT b.class, count(*), avg(b.paid) FROM bookings b JOIN flights f ON f.id = b.flight_id WHERE f.distance_km > %d GROUP BY b.class",
				same(func(r *rand.Rand) []any { return []any{300 * (1 + r.IntN(6))} })),
		},
		"subquery": {
			ask("Which flights from %s are longer than the average of all flights? Give flight id and distance_km.", "SELECT id, distance_km FROM flights WHERE origin = '%s' AND distance_km > (SELECT avg(distance_km) FROM flights)",
				same(func(r *rand.Rand) []any { return []any{pick(r, codes)} })),
			ask("Which airlines have no flight to %s? Give the name.", "SELECT name FROM airlines WHERE id NOT IN (SELECT airline_id FROM flights WHERE destination = '%s')",
				same(func(r *rand.Rand) []any { return []any{pick(r, codes)} })),
			ask("Which passengers paid for a booking of the class %s more than the average of that class? Give each passenger once.", "SELECT DISTINCT passenger FROM bookings WHERE class = '%[1]s' AND paid > (SELECT avg(paid) FROM bookings WHERE class = '%[1]s')",
				same(func(r *rand.Rand) []any { return []any{pick(r, classes)} })),
		},
		"window": {
			sorted(ask("For each origin the %d longest flights, ties by flight id: origin, flight id, distance_km and their place from 1. Sort by origin, then place.",
				"SELECT origin, id, distance_km, n FROM (SELECT origin, id, distance_km, row_number() OVER (PARTITION BY origin ORDER BY distance_km DESC, id) AS n FROM flights) WHERE n <= %d ORDER BY origin, n",
				same(func(r *rand.Rand) []any { return []any{1 + r.IntN(3)} }))),
			sorted(ask("For the flights to %s, in the order of departs_on, then flight id: flight id, departs_on, and the sum of distance_km up to and including it.",
				"SELECT id, departs_on, sum(distance_km) OVER (ORDER BY departs_on, id) FROM flights WHERE destination = '%s' ORDER BY departs_on, id",
				same(func(r *rand.Rand) []any { return []any{pick(r, codes)} }))),
			sorted(ask("For each airline, give its name, its number of flights in %d and its rank by that number, the most first, equal numbers with equal ranks and gaps behind them. Airlines without a flight are left out. Sort by rank, then name.",
				"SELECT name, n, rank() OVER (ORDER BY n DESC) AS place FROM (SELECT l.name, count(*) AS n FROM airlines l JOIN flights f ON f.airline_id = l.id WHERE substr(f.departs_on, 1, 4) = '%d' GROUP BY l.id, l.name) ORDER BY place, name",
				same(func(r *rand.Rand) []any { return []any{2022 + r.IntN(3)} }))),
		},
	}}
}

var codes = strings.Fields("AAR BGO ORK RTM EVR GNT OPO TRN")

func fillFlights(r *rand.Rand, f *filler) {
	for i, code := range codes {
		f.add("airports", code, cities[i], pick(r, lands))
	}
	for i := range 12 {
		f.add("airlines", i+1, fmt.Sprintf("%s Air %d", pick(r, lands), i+1), pick(r, lands))
	}
	for i := range 140 {
		from, to := r.IntN(len(codes)), r.IntN(len(codes)-1)
		if to >= from {
			to++
		}
		f.add("flights", i+1, 1+r.IntN(12), codes[from], codes[to], date(r, 2022, 2024), 150+r.IntN(3000), maybe(r, 6, r.IntN(120)))
	}
	for i := range 160 {
		f.add("bookings", i+1, 1+r.IntN(125), person(r), pick(r, classes), float64(3000+r.IntN(90000))/100)
	}
}
