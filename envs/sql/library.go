package sql

import (
	"fmt"
	"math/rand/v2"
)

func library() domain {
	return domain{name: "library", schema: []string{
		"CREATE TABLE authors (id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT NOT NULL, born INTEGER);",
		"CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT NOT NULL, author_id INTEGER NOT NULL REFERENCES authors(id), genre TEXT NOT NULL, year INTEGER NOT NULL, pages INTEGER NOT NULL);",
		"CREATE TABLE members (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL, joined TEXT NOT NULL);",
		"CREATE TABLE loans (id INTEGER PRIMARY KEY, book_id INTEGER NOT NULL REFERENCES books(id), member_id INTEGER NOT NULL REFERENCES members(id), loaned_on TEXT NOT NULL, returned_on TEXT);",
	}, fill: fillLibrary, asks: map[string][]func(*rand.Rand) question{
		"filter": {
			ask("Which books of the genre %s have more than %d pages? Give title and pages.", "SELECT title, pages FROM books WHERE genre = '%s' AND pages > %d",
				same(func(r *rand.Rand) []any { return []any{pick(r, genres), 100 * (2 + r.IntN(4))} })),
			ask("Which authors come from %s and were born before %d? An unknown year does not count. Give name and born.", "SELECT name, born FROM authors WHERE country = '%s' AND born < %d",
				same(func(r *rand.Rand) []any { return []any{pick(r, lands), 1940 + 10*r.IntN(5)} })),
			ask("Which loans from %d on are not returned yet? Give loan id and loaned_on.", "SELECT id, loaned_on FROM loans WHERE loaned_on >= '%d-01-01' AND returned_on IS NULL",
				same(func(r *rand.Rand) []any { return []any{2022 + r.IntN(3)} })),
		},
		"join": {
			ask("List the books by authors from %s that appeared after %d: title, author's name, year.", "SELECT b.title, a.name, b.year FROM books b JOIN authors a ON a.id = b.author_id WHERE a.country = '%s' AND b.year > %d",
				same(func(r *rand.Rand) []any { return []any{pick(r, lands), 1970 + 10*r.IntN(4)} })),
			ask("Which members from %s ever borrowed a book of the genre %s? Give each name once.", "SELECT DISTINCT m.name FROM members m JOIN loans l ON l.member_id = m.id JOIN books b ON b.id = l.book_id WHERE m.city = '%s' AND b.genre = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities), pick(r, genres)} })),
			ask("Which books of the genre %s were never borrowed? Give the title.", "SELECT b.title FROM books b LEFT JOIN loans l ON l.book_id = b.id WHERE b.genre = '%s' AND l.id IS NULL",
				same(func(r *rand.Rand) []any { return []any{pick(r, genres)} })),
		},
		"aggregate": {
			ask("How many pages do the books by authors from %s have on average?", "SELECT avg(b.pages) FROM books b JOIN authors a ON a.id = b.author_id WHERE a.country = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, lands)} })),
			ask("How many different members borrowed a book of the genre %s in %d?", "SELECT count(DISTINCT l.member_id) FROM loans l JOIN books b ON b.id = l.book_id WHERE b.genre = '%s' AND substr(l.loaned_on, 1, 4) = '%d'",
				same(func(r *rand.Rand) []any { return []any{pick(r, genres), 2022 + r.IntN(3)} })),
			ask("Of the books of the genre %s, give the lowest and the highest year and the sum of the pages.", "SELECT min(year), max(year), sum(pages) FROM books WHERE genre = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, genres)} })),
		},
		"group": {
			ask("For each genre with more than %d books, give the genre and the average number of pages.", "SELECT genre, avg(pages) FROM books GROUP BY genre HAVING count(*) > %d",
				same(func(r *rand.Rand) []any { return []any{6 + r.IntN(5)} })),
			ask("Which authors have at least %d books here? Give author id, name and the number of books.", "SELECT a.id, a.name, count(*) FROM authors a JOIN books b ON b.author_id = a.id GROUP BY a.id, a.name HAVING count(*) >= %d",
				same(func(r *rand.Rand) []any { return []any{3 + r.IntN(2)} })),
			ask("For each city, give the city and how many loans its members have not returned, if there are at least %d.", "SELECT m.city, count(*) FROM members m JOIN loans l ON l.member_id = m.id WHERE l.returned_on IS NULL GROUP BY m.city HAVING count(*) >= %d",
				same(func(r *rand.Rand) []any { return []any{2 + r.IntN(4)} })),
		},
		"subquery": {
			ask("Which books of the genre %s have more pages than the average of all books? Give title and pages.", "SELECT title, pages FROM books WHERE genre = '%s' AND pages > (SELECT avg(pages) FROM books)",
				same(func(r *rand.Rand) []any { return []any{pick(r, genres)} })),
			ask("Which members from %s never borrowed a book of the genre %s? Give the name.", "SELECT name FROM members m WHERE city = '%s' AND NOT EXISTS (SELECT 1 FROM loans l JOIN books b ON b.id = l.book_id WHERE l.member_id = m.id AND b.genre = '%s')",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities), pick(r, genres)} })),
			ask("Which authors from %s wrote only books with fewer than %d pages, and at least one? Give the name.", "SELECT a.name FROM authors a WHERE a.country = '%s' AND (SELECT max(pages) FROM books b WHERE b.author_id = a.id) < %d",
				same(func(r *rand.Rand) []any { return []any{pick(r, lands), 400 + 100*r.IntN(4)} })),
		},
		"window": {
			sorted(ask("For each genre the %d longest books, ties by title: genre, title, pages and their place from 1. Sort by genre, then place.",
				"SELECT genre, title, pages, n FROM (SELECT genre, title, pages, row_number() OVER (PARTITION BY genre ORDER BY pages DESC, title) AS n FROM books) WHERE n <= %d ORDER BY genre, n",
				same(func(r *rand.Rand) []any { return []any{1 + r.IntN(3)} }))),
			sorted(ask("For each book of the genre %s, give title, pages and the difference to the average pages of its author's books here. Sort by title.",
				"SELECT title, pages, d FROM (SELECT title, genre, pages, pages - avg(pages) OVER (PARTITION BY author_id) AS d FROM books) WHERE genre = '%s' ORDER BY title",
				same(func(r *rand.Rand) []any { return []any{pick(r, genres)} }))),
			sorted(ask("For the loans of members from %s, give loan id, loaned_on and the loaned_on of the same member's loan before it (NULL for the first), in the order of loaned_on, then loan id. Sort by loan id.",
				"SELECT id, loaned_on, before FROM (SELECT l.id, l.loaned_on, lag(l.loaned_on) OVER (PARTITION BY l.member_id ORDER BY l.loaned_on, l.id) AS before FROM loans l JOIN members m ON m.id = l.member_id WHERE m.city = '%s') ORDER BY id",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities)} }))),
		},
	}}
}

func fillLibrary(r *rand.Rand, f *filler) {
	for i, name := range people(r, 30) {
		f.add("authors", i+1, name, pick(r, lands), maybe(r, 6, 1920+r.IntN(80)))
	}
	for i := range 70 {
		f.add("books", i+1, fmt.Sprintf("The %s of %s %d", pick(r, []string{"garden", "winter", "road", "house", "river"}), pick(r, lands), i+1), 1+r.IntN(30), pick(r, genres), 1950+r.IntN(74), 80+r.IntN(720))
	}
	for i, name := range people(r, 40) {
		f.add("members", i+1, name, pick(r, cities), date(r, 2015, 2024))
	}
	for i := range 130 {
		day := date(r, 2022, 2024)
		f.add("loans", i+1, 1+r.IntN(62), 1+r.IntN(38), day, maybe(r, 5, day[:5]+fmt.Sprintf("12-%02d", 1+r.IntN(28))))
	}
}
