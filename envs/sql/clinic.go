package sql

import (
	"math/rand/v2"
)

func clinic() domain {
	return domain{name: "clinic", schema: []string{
		"CREATE TABLE doctors (id INTEGER PRIMARY KEY, name TEXT NOT NULL, specialty TEXT NOT NULL, hired TEXT NOT NULL);",
		"CREATE TABLE patients (id INTEGER PRIMARY KEY, name TEXT NOT NULL, born TEXT NOT NULL, city TEXT NOT NULL, insurer TEXT);",
		"CREATE TABLE visits (id INTEGER PRIMARY KEY, patient_id INTEGER NOT NULL REFERENCES patients(id), doctor_id INTEGER NOT NULL REFERENCES doctors(id), visited_on TEXT NOT NULL, fee REAL NOT NULL);",
		"CREATE TABLE prescriptions (id INTEGER PRIMARY KEY, visit_id INTEGER NOT NULL REFERENCES visits(id), drug TEXT NOT NULL, days INTEGER NOT NULL);",
	}, fill: fillClinic, asks: map[string][]func(*rand.Rand) question{
		"filter": {
			ask("Which patients from %s were born before %d? Give name and born.", "SELECT name, born FROM patients WHERE city = '%s' AND born < '%d-01-01'",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities), 1960 + 10*r.IntN(5)} })),
			ask("Which patients from %s have no insurer? Give the name.", "SELECT name FROM patients WHERE city = '%s' AND insurer IS NULL",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities)} })),
			ask("Which visits of %d cost more than %d? Give visit id, visited_on and fee.", "SELECT id, visited_on, fee FROM visits WHERE substr(visited_on, 1, 4) = '%d' AND fee > %d",
				same(func(r *rand.Rand) []any { return []any{2022 + r.IntN(3), 100 + 20*r.IntN(5)} })),
		},
		"join": {
			ask("Which patients ever saw a doctor of %s? Give each patient's id and name once.", "SELECT DISTINCT p.id, p.name FROM patients p JOIN visits v ON v.patient_id = p.id JOIN doctors d ON d.id = v.doctor_id WHERE d.specialty = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, skills)} })),
			ask("List the prescriptions of %s for more than %d days: patient's name, visited_on, days.", "SELECT p.name, v.visited_on, x.days FROM prescriptions x JOIN visits v ON v.id = x.visit_id JOIN patients p ON p.id = v.patient_id WHERE x.drug = '%s' AND x.days > %d",
				same(func(r *rand.Rand) []any { return []any{pick(r, drugs), 5 + r.IntN(12)} })),
			ask("Which visits of patients from %s ended without a prescription? Give visit id and visited_on.", "SELECT v.id, v.visited_on FROM visits v JOIN patients p ON p.id = v.patient_id LEFT JOIN prescriptions x ON x.visit_id = v.id WHERE p.city = '%s' AND x.id IS NULL",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities)} })),
		},
		"aggregate": {
			ask("What did the visits of patients insured by %s cost in all in %d?", "SELECT sum(v.fee) FROM visits v JOIN patients p ON p.id = v.patient_id WHERE p.insurer = '%s' AND substr(v.visited_on, 1, 4) = '%d'",
				same(func(r *rand.Rand) []any { return []any{pick(r, payers), 2022 + r.IntN(3)} })),
			ask("How many different patients did the doctors of %s see?", "SELECT count(DISTINCT v.patient_id) FROM visits v JOIN doctors d ON d.id = v.doctor_id WHERE d.specialty = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, skills)} })),
			ask("For how many days on average was %s prescribed, and how often?", "SELECT avg(days), count(*) FROM prescriptions WHERE drug = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, drugs)} })),
		},
		"group": {
			ask("For each specialty, give the specialty and the average fee of its visits in %d.", "SELECT d.specialty, avg(v.fee) FROM visits v JOIN doctors d ON d.id = v.doctor_id WHERE substr(v.visited_on, 1, 4) = '%d' GROUP BY d.specialty",
				same(func(r *rand.Rand) []any { return []any{2022 + r.IntN(3)} })),
			ask("Which patients came more than %d times? Give patient id, name and the number of visits.", "SELECT p.id, p.name, count(*) FROM patients p JOIN visits v ON v.patient_id = p.id GROUP BY p.id, p.name HAVING count(*) > %d",
				same(func(r *rand.Rand) []any { return []any{2 + r.IntN(3)} })),
			ask("For each drug that was prescribed at least %d times, give the drug and the days of all its prescriptions together.", "SELECT drug, sum(days) FROM prescriptions GROUP BY drug HAVING count(*) >= %d",
				same(func(r *rand.Rand) []any { return []any{14 + r.IntN(6)} })),
		},
		"subquery": {
			ask("Which visits to doctors of %s cost more than the average visit of the clinic? Give visit id and fee.", "SELECT v.id, v.fee FROM visits v JOIN doctors d ON d.id = v.doctor_id WHERE d.specialty = '%s' AND v.fee > (SELECT avg(fee) FROM visits)",
				same(func(r *rand.Rand) []any { return []any{pick(r, skills)} })),
			ask("Which patients from %s never got %s? Give the name.", "SELECT name FROM patients p WHERE city = '%s' AND NOT EXISTS (SELECT 1 FROM visits v JOIN prescriptions x ON x.visit_id = v.id WHERE v.patient_id = p.id AND x.drug = '%s')",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities), pick(r, drugs)} })),
			ask("For each doctor of %s who saw anybody, give the doctor's name and the date of their last visit.", "SELECT d.name, (SELECT max(visited_on) FROM visits v WHERE v.doctor_id = d.id) FROM doctors d WHERE d.specialty = '%s' AND d.id IN (SELECT doctor_id FROM visits)",
				same(func(r *rand.Rand) []any { return []any{pick(r, skills)} })),
		},
		"window": {
			sorted(ask("For each doctor of %s the first visit, by visited_on and then visit id: doctor id, visit id, visited_on. Sort by doctor id.",
				"SELECT doctor_id, id, visited_on FROM (SELECT v.doctor_id, v.id, v.visited_on, row_number() OVER (PARTITION BY v.doctor_id ORDER BY v.visited_on, v.id) AS n FROM visits v JOIN doctors d ON d.id = v.doctor_id WHERE d.specialty = '%s') WHERE n = 1 ORDER BY doctor_id",
				same(func(r *rand.Rand) []any { return []any{pick(r, skills)} }))),
			sorted(ask("For the visits of patients from %s, give visit id, fee and what part of that patient's fees in all it is, as a number from 0 to 1. Sort by visit id.",
				"SELECT id, fee, part FROM (SELECT v.id, v.fee, v.fee / sum(v.fee) OVER (PARTITION BY v.patient_id) AS part FROM visits v JOIN patients p ON p.id = v.patient_id WHERE p.city = '%s') ORDER BY id",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities)} }))),
			sorted(ask("For each month of %d with visits, give the month as YYYY-MM, its fees and the running total of fees since January. Sort by month.",
				"SELECT m, s, sum(s) OVER (ORDER BY m) FROM (SELECT substr(visited_on, 1, 7) AS m, sum(fee) AS s FROM visits WHERE substr(visited_on, 1, 4) = '%d' GROUP BY m) ORDER BY m",
				same(func(r *rand.Rand) []any { return []any{2022 + r.IntN(3)} }))),
		},
	}}
}

func fillClinic(r *rand.Rand, f *filler) {
	for i, name := range people(r, 14) {
		f.add("doctors", i+1, "Dr "+name, pick(r, skills), date(r, 2005, 2021))
	}
	for i, name := range people(r, 45) {
		f.add("patients", i+1, name, date(r, 1930, 2015), pick(r, cities), maybe(r, 4, pick(r, payers)))
	}
	for i := range 130 {
		f.add("visits", i+1, 1+r.IntN(43), 1+r.IntN(14), date(r, 2022, 2024), float64(3000+r.IntN(20000))/100)
	}
	for i := range 90 {
		f.add("prescriptions", i+1, 1+r.IntN(130), pick(r, drugs), 3+r.IntN(25))
	}
}
