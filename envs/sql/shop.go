package sql

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

func shop() domain {
	return domain{name: "shop", schema: []string{
		"CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT NOT NULL, joined TEXT NOT NULL, phone TEXT);",
		"CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, category TEXT NOT NULL, price REAL NOT NULL);",
		"CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL REFERENCES customers(id), ordered_on TEXT NOT NULL, status TEXT NOT NULL);",
		"CREATE TABLE order_items (order_id INTEGER NOT NULL REFERENCES orders(id), product_id INTEGER NOT NULL REFERENCES products(id), quantity INTEGER NOT NULL, PRIMARY KEY (order_id, product_id));",
	}, fill: fillShop, asks: map[string][]func(*rand.Rand) question{
		"filter": {
			ask("Which customers from %s joined in %d or later? Give name and joined.", "SELECT name, joined FROM customers WHERE city = '%s' AND joined >= '%d-01-01'",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities), 2020 + r.IntN(3)} })),
			ask("Which products of the category %s cost more than %d? Give name and price.", "SELECT name, price FROM products WHERE category = '%s' AND price > %d",
				same(func(r *rand.Rand) []any { return []any{pick(r, goods), 10 * (1 + r.IntN(6))} })),
			ask("Which customers from %s have no phone? Give the name.", "SELECT name FROM customers WHERE city = '%s' AND phone IS NULL",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities)} })),
			sorted(ask("The %d dearest products, the dearest first, ties by name: give name and price.", "SELECT name, price FROM products ORDER BY price DESC, name LIMIT %d",
				same(func(r *rand.Rand) []any { return []any{3 + r.IntN(8)} }))),
		},
		"join": {
			ask("Which customers have an order with status %s? Give each name once.", "SELECT DISTINCT c.name FROM customers c JOIN orders o ON o.customer_id = c.id WHERE o.status = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, states)} })),
			ask("List the orders of customers from %s that were made in %d: order id, customer name, ordered_on.", "SELECT o.id, c.name, o.ordered_on FROM orders o JOIN customers c ON c.id = o.customer_id WHERE c.city = '%s' AND substr(o.ordered_on, 1, 4) = '%d'",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities), 2022 + r.IntN(3)} })),
			ask("Which products of the category %s were never ordered? Give the name.", "SELECT p.name FROM products p LEFT JOIN order_items i ON i.product_id = p.id WHERE p.category = '%s' AND i.order_id IS NULL",
				same(func(r *rand.Rand) []any { return []any{pick(r, goods)} })),
		},
		"aggregate": {
			ask("How many orders with status %s did customers from %s make? Give one number.", "SELECT count(*) FROM orders o JOIN customers c ON c.id = o.customer_id WHERE o.status = '%s' AND c.city = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, states), pick(r, cities)} })),
			ask("What is the average price of products of the category %s?", "SELECT avg(price) FROM products WHERE category = '%s'",
				same(func(r *rand.Rand) []any { return []any{pick(r, goods)} })),
			ask("What did all orders of %d with status %s come to, quantity times price?", "SELECT sum(i.quantity * p.price) FROM order_items i JOIN products p ON p.id = i.product_id JOIN orders o ON o.id = i.order_id WHERE substr(o.ordered_on, 1, 4) = '%d' AND o.status = '%s'",
				same(func(r *rand.Rand) []any { return []any{2022 + r.IntN(3), pick(r, states)} })),
		},
		"group": {
			ask("For each city with at least %d customers, give the city and how many customers it has.", "SELECT city, count(*) FROM customers GROUP BY city HAVING count(*) >= %d",
				same(func(r *rand.Rand) []any { return []any{4 + r.IntN(3)} })),
			ask("For each category, give the category and the quantity that was sold in orders with status %s, if it is more than %d.", "SELECT p.category, sum(i.quantity) FROM order_items i JOIN products p ON p.id = i.product_id JOIN orders o ON o.id = i.order_id WHERE o.status = '%s' GROUP BY p.category HAVING sum(i.quantity) > %d",
				same(func(r *rand.Rand) []any { return []any{pick(r, states), 5 * (1 + r.IntN(6))} })),
			ask("Which customers made more than %d orders? Give customer id, name and the number of orders.", "SELECT c.id, c.name, count(*) FROM customers c JOIN orders o ON o.customer_id = c.id GROUP BY c.id, c.name HAVING count(*) > %d",
				same(func(r *rand.Rand) []any { return []any{2 + r.IntN(3)} })),
		},
		"subquery": {
			ask("Which products of the category %s cost more than the average of their category? Give name and price.", "SELECT name, price FROM products WHERE category = '%[1]s' AND price > (SELECT avg(price) FROM products WHERE category = '%[1]s')",
				same(func(r *rand.Rand) []any { return []any{pick(r, goods)} })),
			ask("Which customers from %s ordered nothing in %d? Give the name.", "SELECT name FROM customers WHERE city = '%s' AND id NOT IN (SELECT customer_id FROM orders WHERE substr(ordered_on, 1, 4) = '%d')",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities), 2022 + r.IntN(3)} })),
			ask("Which orders of %d hold more different products than the average order of all years does? Give order id and the number of different products.",
				"SELECT o.id, count(*) FROM orders o JOIN order_items i ON i.order_id = o.id WHERE substr(o.ordered_on, 1, 4) = '%d' GROUP BY o.id HAVING count(*) > (SELECT avg(n) FROM (SELECT count(*) AS n FROM order_items GROUP BY order_id))",
				same(func(r *rand.Rand) []any { return []any{2022 + r.IntN(3)} })),
		},
		"window": {
			sorted(ask("For each category the %d dearest products, ties by name: category, name, price and their place from 1. Sort by category, then place.",
				"SELECT category, name, price, n FROM (SELECT category, name, price, row_number() OVER (PARTITION BY category ORDER BY price DESC, name) AS n FROM products) WHERE n <= %d ORDER BY category, n",
				same(func(r *rand.Rand) []any { return []any{1 + r.IntN(3)} }))),
			sorted(ask("For each customer from %s and each of their orders, give customer id, ordered_on, and how many orders they had made up to and including it, ordered by date and then by order id. Sort by customer id, then that number.",
				"SELECT customer_id, ordered_on, n FROM (SELECT o.customer_id, o.ordered_on, row_number() OVER (PARTITION BY o.customer_id ORDER BY o.ordered_on, o.id) AS n FROM orders o JOIN customers c ON c.id = o.customer_id WHERE c.city = '%s') ORDER BY customer_id, n",
				same(func(r *rand.Rand) []any { return []any{pick(r, cities)} }))),
			sorted(ask("For each month of %d with orders, give the month as YYYY-MM, its number of orders and the running total of orders since January. Sort by month.",
				"SELECT m, n, sum(n) OVER (ORDER BY m) FROM (SELECT substr(ordered_on, 1, 7) AS m, count(*) AS n FROM orders WHERE substr(ordered_on, 1, 4) = '%d' GROUP BY m) ORDER BY m",
				same(func(r *rand.Rand) []any { return []any{2022 + r.IntN(3)} }))),
		},
	}}
}

var states = strings.Fields("pending shipped delivered returned")

func fillShop(r *rand.Rand, f *filler) {
	for i, name := range people(r, 40) {
		f.add("customers", i+1, name, pick(r, cities), date(r, 2018, 2024), maybe(r, 3, fmt.Sprintf("+%d", 10_000_000+r.IntN(90_000_000))))
	}
	for i := range 45 {
		f.add("products", i+1, fmt.Sprintf("%s set %d", pick(r, goods), 100+7*i+r.IntN(7)), pick(r, goods), float64(200+r.IntN(9800))/100)
	}
	for i := range 120 {
		f.add("orders", i+1, 1+r.IntN(38), date(r, 2022, 2024), pick(r, states))
		seen := map[int]bool{}
		for range 1 + r.IntN(4) {
			if p := 1 + r.IntN(40); !seen[p] {
				seen[p] = true
				f.add("order_items", i+1, p, 1+r.IntN(5))
			}
		}
	}
}
