package toolapi

import "hermes/envs"

// Amounts is what a text tells.
var Amounts = amounts

// Prices are those of all goods of a task's shop.
func Prices(t envs.Task) (list []string) {
	for _, p := range t.Hidden.(*scene).start.Products {
		list = append(list, spelled(p.Price))
	}
	return list
}
