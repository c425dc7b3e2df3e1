package parsers_test

import (
	"fmt"

	"hermes/parsers"
)

// A whole answer of a family that is known by name.
func ExampleFamily_Parse() {
	family, err := parsers.Standard().Get("hermes")
	if err != nil {
		fmt.Println(err)
		return
	}
	p := family.Parse("I look.\n<tool_call>\n{\"name\": \"ls\", \"arguments\": {\"path\": \"/tmp\"}}\n</tool_call>", parsers.ParseOptions{})
	fmt.Printf("%q\n", p.Content)
	for _, c := range p.Calls {
		fmt.Println(c.Name, c.Arguments, c.State)
	}
	// Output:
	// "I look.\n"
	// ls {"path": "/tmp"} complete
}

// Text that cannot be read is not lost: it stays content, and lies under a fault.
func ExampleFamily_Parse_cut() {
	p := parsers.Hermes.Parse(`Wait.<tool_call>{"name": "l`, parsers.ParseOptions{})
	fmt.Printf("%d calls, %q\n", len(p.Calls), p.Content)
	for _, f := range p.Faults {
		fmt.Println(f.Kind)
	}
	// Output:
	// 0 calls, "Wait.<tool_call>{\"name\": \"l"
	// truncated
}

// The family of a text from an unknown model.
func ExampleAuto() {
	family, p, found := parsers.Auto("<tool_call>{\"name\": \"now\", \"arguments\": {}}</tool_call>", parsers.ParseOptions{})
	fmt.Println(family, found, p.Calls[0].Name)
	// Output: hermes true now
}
