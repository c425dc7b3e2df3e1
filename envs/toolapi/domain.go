package toolapi

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"hermes/trajectory"
)

// shop is the hidden state of an episode: a small shop with its customers and orders.
type shop struct {
	Users    map[string]*user    `json:"users"`
	Orders   map[string]*order   `json:"orders"`
	Products map[string]*product `json:"products"`
}

type user struct {
	Name    string   `json:"name"`
	Email   string   `json:"email"`
	Address string   `json:"address"`
	Orders  []string `json:"orders"`
}

type order struct {
	User    string `json:"user"`
	Product string `json:"product"`
	Size    string `json:"size"`
	Status  string `json:"status"` // pending, delivered, cancelled, returned
	Address string `json:"address"`
}

type product struct {
	Name  string         `json:"name"`
	Price int            `json:"price"`
	Stock map[string]int `json:"stock"` // by size
}

// copied is a separate shop.
func (s *shop) copied() *shop {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // plain maps and texts
	}
	var c shop
	if err := json.Unmarshal(raw, &c); err != nil {
		panic(err)
	}
	return &c
}

// same compares two shops by what they hold.
func (s *shop) same(t *shop) bool {
	a, err1 := json.Marshal(s)
	b, err2 := json.Marshal(t)
	return err1 == nil && err2 == nil && string(a) == string(b)
}

// method is one call of the API. Its error is returned to the model.
type method struct {
	spec  trajectory.ToolSpec
	reads bool
	do    func(s *shop, a map[string]string) (any, error)
}

// methods lists the API. A new call is a line here.
func methods() []method {
	return []method{
		{define("find_user", "Finds a customer by e-mail address.", "email"), true, findUser},
		{define("get_user", "Gives a customer's name, address and orders.", "user_id"), true,
			func(s *shop, a map[string]string) (any, error) { return entry(s.Users, "user", a["user_id"]) }},
		{define("get_order", "Gives an order: product, size, status, address.", "order_id"), true,
			func(s *shop, a map[string]string) (any, error) { return entry(s.Orders, "order", a["order_id"]) }},
		{define("get_product", "Gives a product: name, price in cents, stock by size.", "product_id"), true,
			func(s *shop, a map[string]string) (any, error) { return entry(s.Products, "product", a["product_id"]) }},
		{define("cancel_order", "Cancels a pending order; the goods go back into stock.", "order_id"), false, cancelOrder},
		{define("return_order", "Takes a delivered order back; the goods go back into stock.", "order_id"), false, returnOrder},
		{define("change_size", "Changes the size of a pending order, if the new size is in stock.", "order_id", "size"), false, changeSize},
		{define("change_address", "Changes the address of a pending order.", "order_id", "address"), false, changeAddress},
		{define("update_user_address", "Changes the address of a customer; orders keep theirs.", "user_id", "address"), false, updateAddress},
	}
}

func define(name, about string, params ...string) trajectory.ToolSpec {
	props := map[string]any{}
	for _, p := range params {
		props[p] = map[string]string{"type": "string"}
	}
	raw, err := json.Marshal(map[string]any{"type": "object", "properties": props, "required": params, "additionalProperties": false})
	if err != nil {
		panic(err) // texts alone
	}
	return trajectory.ToolSpec{Name: name, Description: about, Parameters: raw}
}

func entry[T any](m map[string]*T, kind, id string) (*T, error) {
	if v, ok := m[id]; ok {
		return v, nil
	}
	return nil, fmt.Errorf("no %s %q", kind, id)
}

func findUser(s *shop, a map[string]string) (any, error) {
	for id, u := range s.Users {
		if strings.EqualFold(u.Email, a["email"]) {
			return map[string]string{"user_id": id}, nil
		}
	}
	return nil, fmt.Errorf("nobody has the address %q", a["email"])
}

// in gives an order if it has one of the states.
func (s *shop) in(id string, states ...string) (*order, error) {
	o, err := entry(s.Orders, "order", id)
	if err == nil && !slices.Contains(states, o.Status) {
		return nil, fmt.Errorf("order %s is %s, not %s", id, o.Status, strings.Join(states, " or "))
	}
	return o, err
}

func cancelOrder(s *shop, a map[string]string) (any, error) {
	return s.giveBack(a["order_id"], "pending", "cancelled")
}

func returnOrder(s *shop, a map[string]string) (any, error) {
	return s.giveBack(a["order_id"], "delivered", "returned")
}

func (s *shop) giveBack(id, from, to string) (any, error) {
	o, err := s.in(id, from)
	if err != nil {
		return nil, err
	}
	o.Status = to
	s.Products[o.Product].Stock[o.Size]++
	return o, nil
}

func changeSize(s *shop, a map[string]string) (any, error) {
	o, err := s.in(a["order_id"], "pending")
	if err != nil {
		return nil, err
	}
	stock := s.Products[o.Product].Stock
	if stock[a["size"]] < 1 {
		return nil, fmt.Errorf("size %q of %s is not in stock", a["size"], s.Products[o.Product].Name)
	}
	stock[o.Size]++
	stock[a["size"]]--
	o.Size = a["size"]
	return o, nil
}

func changeAddress(s *shop, a map[string]string) (any, error) {
	o, err := s.in(a["order_id"], "pending")
	if err == nil {
		o.Address = a["address"]
	}
	return o, err
}

func updateAddress(s *shop, a map[string]string) (any, error) {
	u, err := entry(s.Users, "user", a["user_id"])
	if err == nil {
		u.Address = a["address"]
	}
	return u, err
}
