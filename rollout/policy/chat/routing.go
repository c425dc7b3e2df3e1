package chat

import "fmt"

// Routing chooses providers behind OpenRouter: the --provider-* flags.
type Routing struct {
	Order             []string `json:"order,omitempty"`
	Only              []string `json:"only,omitempty"`
	Ignore            []string `json:"ignore,omitempty"`
	Sort              string   `json:"sort,omitempty"`            // price, throughput, latency
	DataCollection    string   `json:"data_collection,omitempty"` // allow, deny
	RequireParameters bool     `json:"require_parameters,omitempty"`
}

func (r Routing) empty() bool {
	return len(r.Order)+len(r.Only)+len(r.Ignore) == 0 && r.Sort == "" && r.DataCollection == "" && !r.RequireParameters
}

func (r Routing) check() error {
	switch r.Sort {
	case "", "price", "throughput", "latency":
	default:
		return fmt.Errorf("provider sort %q (want price, throughput or latency)", r.Sort)
	}
	switch r.DataCollection {
	case "", "allow", "deny":
	default:
		return fmt.Errorf("provider data collection %q (want allow or deny)", r.DataCollection)
	}
	return nil
}
